"""The port between a write from Spark and the log: begin, let tasks write, and make all of it visible or nothing.

In both implementations, the progress of a writer is a consumer offset that is committed together with the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ....storage import AppendInfo, CommittedOffset, EncodedBatches, TopicDescription, TopicPartition
from ..answers import Answer, Written

if TYPE_CHECKING:
    from ..exactly_once.progress import Progress, Run
    from ..targets import Targets

Topics = Mapping[str, TopicDescription]  # by name
Offsets = Mapping[TopicPartition, CommittedOffset]
Decision = Callable[[], list[Written]]
Append = Callable[[str, int, EncodedBatches], AppendInfo]


class TaskNumbers(NamedTuple):
    """A task of Spark's."""

    task: int  # the partition of its stage
    attempt: int  # 0: the first
    attempt_id: int  # the id of this attempt; no other attempt of the application has it


class Appender(Protocol):
    """Takes the record batches of one attempt of a task. For one thread."""

    def append(self, topic: str, partition: int, batches: EncodedBatches) -> AppendInfo:
        """Adds batches of validated records, and changes their buffer."""
        ...

    def finish(self) -> bytes | None:
        """Makes the added records durable; returns the data that the driver needs to commit them, None if nothing."""
        ...

    def close(self) -> None:
        """Ends the attempt; without :meth:`finish`, nothing of it may be committed."""
        ...


class Ticket(Protocol):
    """A write that has begun, for its tasks and for the process that ends it. Can be pickled."""

    @property
    def app_id(self) -> str: ...

    def appender(self, directory: str, topics: Topics, numbers: TaskNumbers) -> Appender:
        """Returns the appender of a task. Raises TransactionRefusedError if this attempt must not write."""
        ...

    def resumed(self, directory: str, *, is_named: bool) -> Publication:
        """Returns a writer that can commit or abort the write in another process than the one that began it."""
        ...

    def abort(self, directory: str) -> None:
        """Ends the write in another process than the one that began it, unless it is decided already."""
        ...


@dataclass(frozen=True)
class Write:
    """The content of a write: a version of a writer, to topics."""

    ticket: Ticket
    topics: Topics  # that tasks may write to
    wanted: Sequence[str]  # the topics whose progress advances to the version; not the topic for bad records
    progress: Progress


class Publication(Protocol):
    """A writer of one log. For one thread at a time."""

    @property
    def directory(self) -> str:
        """The log directory, absolute, or the URL."""
        ...

    def committed(self) -> Offsets:
        """Returns the writer's progress: the offsets of its group."""
        ...

    def check(self, progress: Progress, topics: Topics) -> None:
        """Raises ProgressMismatchError if a partition has fewer records than the progress states."""
        ...

    def begin(self, topics: Topics, progress: Progress) -> Ticket:
        """Begins a write; an earlier unfinished write of the writer can no longer be committed."""
        ...

    def running(self, ticket: Ticket, *, are_here: bool) -> AbstractContextManager[Ticket]:
        """Yields the ticket for tasks that run during the block; ``are_here``: on this machine."""
        ...

    def decision(self, write: Write, answers: Sequence[Answer], written: Iterable[Written]) -> Decision:
        """Checks the answers of tasks; returns the function that commits all of it, with the progress.

        That function returns the records of each task, with their offsets in the log; an empty list if the log had the
        version already. Its errors: TransactionAbortedError if nothing is committed and another attempt may succeed;
        OutcomeUnknownError if it is not known; another one if the writer must stop.
        """
        ...

    def abort(self, ticket: Ticket) -> None:
        """Ends a write that must not be committed. Does not change a committed write."""
        ...

    def is_current(self) -> bool:
        """Whether the log is the one that was opened."""
        ...

    def note(self, topics: Topics) -> None:
        """Remembers topics that will be written to, for :meth:`is_current`."""
        ...

    def checkpoint(self) -> None:
        """Writes checkpoints that make the next opening faster."""
        ...

    def close(self) -> None:
        """Releases the writer."""
        ...


class End(Protocol):
    """Begins writes to one kind of log; the modules ``bucket`` and ``log_directory`` do so."""

    @property
    def MAY_REPEAT_TASKS(self) -> bool:  # noqa: N802  a constant of the module
        """Whether two attempts of one task may write at the same time."""
        ...

    def prepared(self, targets: Targets, before_creating: Callable[[], None]) -> dict[str, TopicDescription]:
        """Returns the topics in a log; creates it, and them, if they are missing (:meth:`Targets.prepare`).

        ``before_creating`` is called before anything is created in an empty place.
        """
        ...

    def kept(self, directory: str, run: Run) -> Publication:
        """Returns the driver's writer of a query, which has its name until another one takes over.

        Raises LogDirLockedError while another process writes to a directory under the name.
        """
        ...

    def taken(self, directory: str, app_id: str, timeout_ms: int, *, is_named: bool) -> Publication:
        """Returns a writer for one write, which another process ends. ``is_named``: whether it has progress."""
        ...
