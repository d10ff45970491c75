"""Publication to a log directory: each write is a Kafka transaction, and the driver is its coordinator.

A task appends to the partitions themselves, so a second attempt, which cannot know the records of the first one, is
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Self

from ....storage import (
    TRANSACTION_TIMEOUT_MS,
    AppendInfo,
    EncodedBatches,
    GroupOffsets,
    LogManager,
    TopicDescription,
    TopicPartition,
    Transaction,
    TransactionalWriter,
    TransactionCoordinator,
    TransactionRefusedError,
    this_process,
)
from ..answers import Answer, Written
from ..exactly_once.log_ends import check_partitions
from ..exactly_once.progress import Progress, Run
from ..targets import Targets, manager_for
from .port import Decision, Offsets, TaskNumbers, Ticket, Topics, Write

MAY_REPEAT_TASKS = False  # both attempts would append


@dataclass(frozen=True)
class TransactionTicket:
    """A begun transaction. ``unsynced``: base offsets of the segments that the driver syncs, by partition."""

    transaction: Transaction
    unsynced: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def app_id(self) -> str:
        return self.transaction.transactional_id

    def appender(self, directory: str, topics: Topics, numbers: TaskNumbers) -> TransactionAppender:
        if numbers.attempt:
            raise TransactionRefusedError(f"task {numbers.task} was started again, attempt {numbers.attempt}")
        manager = manager_for(directory, topics)
        return TransactionAppender(TransactionalWriter(manager, self.transaction, unsynced=self.unsynced))

    def resumed(self, directory: str, *, is_named: bool) -> TransactionPublication:
        """Takes no lock."""
        return TransactionPublication.taken(
            directory, lambda manager: TransactionCoordinator.resume(manager, self.transaction), is_named=is_named
        )

    def abort(self, directory: str) -> None:
        with suppress(TransactionRefusedError), closing(self.resumed(directory, is_named=False)) as publication:
            publication.abort(self)


class TransactionAppender:
    """Appends to partitions, whose readers skip the records until the commit."""

    def __init__(self, writer: TransactionalWriter) -> None:
        self._writer = writer

    def append(self, topic: str, partition: int, batches: EncodedBatches) -> AppendInfo:
        return self._writer.append(topic, partition, batches)

    def finish(self) -> None:
        self._writer.sync()

    def close(self) -> None:
        """Does nothing: logs stay open in the worker."""


class TransactionPublication:
    """A writer under a transactional id. Keeps it locked until :meth:`close`, unless it ends another's transaction."""

    def __init__(
        self,
        manager: LogManager,
        coordinator: TransactionCoordinator,
        *,
        is_named: bool = True,
        keep_lock_file: bool = False,
    ) -> None:
        """``is_named``: whether the writer has progress; if not, each of its writes is new."""
        self.manager, self.coordinator = manager, coordinator
        self._is_named, self._keep_lock_file = is_named, keep_lock_file
        self._app_id = coordinator.transactional_id
        self._groups = GroupOffsets(manager)
        self._inodes: dict[str, int | None] = {}
        self._checked: set[str] = set()  # topics

    @classmethod
    def taken(cls, directory: str, take: Callable[[LogManager], TransactionCoordinator], **more: bool) -> Self:
        """Opens the directory and takes over the transactional id.

        Raises the errors of :meth:`TransactionCoordinator.open`.
        """
        manager = LogManager.open(directory)
        try:
            return cls(manager, take(manager), **more)
        except BaseException:
            manager.close()
            raise

    @property
    def directory(self) -> str:
        return self.manager.directory

    def committed(self) -> Offsets:
        return self._groups.fetch_to_commit(self._app_id) if self._is_named else {}

    def check(self, progress: Progress, topics: Topics) -> None:
        """Checks each topic only once, because logs that are open notice changed files themselves."""
        ends = progress.ends(topics)
        check_partitions(self.manager, {name: ends[name] for name in ends.keys() - self._checked}, topics)
        self._checked |= topics.keys()

    def begin(self, topics: Topics, progress: Progress) -> TransactionTicket:
        partitions = [each for topic in topics.values() for each in topic.topic_partitions]
        groups = [self._app_id] if self._is_named else []
        return TransactionTicket(self.coordinator.begin(partitions, groups=groups, counted=progress.counted(topics)))

    @contextmanager
    def running(self, ticket: Ticket, *, are_here: bool) -> Iterator[Ticket]:
        """Syncs the records that tasks on this machine append."""
        assert isinstance(ticket, TransactionTicket)
        if not are_here:
            yield ticket
            return
        with self.coordinator.syncing(ticket.transaction) as unsynced:
            yield replace(ticket, unsynced=dict(unsynced))

    def decision(self, write: Write, answers: Sequence[Answer], written: Iterable[Written]) -> Decision:
        ticket, written = write.ticket, list(written)
        assert isinstance(ticket, TransactionTicket)
        parts, offsets = write.progress.to_commit(write.wanted, written, write.topics)

        def commit() -> list[Written]:
            self.coordinator.commit(ticket.transaction, parts, offsets if self._is_named else {})
            return written

        return commit

    def abort(self, ticket: Ticket) -> None:
        assert isinstance(ticket, TransactionTicket)
        self.coordinator.abort(ticket.transaction)

    def is_current(self) -> bool:
        """Whether the directories of the open logs are the same."""
        return self._inodes_of(self._inodes) == self._inodes

    def note(self, topics: Topics) -> None:
        partitions = [(topic.name, number) for topic in topics.values() for number in topic.partitions]
        partitions += [self._groups.partition_of(self._app_id)]
        directories = [self.manager.directory, *(self.manager.partition_path(*partition) for partition in partitions)]
        self._inodes |= self._inodes_of(path for path in directories if path not in self._inodes)

    def _inodes_of(self, directories: Iterable[str]) -> dict[str, int | None]:
        found = {path: self.manager.filesystem.status(path) for path in directories}
        return {path: None if status is None else status.inode for path, status in found.items()}

    def checkpoint(self) -> None:
        self.coordinator.checkpoint()

    def close(self) -> None:
        """Closes the logs cleanly and releases the transactional id."""
        try:
            self.coordinator.close(keep_lock_file=self._keep_lock_file)
        finally:
            self.manager.close()


def prepared(targets: Targets, before_creating: Callable[[], None]) -> dict[str, TopicDescription]:
    """Returns the topics in a directory; creates it, and them, if they are missing (:meth:`Targets.prepare`).

    ``before_creating`` is called before anything is created in an empty directory.
    """
    with LogManager.open(targets.directory, create=True) as manager:
        if not manager.filesystem.list(targets.directory):  # perhaps its disk is not mounted
            before_creating()
        return targets.prepare(manager)


def kept(directory: str, run: Run) -> TransactionPublication:
    """Returns the writer of a query, after it ended a transaction that the last holder of its name did not end."""
    return TransactionPublication.taken(
        directory,
        lambda manager: TransactionCoordinator.open(
            manager, run.app_id, timeout_ms=TRANSACTION_TIMEOUT_MS, holder=this_process()
        ),
        keep_lock_file=True,
    )


def taken(directory: str, app_id: str, timeout_ms: int, *, is_named: bool) -> TransactionPublication:
    """Returns the writer of one write, after it ended a transaction as :func:`kept` does."""
    return TransactionPublication.taken(
        directory,
        lambda manager: TransactionCoordinator.open(manager, app_id, timeout_ms=timeout_ms),
        is_named=is_named,
    )
