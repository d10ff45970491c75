"""PartitionProgress: the offsets up to which a partition was fetched and consumed."""

from __future__ import annotations

import threading

from ..zookeeper_groups.assignment import Partition


class PartitionProgress:
    """Offsets of one partition while this consumer owns it; None: not known yet."""

    def __init__(self, partition: Partition, offset: int | None) -> None:
        self.partition = partition
        self.fetched = offset  # where to fetch from next
        self.consumed = offset  # the offset after the last yielded message, which a commit writes
        self.committed = offset  # the offset that the last commit wrote
        self.has_failed = False  # no fetches until the partition is read from another offset

    def begin_at(self, offset: int) -> None:
        """Sets the next offset to fetch and consume."""
        self.fetched = self.consumed = offset
        self.has_failed = False


class Progress:
    """The partitions that this consumer owns. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # Guards the mapping, not its values.
        self._owned: dict[Partition, PartitionProgress] = {}

    def set(self, owned: dict[Partition, PartitionProgress]) -> None:
        """Replaces all partitions."""
        with self._lock:
            self._owned = dict(owned)

    def clear(self) -> None:
        """Removes all partitions."""
        self.set({})

    def owned(self) -> dict[Partition, PartitionProgress]:
        """Returns the partitions."""
        with self._lock:
            return dict(self._owned)

    def positions(self) -> dict[Partition, int]:
        """Returns the offset after the last message yielded, by partition."""
        return {each: at.consumed for each, at in self.owned().items() if at.consumed is not None}

    def uncommitted(self) -> dict[Partition, int]:
        """Returns the offsets that are not committed yet."""
        return {
            partition: each.consumed
            for partition, each in self.owned().items()
            if each.consumed is not None and each.consumed != each.committed
        }

    def note_committed(self, offsets: dict[Partition, int]) -> None:
        """Notes which offsets were committed."""
        for partition, each in self.owned().items():
            if partition in offsets:
                each.committed = offsets[partition]
