"""GroupRecords: the interface of what a coordinator of groups reads and writes, wherever the log is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from ..errors import LogStoreError
from ..format.files.file_names import TopicPartition
from ..format.internal.group_records import GroupRecordKey
from ..format.internal.internal_topics import GroupMetadataKey, GroupMetadataValue, OffsetCommitValue
from ..writing.checked_appends import Producer
from .offsets import GroupKey, GroupValue


class GroupChange(NamedTuple):
    """A record to write: a key's value, or None, which deletes the key."""

    key: GroupKey
    value: GroupValue | None
    only_if: GroupValue | None = None  # the key's value, without which nothing is written; None: written in any case


class GroupFence(NamedTuple):
    """Refuses the changes beside it if another coordinator has stored the group since this one did."""

    key: GroupMetadataKey | GroupRecordKey
    expected: GroupMetadataValue | bytes | None  # as this coordinator read or stored it; a deleted record fits, too


Changes = Sequence[GroupChange | GroupFence]


class TransactionalOffsets(NamedTuple):
    """Offsets of a group in the open transaction of a producer."""

    group: str
    offsets: Mapping[TopicPartition, OffsetCommitValue]
    producer: Producer
    check: Callable[[], object]  # raises an error, with nothing written, if the transaction may not get them
    fence: GroupFence | None = None


class GroupRecords(Protocol):
    """The records of groups. They belong to one thread."""

    def contents(
        self, failures: list[LogStoreError] | None = None, *, partitions: Collection[int] | None = None
    ) -> dict[GroupKey, GroupValue]:
        """As :meth:`GroupOffsets.contents`. ``partitions``: those to read, and no others; None: all."""
        ...

    def records(self, group: str) -> dict[GroupKey, GroupValue]:
        """Returns the current records of a group, in the order in which they must be deleted.

        Those of open transactions are not among them. Raises as :meth:`offsets`.
        """
        ...

    def one_look(self) -> AbstractContextManager[None]:
        """Looks at the log once for all that is read within it, which must write nothing."""
        ...

    def offsets(self, group: str, wanted: Collection[TopicPartition]) -> dict[TopicPartition, OffsetCommitValue]:
        """Returns the offsets that a group committed in the ``wanted`` partitions, as far as it did."""
        ...

    def undecided(self, group: str) -> set[TopicPartition]:
        """Returns the partitions in which open transactions committed offsets of a group. Raises as :meth:`offsets`."""
        ...

    def write(self, writes: Sequence[Changes]) -> Sequence[LogStoreError | None]:
        """Writes changes, each item those of one group; returns the error of each, None for one that is durable."""
        ...

    def write_transactional(self, writes: Sequence[TransactionalOffsets]) -> Sequence[Exception | None]:
        """Commits offsets in open transactions; returns the error of each, None for one that is durable."""
        ...

    def close(self) -> None:
        """Ends the use of the log."""
        ...
