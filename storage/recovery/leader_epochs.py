"""LeaderEpochCache: the start offset of each leader epoch (Kafka's LeaderEpochFileCache)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..format.constants import NO_LEADER_EPOCH, NO_OFFSET
from ..format.files.checkpoints import EpochEntry, encode_leader_epochs


class EpochEndOffset(NamedTuple):
    """An epoch and the offset after its last record; (-1, -1) if unknown."""

    epoch: int
    end_offset: int


def _keep_nothing(_: bytes) -> None:
    """Writes nothing: for the cache of a reader, or a temporary one during recovery."""


class LeaderEpochCache:
    """The leader epochs of a log and the offsets at which they begin, both increasing.

    After each change in memory, the cache calls ``write`` with the content of the new ``leader-epoch-checkpoint``, and
    raises the errors of ``write``. The checkpoint can be rebuilt from the batch headers of the log.
    """

    def __init__(self, entries: Iterable[EpochEntry] = (), write: Callable[[bytes], None] = _keep_nothing) -> None:
        """Begins with the entries of a checkpoint.

        An entry replaces the entries before it whose epoch or start offset is equal to its own or larger.
        """
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
        """The entry of the latest epoch; None if there are no entries."""
        return self._entries[-1] if self._entries else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that ``epoch`` begins at ``start_offset``; no-op if it is the latest epoch and began at or below it.

        Removes the entries with the same or a later epoch, or the same or a larger offset. Raises ValueError if a
        number is negative.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"leader epoch {epoch} cannot begin at offset {start_offset}: both must be 0 or more")
        latest = self.latest
        if latest is None or epoch != latest.epoch or start_offset < latest.start_offset:
            self._put(EpochEntry(epoch, start_offset))
            self._write(self.to_bytes())

    def clear(self) -> None:
        """Remove all entries, as is necessary when batches without epochs are appended."""
        if self._entries:
            self._replace([])

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the epochs that begin at or above ``end_offset``, the new end of the log."""
        if self._entries and self._entries[-1].start_offset >= end_offset:
            self._replace([entry for entry in self._entries if entry.start_offset < end_offset])

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove the epochs that ended below ``start_offset``, the new start of the log.

        The epoch of ``start_offset`` then begins at it.
        """
        before = [entry for entry in self._entries if entry.start_offset <= start_offset]
        if before and before != [EpochEntry(before[-1].epoch, start_offset)]:
            self._replace([EpochEntry(before[-1].epoch, start_offset), *self._entries[len(before) :]])

    def epoch_for(self, offset: int) -> int:
        """The leader epoch of the record at ``offset``; -1 if unknown."""
        epochs = [entry.epoch for entry in self._entries if entry.start_offset <= offset]
        return epochs[-1] if epochs else NO_LEADER_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """The largest known epoch at or below ``epoch``, and the offset after its last record; (-1, -1) if unknown."""
        latest = self.latest
        if latest is None or epoch == NO_LEADER_EPOCH or epoch > latest.epoch:
            return EpochEndOffset(NO_LEADER_EPOCH, NO_OFFSET)
        if epoch == latest.epoch:
            return EpochEndOffset(epoch, log_end_offset)
        higher = next(entry for entry in self._entries if entry.epoch > epoch)
        lower = [entry.epoch for entry in self._entries if entry.epoch <= epoch]
        return EpochEndOffset(lower[-1] if lower else epoch, higher.start_offset)

    def to_bytes(self) -> bytes:
        """The content of the ``leader-epoch-checkpoint``."""
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
