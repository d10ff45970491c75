"""GroupRecords: the interface to the records of a groups' coordinator, for a directory or an object store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from ..errors import LogStoreError
from ..format.files.file_names import TopicPartition
from ..format.internal.group_records import GroupRecordKey
from ..format.internal.internal_topics import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ..recovery.producer_state import Producer
from .offsets import GroupKey, GroupValue


class GroupChange(NamedTuple):
    """A record to write: a key's value, or None, which deletes the key."""

    key: GroupKey
    value: GroupValue | None
    only_if: GroupValue | None = None  # write only if the key has this value; None: write in any case


class GroupFence(NamedTuple):
    """Refuses the changes of its item if another coordinator has stored the group since this one did."""

    key: GroupMetadataKey | GroupRecordKey
    expected: GroupMetadataValue | bytes | None  # last read or stored by this coordinator; a deleted record fits, too


Changes = Sequence[GroupChange | GroupFence]
ReadFailures = dict[int, LogStoreError | OSError]  # by partition of ``__consumer_offsets``


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
        self, failures: ReadFailures | None = None, *, partitions: Collection[int] | None = None
    ) -> dict[GroupKey, GroupValue]:
        """Like :meth:`GroupOffsets.contents`; ``failures`` gets the errors by partition.

        ``partitions``: the only ones to read; None: all.
        """
        ...

    def records(self, group: str) -> dict[GroupKey, GroupValue]:
        """Returns the current records of a group, in the order in which they must be deleted.

        Records of open transactions are not included. Raises the errors of :meth:`offsets`.
        """
        ...

    def one_look(self) -> AbstractContextManager[None]:
        """Within the block, all reads share one read of the log; nothing may be written there."""
        ...

    def offsets(self, group: str, wanted: Collection[TopicPartition]) -> dict[TopicPartition, OffsetCommitValue]:
        """Returns the offsets that a group has committed in the ``wanted`` partitions."""
        ...

    def undecided(self, group: str) -> set[TopicPartition]:
        """Returns the partitions in which open transactions committed offsets of a group.

        Raises the errors of :meth:`offsets`.
        """
        ...

    def undecided_in(self, topics: Collection[str]) -> Sequence[OffsetCommitKey]:
        """Returns the offsets in topics that open transactions committed, as of the last :meth:`contents`."""
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
