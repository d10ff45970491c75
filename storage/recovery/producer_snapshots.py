"""Loads the state of a partition's producers at an offset: from a snapshot, and the batches that follow it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

from ..errors import CorruptionError
from ..filesystem.operations import is_made, read_file
from ..format.files import checkpoints, file_names
from ..format.files.checkpoints import ProducerEntry
from ..segment.collection import LogSegments
from ..segment.walk import LogContext
from ..segment.writer import LogSegment
from .producer_state_manager import ProducerStateManager
from .segment_recovery import replay
from .snapshot_check import disagreement

logger = logging.getLogger(__name__)

RECALLED_BYTES = 4 * 1024 * 1024  # of batches before a snapshot
SIDECAR_BYTES_MAX = 64 * 1024 * 1024  # a snapshot of a million producers; larger is damage


class ProducerLoader:
    """Loads the state of a partition's producers at an offset."""

    def __init__(self, context: LogContext, log_start_offset: int) -> None:
        """Reads nothing. Snapshots at or below ``log_start_offset`` are not used."""
        self.context = context
        self.log_start_offset = log_start_offset
        self._snapshots = set[int]()  # the offsets of existing snapshots
        self._passes_damage = False

    def producers_at(
        self,
        end_offset: int,
        segments: LogSegments,
        *,
        despite_damage: bool = False,
        seen: Collection[int] = (),
    ) -> ProducerStateManager:
        """Returns the state of the producers at ``end_offset``, from the snapshots that the directory has now.

        ``seen``: the offsets of earlier listed snapshots; the directory is not listed again while the needed one still
        exists.

        Raises CorruptionError for damage between the snapshot and ``end_offset``. With ``despite_damage``, skips
        damaged batches instead, and sets ``is_partial`` of the result.
        """
        try:
            return self._producers_at(end_offset, segments, seen)
        except CorruptionError:
            if not despite_damage:
                raise
            self._passes_damage = True
            producers = self._producers_at(end_offset, segments, seen)
            producers.is_partial = True
            return producers

    def _producers_at(self, end_offset: int, segments: LogSegments, seen: Collection[int]) -> ProducerStateManager:
        if self._has_newest(seen, end_offset):
            self._snapshots = {*seen}
        else:
            self._snapshots = _snapshots_in(self.context.filesystem.list(self.context.directory))
        return self._state_at(end_offset, segments)

    def _has_newest(self, seen: Collection[int], end_offset: int) -> bool:
        """Whether the newest of these snapshots up to ``end_offset`` is still there."""
        newest = max((offset for offset in seen if offset <= end_offset), default=None)
        if newest is None:
            return False
        path = self._path(file_names.segment_file(newest, file_names.SNAPSHOT))
        return self.context.filesystem.status(path) is not None

    def producers_as_of(self, now_ms: int, end_offset: int, segments: LogSegments) -> ProducerStateManager:
        """Returns the state of the producers at ``end_offset``, without those that had expired at ``now_ms``.

        Begins with the oldest snapshot, because newer ones lack producers that expired later than ``now_ms``.
        """
        listing = self.context.filesystem.list(self.context.directory)
        self._snapshots = _snapshots_in(listing)
        return self._replayed(self._from_snapshot(end_offset, now_ms, segments, newest=False), end_offset, segments)

    def _state_at(self, end_offset: int, segments: LogSegments) -> ProducerStateManager:
        """Returns the state at ``end_offset``: the newest sound snapshot, updated by the batches that follow it."""
        producers = self._from_snapshot(end_offset, self.context.clock.now_ms(), segments)
        if self.context.writable and producers.producers:
            self._recall(producers, segments)
        return self._replayed(producers, end_offset, segments)

    def _recall(self, producers: ProducerStateManager, segments: LogSegments) -> None:
        """Adds batches from shortly before a snapshot, which has only the last one of each producer.

        A client repeats up to five batches that were not answered, beginning with the oldest. Kafka writes snapshots
        when it rolls a segment or stops; here any process that closes the log writes one, also amid such batches.
        """
        segment = segments.floor(producers.map_end_offset - 1)
        if segment is None:
            return
        with suppress(CorruptionError):  # a reader of these batches gets the error
            near = segment.position_before(producers.map_end_offset) - RECALLED_BYTES
            entry = segment.offset_index.last_below(near)
            first_offset = segment.base_offset if entry is None else entry.offset
            windows = segment.from_index(first_offset, until=producers.map_end_offset - 1)
            producers.recall(window.headers for window in windows)

    def _replayed(
        self, producers: ProducerStateManager, end_offset: int, segments: LogSegments
    ) -> ProducerStateManager:
        reaching = segments.reaching(producers.map_end_offset) if producers.map_end_offset < end_offset else ()
        before: LogSegment | None = None
        for segment in reaching:
            if segment.base_offset >= end_offset:
                break
            if before is not None and not self._passes_damage and not self.context.writable:
                segment.check_follows(before, producers.map_end_offset)
            self._replay_part(segment, producers, end_offset)
            before = segment
        producers.map_end_offset = end_offset
        producers.on_high_watermark(end_offset)  # markers after the snapshot are as stable as those before it
        return producers

    def _replay_part(self, segment: LogSegment, producers: ProducerStateManager, end_offset: int) -> None:
        start_offset = producers.map_end_offset
        if self._passes_damage:
            windows = segment.sound_batches(segment.position_before(start_offset))
        else:
            windows = segment.from_index(start_offset, until=end_offset - 1)  # what follows may be torn
        for window in windows:
            last_offsets = window.headers.table["last_offset"]
            wanted = window.headers[(last_offsets >= start_offset) & (last_offsets < end_offset)]
            if len(wanted):
                replay(segment, window._replace(headers=wanted), producers, index_aborts=False)

    def _from_snapshot(
        self, end_offset: int, now_ms: int, segments: LogSegments, *, newest: bool = True
    ) -> ProducerStateManager:
        producers = ProducerStateManager(self.context.directory)
        producers.map_end_offset = 0
        for offset in sorted(self._snapshots, reverse=newest):
            if self.log_start_offset < offset <= end_offset:
                entries = self._decoded_snapshot(offset)
                if entries is None:
                    continue
                fault = self._disagreement(entries, offset, segments)
                if fault is not None:
                    path = self._path(file_names.segment_file(offset, file_names.SNAPSHOT))
                    logger.warning("%s: the snapshot contradicts the log (%s); using another snapshot", path, fault)
                    continue
                producers.load(entries, now_ms, offset)
                break
        return producers

    def _disagreement(self, entries: Sequence[ProducerEntry], offset: int, segments: LogSegments) -> str | None:
        """Returns how a snapshot contradicts the log, for readers; None if it does not, or damage hides it.

        Raises CorruptionError for damage if the snapshot has an open transaction: a reader that waits for its end may
        never reach the damage, so the error must be raised here. Otherwise the reader gets the error at the damage.
        """
        path = self._path(file_names.segment_file(offset, file_names.SNAPSHOT))
        if self.context.writable or is_made(self.context.filesystem, path):
            return None
        try:
            return disagreement(entries, offset, segments)
        except CorruptionError:
            has_open = any(entry.current_txn_first_offset >= 0 for entry in entries)
            if has_open and not self._passes_damage:
                raise
            return None

    def _decoded_snapshot(self, offset: int) -> list[ProducerEntry] | None:
        """The entries of the snapshot at ``offset``; None if it is damaged, or was removed after it was listed."""
        path = self._path(file_names.segment_file(offset, file_names.SNAPSHOT))
        try:
            return checkpoints.decode_snapshot(read_file(self.context.filesystem, path, SIDECAR_BYTES_MAX))
        except (CorruptionError, FileNotFoundError) as error:
            logger.warning("%s: %s; using another snapshot", path, error)
            return None

    def _write_snapshot(self, producers: ProducerStateManager) -> None:
        write_snapshot(self.context, producers)
        self._snapshots.add(producers.map_end_offset)

    def _path(self, name: str) -> str:
        return file_names.join(self.context.directory, name)


def write_snapshot(context: LogContext, producers: ProducerStateManager, *, sync: bool = False) -> None:
    """Write a snapshot of the current state at ``producers.map_end_offset``; no reader sees it unfinished.

    ``sync`` is needed if batches of producers will be removed from the log, as compaction and retention do; the caller
    syncs the directory. Otherwise the snapshot may be lost in a power cut: if it is torn then, its checksum reveals
    that, and an older one is used. A snapshot that replaces another one is always synced, because the log may need it.
    A killed process leaves the earlier snapshot, or none, and perhaps a ``.tmp``, which has no meaning.
    """
    filesystem = context.filesystem
    path = file_names.join(context.directory, file_names.segment_file(producers.map_end_offset, file_names.SNAPSHOT))
    with filesystem.open(path + file_names.TMP, "create") as file:
        file.truncate(0)
        file.write(0, producers.to_bytes())
        if sync or filesystem.status(path) is not None:
            file.sync()
    filesystem.rename(path + file_names.TMP, path)


def stray_snapshots(snapshot_offsets: Iterable[int], segment_bases: Iterable[int]) -> list[int]:
    """Returns the offsets of the snapshots to remove when a log is opened, ascending (Kafka's removeStraySnapshots).

    Keeps the snapshots at the base offset of a segment, and the newest one if it is above the last base offset.
    """
    bases = set(segment_bases)
    strays = sorted(set(snapshot_offsets) - bases)
    if strays and strays[-1] >= max(bases, default=0):
        strays.pop()
    return strays


def snapshots_outside(snapshot_offsets: Iterable[int], log_start_offset: int, log_end_offset: int) -> list[int]:
    """Returns the offsets of the snapshots to remove when a log is truncated, ascending.

    These are the snapshots outside its new range.
    """
    return sorted(offset for offset in snapshot_offsets if not log_start_offset < offset <= log_end_offset)


def _snapshots_in(listing: Iterable[str]) -> set[int]:
    """Returns the offsets of the snapshots in a directory."""
    names = [name for name in listing if name.endswith(file_names.SNAPSHOT)]
    return file_names.by_suffix(file_names.segment_files(names))[file_names.SNAPSHOT]
