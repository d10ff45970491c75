"""LeaderEpochCache: the start offset of each leader epoch (Kafka's LeaderEpochFileCache)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..format.constants import NO_LEADER_EPOCH, NO_OFFSET
from ..format.files.checkpoints import EpochEntry, encode_leader_epochs


class EpochEndOffset(NamedTuple):
    """The exclusive end offset of an epoch; (-1, -1) if unknown."""

    epoch: int
    end_offset: int


def _keep_nothing(_: bytes) -> None:
    """For a cache without a checkpoint: a reader's, or a temporary one during recovery."""


class LeaderEpochCache:
    """Epochs and the offsets at which they begin, both increasing.

    Every change passes the bytes of the new ``leader-epoch-checkpoint`` to ``write``, after the change in memory;
    exceptions from ``write`` are passed on. The checkpoint can be rebuilt from the batch headers of the log.
    """

    def __init__(self, entries: Iterable[EpochEntry] = (), write: Callable[[bytes], None] = _keep_nothing) -> None:
        """``entries`` from a checkpoint: an entry that does not begin above its predecessors replaces them."""
        self._entries: list[EpochEntry] = []
        self._write = write
        for entry in entries:
            self._put(entry)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, ascending."""
        return tuple(self._entries)

    @property
    def latest(self) -> EpochEntry | None:
        """The current epoch."""
        return self._entries[-1] if self._entries else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """Let ``epoch`` begin at ``start_offset``; changes nothing if it is the latest and began before.

        Drops entries that contradict it, of the same or a later epoch or offset. Raises ValueError for a negative
        number.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"leader epoch {epoch} at offset {start_offset}: neither may be negative")
        latest = self.latest
        if latest is None or epoch != latest.epoch or start_offset < latest.start_offset:
            self._put(EpochEntry(epoch, start_offset))
            self._write(self.to_bytes())

    def clear(self) -> None:
        """Drop all entries, as on appending a format without epochs."""
        if self._entries:
            self._replace([])

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that begin at or above ``end_offset``, the new end of the log."""
        if self._entries and self._entries[-1].start_offset >= end_offset:
            self._replace([entry for entry in self._entries if entry.start_offset < end_offset])

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop the epochs that ended before ``start_offset``; the one current there now begins there."""
        before = [entry for entry in self._entries if entry.start_offset <= start_offset]
        if before and before != [EpochEntry(before[-1].epoch, start_offset)]:
            self._replace([EpochEntry(before[-1].epoch, start_offset), *self._entries[len(before) :]])

    def epoch_for(self, offset: int) -> int:
        """The epoch at ``offset``; -1 if unknown."""
        epochs = [entry.epoch for entry in self._entries if entry.start_offset <= offset]
        return epochs[-1] if epochs else NO_LEADER_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """The end of the largest known epoch that is not above ``epoch``."""
        latest = self.latest
        if latest is None or epoch == NO_LEADER_EPOCH or epoch > latest.epoch:
            return EpochEndOffset(NO_LEADER_EPOCH, NO_OFFSET)
        if epoch == latest.epoch:
            return EpochEndOffset(epoch, log_end_offset)
        higher = next(entry for entry in self._entries if entry.epoch > epoch)
        lower = [entry.epoch for entry in self._entries if entry.epoch <= epoch]
        return EpochEndOffset(lower[-1] if lower else epoch, higher.start_offset)

    def to_bytes(self) -> bytes:
        """The ``leader-epoch-checkpoint``."""
        return encode_leader_epochs(self._entries)

    def _put(self, new: EpochEntry) -> None:
        while self._entries and (
            self._entries[-1].epoch >= new.epoch or self._entries[-1].start_offset >= new.start_offset
        ):
            self._entries.pop()
        self._entries.append(new)

    def _replace(self, entries: list[EpochEntry]) -> None:
        self._entries = entries
        self._write(self.to_bytes())
