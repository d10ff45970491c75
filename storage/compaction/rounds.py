"""Runs rounds of compaction over a log (Kafka's Cleaner)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np

from ..clock import Clock, instant
from ..config import CleanerConfig
from ..errors import InvalidConfigError
from ..filesystem.port import FileStatus
from ..format import v2
from ..format.compaction_view import Keyed
from ..format.files.index_entries import AbortedTxn
from ..format.record_columns import in_halves
from ..format.tables import Bools, Bytes, Int64s
from ..kernels.compaction import offset_map as maps
from ..prefetch import in_order
from ..reading.reader import LogReader
from ..segment.swap import swap_in
from ..segment.walk import Window
from ..segment.writer import LogSegment
from ..writing.log import Log
from .dirty import Cleanable, cleanable, group_segments
from .filter import Counts, Filter, Rules
from .markers import Transactions
from .output import Output
from .rewriting import read_keys, to_its_end, verify
from .superseded import Superseded

WINDOW_BYTES_MIN = 8 * 1024 * 1024  # below, call overhead exceeds the processing; a batch is read whole anyway
_OFFSET_MAP_BYTES_MAX = 2**31 - 1  # as in Kafka, whatever the buffer size


def _nothing() -> None:
    """A check that never raises, so the round continues."""


@dataclass(frozen=True)
class CleanResult:
    """The result of a round."""

    next_first_dirty_offset: int  # for the cleaner-offset-checkpoint
    segments_before: int = 0
    segments_after: int = 0
    counts: Counts = field(default_factory=Counts)


class Cleaner:
    """Compacts one log after the other. The buffer sizes in ``config`` bound its memory, whatever the size of the logs.

    A few windows of a log are in memory at once: threads verify, decompress and filter ahead.
    """

    def __init__(self, config: CleanerConfig | None = None) -> None:
        """Raises InvalidConfigError if the offset map could hold no key, since no round could then finish."""
        self.config = config or CleanerConfig()
        memory = min(self.config.dedupe_buffer_size // self.config.threads, _OFFSET_MAP_BYTES_MAX)
        self.offset_map = maps.OffsetMap(memory, self.config.io_buffer_load_factor)
        if self.offset_map.limit < 1:
            raise InvalidConfigError(
                f"log.cleaner.dedupe.buffer.size = {self.config.dedupe_buffer_size} for {self.config.threads} threads "
                f"and log.cleaner.io.buffer.load.factor = {self.config.io_buffer_load_factor}: no room for a single "
                "key; raise the size or the factor, or lower log.cleaner.threads"
            )
        self.window_bytes = max(self.config.io_buffer_size // self.config.threads, WINDOW_BYTES_MIN)

    def clean(
        self,
        log: Log,
        first_dirty_offset: int | None,
        now_ms: int,
        *,
        check: Callable[[], None] = _nothing,
        holder: str = "",
    ) -> CleanResult:
        """Runs one round over ``log`` as of ``now_ms``, from the end of the previous round (None: the log start).

        Ends early if the offset map is full: call again with the result's offset for the rest. ``check`` is called
        between steps and before segments are replaced; an exception from it ends the round. After that, any other error
        or a crash, each segment is either old or new, and the given first dirty offset still holds. A wrong checksum
        below the offset that the round reaches is found before anything is replaced. Processes that find
        the partition locked show ``holder`` in their errors.

        Raises LogDirLockedError while another process maintains the log, CorruptRecordError or InvalidRecordError, with
        path and position, for damage, and StorageError if the disk fails or the log was truncated during the round.
        """
        with log.maintaining(holder or f"compaction since {instant(log.context.clock.now_ms())}"):
            what = cleanable(log, first_dirty_offset, now_ms)
            if not what.is_dirty:
                return CleanResult(what.first_dirty_offset)
            return _Round(self, log, what, now_ms, check).run(log)

    def preview(
        self, log: LogReader, first_dirty_offset: int | None, now_ms: int, *, check: Callable[[], None] = _nothing
    ) -> CleanResult:
        """Returns what a round would do. Reads everything, writes nothing, takes no lock. Raises like :meth:`clean`.

        Also raises FileNotFoundError if another process replaced segments in the meantime.
        """
        what = cleanable(log, first_dirty_offset, now_ms)
        if not what.is_dirty:
            return CleanResult(what.first_dirty_offset)
        return _Round(self, log, what, now_ms, check).preview()


class _Target(Protocol):
    """A destination of filtered batches."""

    def append(self, buffer: Bytes, still_aborted: Sequence[AbortedTxn]) -> None: ...


class _Scales:
    """A destination that stores nothing and only adds up the sizes of batches."""

    def __init__(self) -> None:
        self.size = 0  # bytes

    def append(self, buffer: Bytes, still_aborted: Sequence[AbortedTxn]) -> None:
        self.size += len(buffer)


class _Dirty(NamedTuple):
    """A window whose records go into the map."""

    window: Window
    wanted: Bools  # shape (batches,): the batches to put


class _Keys(NamedTuple):
    """A dirty window with the keys in it, in runs of batches of magic 2 or of older ones."""

    dirty: _Dirty
    runs: list[tuple[Int64s, Keyed]]  # rows of the window, and the keys of those batches


class _Decided(NamedTuple):
    """A window with the input of its filter: the batches that no transaction needs, and the abort markers that stay."""

    filtering: Filter
    window: Window
    discardable: Bools  # shape (batches,)
    still_aborted: Sequence[AbortedTxn]


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
        """Rewrites the log. ``log`` is this round's log, open for writing, with its maintenance lock held."""
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
        """Builds the map. Returns the segments to rewrite, in groups that become one segment each."""
        self._verify_clean_part()
        self._build_map()
        self.superseded.close(self.offset_map)
        sources = [each for each in self.log.segments if each.base_offset <= self.offset_map.latest_offset]
        return group_segments(sources, self.what.first_uncleanable_offset, self.log.context.config)

    def _result(self, groups: Iterable[Sequence[LogSegment]], segments_after: int) -> CleanResult:
        return CleanResult(self.offset_map.latest_offset + 1, sum(map(len, groups)), segments_after, self.counts)

    def _verify_clean_part(self) -> None:
        """Verifies the clean segments, which building the map does not read, before the first segment is replaced."""
        for segment in self.log.segments:
            if segment.base_offset >= self.what.first_dirty_offset:
                return
            with closing(segment):
                for window in to_its_end(segment, segment.batches(window_bytes=self.window_bytes)):
                    self._go_on(window)
                    verify(segment, window, slice(None))

    # Building the map

    def _build_map(self) -> None:
        """Puts the keys of the dirty records into the map; stops when the map is full."""
        self.offset_map.clear()
        start, end = self.what.first_dirty_offset, self.what.first_uncleanable_offset
        dirty = [segment for segment in self.log.segments.reaching(start) if segment.base_offset < end]
        transactions = Transactions(self.log)
        for segment, following in pairwise([*dirty, None]):
            assert segment is not None
            if not self._map_segment(segment, transactions):
                return
            self.offset_map.update_latest_offset((end if following is None else following.base_offset) - 1)

    def _map_segment(self, segment: LogSegment, transactions: Transactions) -> bool:
        """Puts the keys of one segment into the map; returns False if the map is full."""
        read = in_order(partial(self._read_keys, segment), self._dirty_windows(segment, transactions))
        with closing(segment), closing(read):
            return all(map(self._put, read))

    def _dirty_windows(self, segment: LogSegment, transactions: Transactions) -> Iterator[_Dirty]:
        start = self.what.first_dirty_offset
        windows = segment.batches(segment.position_before(start), window_bytes=self.window_bytes)
        for window in to_its_end(segment, windows):
            self._go_on(window)
            headers = window.headers
            wanted = ~transactions.discardable(segment, window) & ~headers.is_control
            yield _Dirty(window, wanted & (headers.table["last_offset"] >= start))

    def _read_keys(self, segment: LogSegment, dirty: _Dirty) -> _Keys:
        window, wanted = dirty
        verify(segment, window, np.flatnonzero(~wanted))  # the others are verified when decoded
        rows = np.flatnonzero(wanted)
        is_v2 = window.headers.table["magic"][rows] >= v2.MAGIC
        runs = np.split(rows, np.flatnonzero(np.diff(is_v2)) + 1)
        read = partial(self._keys_in, segment, window)
        return _Keys(dirty, [part for run in runs for part in in_halves(read, run)])

    def _keys_in(self, segment: LogSegment, window: Window, rows: Int64s) -> tuple[Int64s, Keyed]:
        return rows, read_keys(segment, window, rows, self.offset_map.secret).keys_alone()

    def _put(self, keys: _Keys) -> bool:
        """Puts the keys of one window into the map; returns False if the map is full."""
        (window, wanted), runs = keys
        headers = window.headers
        self.superseded.see_unput(headers[~wanted & ~headers.is_control])
        for rows, records in runs:
            self.superseded.see_put(headers[rows], records)
            columns = (records.hashes, records.has_key, records.offsets)
            put = self.offset_map.put_all(*columns, self.what.first_dirty_offset)
            if put.rows < len(records.offsets):
                read = int(rows[np.searchsorted(np.cumsum(records.counts), put.rows, side="right")])
                self._note_read(headers.table["last_offset"][:read])
                return False
        self._note_read(headers.table["last_offset"])
        return True

    def _note_read(self, last_offsets: Int64s) -> None:
        """Records that the map covers the log up to the last of these batches, which were read whole."""
        if len(last_offsets) and last_offsets[-1] >= self.what.first_dirty_offset:
            self.offset_map.update_latest_offset(max(int(last_offsets[-1]), self.offset_map.latest_offset))

    # Rewriting the log

    def _rules(self) -> Rules:
        config = self.log.context.config
        clean = [each for each in self.log.segments if each.base_offset < self.what.first_dirty_offset]
        return Rules(
            self.offset_map,
            self.superseded,
            self.log.active_producers(self.now_ms),
            self.what.first_uncleanable_offset,
            self.now_ms,
            config.delete_retention_ms,
            clean[-1].status().modified_ms - config.delete_retention_ms if clean else 0,
        )

    def _clean_group(self, log: Log, group: Sequence[LogSegment], rules: Rules, transactions: Transactions) -> int:
        """Rewrites a group of segments and replaces it. Returns the number of new segments.

        After a crash before the swap, the disk holds the old segments, ``.cleaned`` files that opening the log removes,
        and perhaps the mark that offsets may be missing in the log.
        """
        found: dict[int, FileStatus] = {segment.base_offset: segment.status() for segment in group}
        output = Output(log.context, group[0].base_offset)
        with ExitStack() as replacing:
            try:
                self._clean_segments(group, rules, transactions, output)
                new = output.finish(found[group[-1].base_offset].modified_ms)
                self.check()
                log.checkpoints.note_holes()
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
            filtered = in_order(_filter, self._decided_windows(segment, rules, transactions))
            with closing(segment), closing(filtered):
                for kept, counts, still_aborted in filtered:
                    self.counts += counts
                    target.append(kept, still_aborted)

    def _decided_windows(self, segment: LogSegment, rules: Rules, transactions: Transactions) -> Iterator[_Decided]:
        for window in segment.batches(window_bytes=self.window_bytes):
            self._go_on(window)
            discardable = transactions.discardable(segment, window)
            yield _Decided(Filter(rules, segment), window, discardable, transactions.still_aborted)

    def _go_on(self, window: Window) -> None:
        self.check()
        self.pause.after(len(window.buffer))


def _filter(decided: _Decided) -> tuple[Bytes, Counts, Sequence[AbortedTxn]]:
    kept = decided.filtering.apply(decided.window, decided.discardable)
    return kept, decided.filtering.counts, decided.still_aborted


class _Pause:
    """Limits reading to ``log.cleaner.io.max.bytes.per.second``."""

    def __init__(self, bytes_per_second: float, clock: Clock) -> None:
        self._bytes_per_ms = bytes_per_second / 1000
        self._clock = clock
        self._began_ms = clock.now_ms()
        self._read = 0

    def after(self, size: int) -> None:
        """Sleeps until ``size`` more bytes, which were just read, are within the limit."""
        self._read += size
        due_ms = self._began_ms + int(min(self._read / self._bytes_per_ms, 2**62)) if self._bytes_per_ms else 0
        early_ms = due_ms - self._clock.now_ms()
        if early_ms > 0:
            self._clock.sleep_ms(early_ms)
