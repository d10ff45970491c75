"""Cleaner: rounds of compaction over a log (Kafka's Cleaner; spec 12.4 to 12.8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from pyspark_commitlog.storage.cleaner.filtering import Counts, Filter, Rules
from pyspark_commitlog.storage.cleaner.output import Output
from pyspark_commitlog.storage.cleaner.ranges import Cleanable, cleanable, group_segments
from pyspark_commitlog.storage.cleaner.swapping import swap_in
from pyspark_commitlog.storage.cleaner.transactions import Transactions
from pyspark_commitlog.storage.clock import Clock
from pyspark_commitlog.storage.config import CleanerConfig
from pyspark_commitlog.storage.errors import InvalidConfigError
from pyspark_commitlog.storage.filesystem import FileStatus
from pyspark_commitlog.storage.format.tables import Int64s
from pyspark_commitlog.storage.kernels.offset_map import OffsetMap
from pyspark_commitlog.storage.log import Log
from pyspark_commitlog.storage.segment import LogSegment
from pyspark_commitlog.storage.segment_reader import Window

WINDOW_BYTES_MIN = 64 * 1024  # below, calls cost more than the work; a batch is read whole anyhow
_OFFSET_MAP_BYTES_MAX = 2**31 - 1  # as in Kafka, whatever the buffer


def _nothing() -> None:
    """Nothing speaks against going on."""


@dataclass(frozen=True)
class CleanResult:
    """What a round did."""

    next_first_dirty_offset: int  # for the cleaner-offset-checkpoint
    segments_before: int = 0
    segments_after: int = 0
    counts: Counts = field(default_factory=Counts)


class Cleaner:
    """Compacts one log after the other. Its memory is that of the buffers in its config, whatever the logs' sizes."""

    def __init__(self, config: CleanerConfig | None = None) -> None:
        """Raises InvalidConfigError where the offset map would hold no key, so that no round came to an end."""
        self.config = config or CleanerConfig()
        memory = min(self.config.dedupe_buffer_size // self.config.threads, _OFFSET_MAP_BYTES_MAX)
        self.offset_map = OffsetMap(memory, self.config.io_buffer_load_factor)
        if self.offset_map.limit < 1:
            raise InvalidConfigError(
                f"log.cleaner.dedupe.buffer.size = {self.config.dedupe_buffer_size} for {self.config.threads} threads "
                f"and log.cleaner.io.buffer.load.factor = {self.config.io_buffer_load_factor}: must be room for one key"
            )
        self.window_bytes = max(self.config.io_buffer_size // self.config.threads, WINDOW_BYTES_MIN)

    def clean(
        self, log: Log, first_dirty_offset: int | None, now_ms: int, *, check: Callable[[], None] = _nothing
    ) -> CleanResult:
        """One round over ``log``, from where the last one ended (None: from the log start), as of ``now_ms``.

        Ends early where the offset map is full: call again with the result's offset for the rest. ``check`` is called
        between pieces of work, and before anything is replaced; what it raises ends the round. Then, and after any
        other error or a crash, each segment is either old or new, and the first dirty offset given still holds.

        Raises LogDirLockedError while another process maintains the log, CorruptRecordError or InvalidRecordError, with
        path and position, for damage, StorageError where the disk fails or the log was cut meanwhile.
        """
        with log.maintaining():
            what = cleanable(log, first_dirty_offset, now_ms)
            if not what.has_work:
                return CleanResult(what.first_dirty_offset)
            return _Round(self, log, what, now_ms, check).run()


class _Round:
    """One round over one log."""

    def __init__(self, cleaner: Cleaner, log: Log, what: Cleanable, now_ms: int, check: Callable[[], None]) -> None:
        self.log = log
        self.what = what
        self.offset_map = cleaner.offset_map
        self.window_bytes = cleaner.window_bytes
        self.counts = Counts()
        self.pause = _Pause(cleaner.config.io_max_bytes_per_second, log.context.clock)
        self.check = check
        self.now_ms = now_ms

    def run(self) -> CleanResult:
        self._build_map()
        end_offset = self.offset_map.latest_offset + 1
        sources = [segment for segment in self.log.segments if segment.base_offset < end_offset]
        rules = self._rules()
        transactions = Transactions(self.log)
        groups = group_segments(sources, self.what.first_uncleanable_offset, self.log.context.config)
        after = sum(self._clean_group(group, rules, transactions) for group in groups)
        return CleanResult(end_offset, len(sources), after, self.counts)

    # The map (12.4)

    def _build_map(self) -> None:
        """Put the dirty records; stops where the map is full."""
        self.offset_map.clear()
        start, end = self.what.first_dirty_offset, self.what.first_uncleanable_offset
        dirty = [segment for segment in self.log.segments.reaching(start) if segment.base_offset < end]
        transactions = Transactions(self.log)
        for segment, behind in pairwise([*dirty, None]):
            assert segment is not None
            if not self._map_segment(segment, transactions):
                return
            self.offset_map.update_latest_offset((end if behind is None else behind.base_offset) - 1)

    def _map_segment(self, segment: LogSegment, transactions: Transactions) -> bool:
        """False where the map is full."""
        start = self.what.first_dirty_offset
        position = segment.position_before(start)
        return all(
            self._map_window(segment, window, transactions)
            for window in segment.batches(position, window_bytes=self.window_bytes)
        )

    def _map_window(self, segment: LogSegment, window: Window, transactions: Transactions) -> bool:
        self._go_on(window)
        headers, start = window.headers, self.what.first_dirty_offset
        wanted = ~transactions.discardable(segment, window) & ~headers.is_control
        rows = np.flatnonzero(wanted & (headers.table["last_offset"] >= start))
        decoded = segment.decode(window, rows, ("key",))
        assert decoded.records.keys is not None
        put = self.offset_map.put_all(decoded.records.keys, decoded.records.offsets, start)
        read = len(headers)
        if put.rows < len(decoded.records):
            read = int(rows[np.searchsorted(np.cumsum(decoded.counts), put.rows, side="right")])
        self._note_read(headers.table["last_offset"][:read])
        return put.rows == len(decoded.records)

    def _note_read(self, last_offsets: Int64s) -> None:
        """Batches were read whole: the map knows the log up to the last of them."""
        if len(last_offsets) and last_offsets[-1] >= self.what.first_dirty_offset:
            self.offset_map.update_latest_offset(max(int(last_offsets[-1]), self.offset_map.latest_offset))

    # The log (12.6)

    def _rules(self) -> Rules:
        config = self.log.context.config
        clean = [each for each in self.log.segments if each.base_offset < self.what.first_dirty_offset]
        return Rules(
            self.offset_map,
            dict(self.log.producers.producers),
            self.what.first_uncleanable_offset,
            self.now_ms,
            config.delete_retention_ms,
            clean[-1].status().modified_ms - config.delete_retention_ms if clean else 0,
        )

    def _clean_group(self, group: Sequence[LogSegment], rules: Rules, transactions: Transactions) -> int:
        """Write a group anew and swap it in; how many segments it is then.

        On disk after a crash before the swap: the old segments, and ``.cleaned`` files that opening removes.
        """
        found: dict[int, FileStatus] = {segment.base_offset: segment.status() for segment in group}
        output = Output(self.log.context, group[0].base_offset)
        try:
            for segment in group:
                self._clean_segment(segment, Filter(rules, segment, self.counts), transactions, output)
            new = output.finish(found[group[-1].base_offset].modified_ms)
            self.check()
        except BaseException:
            output.discard()
            raise
        self.counts.bytes_written += sum(segment.size for segment in new)
        swap_in(self.log, new, found)
        return len(new)

    def _clean_segment(
        self, segment: LogSegment, filtering: Filter, transactions: Transactions, output: Output
    ) -> None:
        for window in segment.batches(window_bytes=self.window_bytes):
            self._go_on(window)
            discardable = transactions.discardable(segment, window)
            output.append(filtering.apply(window, discardable), transactions.still_aborted)

    def _go_on(self, window: Window) -> None:
        self.check()
        self.pause.after(len(window.buffer))


class _Pause:
    """Holds reading to ``log.cleaner.io.max.bytes.per.second``."""

    def __init__(self, bytes_per_second: float, clock: Clock) -> None:
        self._bytes_per_ms = bytes_per_second / 1000
        self._clock = clock
        self._began_ms = clock.now_ms()
        self._read = 0

    def after(self, size: int) -> None:
        """Sleep until ``size`` bytes more are due."""
        self._read += size
        due_ms = self._began_ms + int(min(self._read / self._bytes_per_ms, 2**62)) if self._bytes_per_ms else 0
        behind_ms = due_ms - self._clock.now_ms()
        if behind_ms > 0:
            self._clock.sleep_ms(behind_ms)
