"""Cleaner: rounds of compaction over a log (Kafka's Cleaner; spec 12.4 to 12.8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import numpy as np

from pyspark_commitlog.storage.cleaner.filtering import Counts, Filter, Rules, read_keys, verify
from pyspark_commitlog.storage.cleaner.output import Output
from pyspark_commitlog.storage.cleaner.ranges import Cleanable, cleanable, group_segments
from pyspark_commitlog.storage.cleaner.superseded import Superseded
from pyspark_commitlog.storage.cleaner.swapping import swap_in
from pyspark_commitlog.storage.cleaner.transactions import Transactions
from pyspark_commitlog.storage.clock import Clock, instant
from pyspark_commitlog.storage.config import CleanerConfig
from pyspark_commitlog.storage.errors import InvalidConfigError
from pyspark_commitlog.storage.filesystem import FileStatus
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.index_entries import AbortedTxn
from pyspark_commitlog.storage.format.tables import Bytes, Int64s
from pyspark_commitlog.storage.kernels.offset_map import OffsetMap
from pyspark_commitlog.storage.log import Log
from pyspark_commitlog.storage.reader import LogReader
from pyspark_commitlog.storage.segment import LogSegment
from pyspark_commitlog.storage.segment_reader import Window

WINDOW_BYTES_MIN = 4 * 1024 * 1024  # below, calls cost more than the work; a batch is read whole anyhow
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
        self,
        log: Log,
        first_dirty_offset: int | None,
        now_ms: int,
        *,
        check: Callable[[], None] = _nothing,
        work: str = "",
    ) -> CleanResult:
        """One round over ``log``, from where the last one ended (None: from the log start), as of ``now_ms``.

        Ends early where the offset map is full: call again with the result's offset for the rest. ``check`` is called
        between pieces of work, and before anything is replaced; what it raises ends the round. Then, and after any
        other error or a crash, each segment is either old or new, and the first dirty offset given still holds. A wrong
        checksum below the offset that the round reaches is found before anything is replaced. ``work`` is told to
        whoever finds the partition locked meanwhile.

        Raises LogDirLockedError while another process maintains the log, CorruptRecordError or InvalidRecordError, with
        path and position, for damage, StorageError where the disk fails or the log was cut meanwhile.
        """
        with log.maintaining(work or f"compaction since {instant(log.context.clock.now_ms())}"):
            what = cleanable(log, first_dirty_offset, now_ms)
            if not what.has_work:
                return CleanResult(what.first_dirty_offset)
            return _Round(self, log, what, now_ms, check).run(log)

    def preview(
        self, log: LogReader, first_dirty_offset: int | None, now_ms: int, *, check: Callable[[], None] = _nothing
    ) -> CleanResult:
        """What a round would do: everything is read, nothing is written and no lock taken. Raises as :meth:`clean`.

        FileNotFoundError where another process replaced segments meanwhile.
        """
        what = cleanable(log, first_dirty_offset, now_ms)
        if not what.has_work:
            return CleanResult(what.first_dirty_offset)
        return _Round(self, log, what, now_ms, check).preview()


class _Target(Protocol):
    """Where filtered batches go."""

    def append(self, buffer: Bytes, still_aborted: Sequence[AbortedTxn]) -> None: ...


class _Scales:
    """Takes batches only to see how large they are."""

    def __init__(self) -> None:
        self.size = 0  # bytes

    def append(self, buffer: Bytes, still_aborted: Sequence[AbortedTxn]) -> None:
        self.size += len(buffer)


class _Round:
    """One round over one log."""

    def __init__(
        self, cleaner: Cleaner, log: LogReader, what: Cleanable, now_ms: int, check: Callable[[], None]
    ) -> None:
        self.log = log
        self.what = what
        self.offset_map = cleaner.offset_map
        self.superseded = Superseded(what.first_dirty_offset, what.first_uncleanable_offset)
        self.window_bytes = cleaner.window_bytes
        self.counts = Counts()
        self.pause = _Pause(cleaner.config.io_max_bytes_per_second, log.context.clock)
        self.check = check
        self.now_ms = now_ms

    def run(self, log: Log) -> CleanResult:
        """``log`` is the one of the round, open to write and being maintained."""
        groups, rules = self._prepare(), self._rules()
        transactions = Transactions(self.log)
        after = sum(self._clean_group(log, group, rules, transactions) for group in groups)
        return self._result(groups, after)

    def preview(self) -> CleanResult:
        groups, rules = self._prepare(), self._rules()
        transactions, scales = Transactions(self.log), _Scales()
        for group in groups:
            self._clean_segments(group, rules, transactions, scales)
        self.counts.bytes_written = scales.size
        return self._result(groups, len(groups))

    def _prepare(self) -> list[list[LogSegment]]:
        """Read what decides; the segments to be written anew, in groups that become one each."""
        self._verify_clean_part()
        self._build_map()
        self.superseded.close(self.offset_map)
        sources = [each for each in self.log.segments if each.base_offset <= self.offset_map.latest_offset]
        return group_segments(sources, self.what.first_uncleanable_offset, self.log.context.config)

    def _result(self, groups: Iterable[Sequence[LogSegment]], segments_after: int) -> CleanResult:
        return CleanResult(self.offset_map.latest_offset + 1, sum(map(len, groups)), segments_after, self.counts)

    def _verify_clean_part(self) -> None:
        """What building the map does not read: damage must be known before the first segment is replaced."""
        for segment in self.log.segments:
            if segment.base_offset >= self.what.first_dirty_offset:
                return
            with closing(segment):
                for window in segment.batches(window_bytes=self.window_bytes):
                    self._go_on(window)
                    verify(segment, window, slice(None))

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
        with closing(segment):
            position = segment.position_before(self.what.first_dirty_offset)
            return all(
                self._map_window(segment, window, transactions)
                for window in segment.batches(position, window_bytes=self.window_bytes)
            )

    def _map_window(self, segment: LogSegment, window: Window, transactions: Transactions) -> bool:
        self._go_on(window)
        headers, start = window.headers, self.what.first_dirty_offset
        wanted = ~transactions.discardable(segment, window) & ~headers.is_control
        wanted &= headers.table["last_offset"] >= start
        verify(segment, window, np.flatnonzero(~wanted))  # the others are verified when they are decoded
        self.superseded.see_unput(headers[~wanted & ~headers.is_control])
        rows = np.flatnonzero(wanted)
        is_v2 = headers.table["magic"][rows] >= v2.MAGIC
        read, is_full = self._put(segment, window, np.split(rows, np.flatnonzero(np.diff(is_v2)) + 1))
        self._note_read(headers.table["last_offset"][:read])
        return not is_full

    def _put(self, segment: LogSegment, window: Window, runs: Iterable[Int64s]) -> tuple[int, bool]:
        """Put the records of runs of batches; how many of the window were read whole, and whether the map is full."""
        for rows in runs:
            records = read_keys(segment, window, rows, self.offset_map.secret)
            columns = (records.hashes, records.has_key, records.offsets)
            self.superseded.see_put(window.headers[rows], records)
            put = self.offset_map.put_all(*columns, self.what.first_dirty_offset)
            if put.rows < len(records.offsets):
                return int(rows[np.searchsorted(np.cumsum(records.counts), put.rows, side="right")]), True
        return len(window.headers), False

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
            self.superseded,
            dict(self.log.producers.producers),
            self.what.first_uncleanable_offset,
            self.now_ms,
            config.delete_retention_ms,
            clean[-1].status().modified_ms - config.delete_retention_ms if clean else 0,
        )

    def _clean_group(self, log: Log, group: Sequence[LogSegment], rules: Rules, transactions: Transactions) -> int:
        """Write a group anew and swap it in; how many segments it is then.

        On disk after a crash before the swap: the old segments, and ``.cleaned`` files that opening removes.
        """
        found: dict[int, FileStatus] = {segment.base_offset: segment.status() for segment in group}
        output = Output(log.context, group[0].base_offset)
        with ExitStack() as replacing:
            try:
                self._clean_segments(group, rules, transactions, output)
                new = output.finish(found[group[-1].base_offset].modified_ms)
                self.check()
                segments = replacing.enter_context(log.replacing_segments(found))
            except BaseException:
                output.discard()
                raise
            old = swap_in(log.context, segments, new, output.reach, found)
        if not log.context.config.file_delete_delay_ms:
            for segment in old:
                segment.remove_files()
        for segment in new:
            self.counts.bytes_written += segment.size
            segment.close()
        return len(new)

    def _clean_segments(
        self, group: Sequence[LogSegment], rules: Rules, transactions: Transactions, target: _Target
    ) -> None:
        for segment in group:
            filtering = Filter(rules, segment, self.counts)
            with closing(segment):
                for window in segment.batches(window_bytes=self.window_bytes):
                    self._go_on(window)
                    discardable = transactions.discardable(segment, window)
                    target.append(filtering.apply(window, discardable), transactions.still_aborted)

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
