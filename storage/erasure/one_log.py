"""Erases records from one log, a segment at a time, by the writer of compaction and its swap of segments.

A batch that loses some records is rebuilt with the rest; one of magic 2 that loses all of them keeps its header, so
producers' sequences, transactions and offsets stay as they were. Everything else is copied as it is.

What is on disk after a crash during a segment's replacement is in ``segment.swap``: the old segment or the new one. As
each segment is valid beside old and new neighbours, erasing again completes an unfinished erasure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from typing import NamedTuple

import numpy as np

from ..compaction.output import Output
from ..compaction.rewriting import Fate, Verdict, count_in, parts_of, read_keys, to_its_end, verify, written
from ..filesystem.operations import count_other_names
from ..format import v2
from ..format.compaction_view import NO_HORIZON, Keyed
from ..format.files import file_names
from ..format.files.index_entries import AbortedTxn
from ..format.record_columns import halves_of_slice, in_parts
from ..format.tables import BatchHeaders, Bools, Bytes, Int64s
from ..key_filters.files import FilterFiles
from ..prefetch import in_order
from ..reading.reader import LogReader
from ..segment.swap import swap_in
from ..segment.walk import Window
from ..segment.writer import LogSegment
from ..writing.log import Log
from .in_tier import OldCopy, TierCopies
from .keys import RecordFinder

WINDOW_BYTES = 8 * 1024 * 1024  # as compaction reads


class SegmentErasure(NamedTuple):
    """The records erased from a segment, or to be erased."""

    base_offset: int
    bytes: int  # before
    sha256: str  # before, of the .log
    records: int  # how many records were to be erased
    bytes_after: int
    other_names: int = 0  # hard links to the old .log, as a snapshot has


class LogErasure(NamedTuple):
    """The records erased from a log, or to be erased."""

    end_offset: int  # records from there on were appended later, and are not covered
    open_from: int | None  # the first offset of an open transaction; None: there is none
    replaced: Sequence[SegmentErasure]
    removed: Sequence[str] = ()  # .deleted files, which held old records
    in_tier: Sequence[OldCopy] = ()  # copies that may have erased records


class _Cut(NamedTuple):
    """A window of batches without the asked records."""

    window: Window
    pieces: Sequence[Bytes]
    records: int  # how many records the window lost


def erase(log: Log, finder: RecordFinder, holder: str, copies: TierCopies | None = None) -> LogErasure:
    """Erases all asked records from ``log``, including those of open transactions. Durable on return.

    First rolls the active segment. Also removes the ``.deleted`` files of earlier compactions. ``copies``: those of the
    log in a tier. After an error or a crash, run it again. Raises the errors of ``Cleaner.clean``.
    """
    with log.maintaining(holder):
        log.roll()
        end, open_from = log.log_end_offset, _open_from(log)
        closed = [each for each in log.segments.with_next_offsets(end) if each[0].base_offset < end]
        found = [
            _erase_segment(log, segment, range(segment.base_offset, stop), finder, copies) for segment, stop in closed
        ]
        done = [each for each in found if each is not None]
        FilterFiles(log.context).drop_old()  # the old filters reveal which keys the segments had
        return LogErasure(end, open_from, done, _remove_deleted(log), () if copies is None else copies.old())


def preview(log: LogReader, finder: RecordFinder) -> LogErasure:
    """Returns what :func:`erase` would do. Reads everything, changes nothing, takes no lock."""
    done = []
    for segment in log.segments:
        digest, records, before, after = hashlib.sha256(), 0, 0, 0
        with closing(segment), closing(_cuts(segment, finder)) as cuts:
            for cut in cuts:
                digest.update(cut.window.whole)
                records += cut.records
                before += len(cut.window.whole)
                after += sum(map(len, cut.pieces))
        if records:
            done.append(SegmentErasure(segment.base_offset, before, digest.hexdigest(), records, after))
    return LogErasure(log.log_end_offset, _open_from(log), done)


def _open_from(log: LogReader) -> int | None:
    return log.last_stable_offset if log.last_stable_offset < log.log_end_offset else None


def _erase_segment(
    log: Log, segment: LogSegment, offsets: range, finder: RecordFinder, copies: TierCopies | None
) -> SegmentErasure | None:
    """Replaces a closed segment by one without the requested records; None, with nothing changed, if it has none."""
    found = {segment.base_offset: segment.status()}
    before = segment.size
    with ExitStack() as stack:
        writing = _Writing(log, segment, finder)
        try:
            if not writing.run():
                return None
            new = writing.output.finish(found[segment.base_offset].modified_ms)
            log.checkpoints.note_holes()
            if copies is not None:
                copies.drop(offsets)  # first: local retention must not rely on them once they are old
            segments = stack.enter_context(log.replacing_segments(found))
        except BaseException:
            writing.discard()
            raise
        old = swap_in(log.context, segments, new, writing.output.reach, found)
    others = sum(count_other_names(log.context.filesystem, each.path(file_names.LOG)) for each in old)
    for each in old:
        each.remove_files()
    after = sum(each.size for each in new)
    for each in new:
        each.close()
    return SegmentErasure(segment.base_offset, before, writing.sha256, writing.records, after, others)


class _Writing:
    """Writes a segment again without the asked records, from the first window on that has one."""

    output: Output

    def __init__(self, log: Log, segment: LogSegment, finder: RecordFinder) -> None:
        self._log, self._segment, self._finder = log, segment, finder
        self._digest = hashlib.sha256()
        self.records = 0

    @property
    def sha256(self) -> str:
        """The SHA-256 of the old ``.log``."""
        return self._digest.hexdigest()

    def run(self) -> bool:
        """Returns whether there is something to replace. Raises CorruptionError, with path and position, for damage."""
        hashed = Future[None]()
        hashed.set_result(None)
        with (
            closing(self._segment),
            ThreadPoolExecutor(1) as hashing,
            closing(_cuts(self._segment, self._finder)) as cuts,
        ):
            for cut in cuts:
                hashed.result()  # wait, so that only the previous window is still in memory
                hashed = hashing.submit(self._digest.update, cut.window.whole)
                if cut.records and not self.records:
                    self.output = Output(self._log.context, self._segment.base_offset)
                    for before in self._segment.batches(0, cut.window.position, WINDOW_BYTES):
                        self._write(before, [before.whole])
                self.records += cut.records
                if self.records:
                    self._write(cut.window, cut.pieces)
        return self.records > 0

    def discard(self) -> None:
        if hasattr(self, "output"):
            self.output.discard()

    def _write(self, window: Window, pieces: Sequence[Bytes]) -> None:
        if pieces:  # messages of magic 0 and 1 that lose all records disappear
            self.output.append(pieces[0] if len(pieces) == 1 else np.concatenate(pieces), self._aborts_in(window))

    def _aborts_in(self, window: Window) -> list[AbortedTxn]:
        """Returns the index entries of the ABORT markers in a window, which all stay: markers are never erased."""
        first, end = int(window.headers.table["base_offset"][0]), window.headers.next_offset
        return [entry for entry in self._segment.txn_index.entries if first <= entry.last_offset < end]


def _cuts(segment: LogSegment, finder: RecordFinder) -> Generator[_Cut, None, None]:
    windows = to_its_end(segment, segment.batches(window_bytes=WINDOW_BYTES))
    return in_order(partial(_cut, segment, finder), windows)


def _cut(segment: LogSegment, finder: RecordFinder, window: Window) -> _Cut:
    headers = window.headers
    is_read = ~headers.is_control & (headers.table["count"] != 0)
    verify(segment, window, np.flatnonzero(~is_read))  # the others are verified when they are decoded
    read = partial(_part_cut, segment, finder, window, is_read)
    pieces: list[Bytes] = []
    lost = 0
    for part in parts_of(window, is_read):
        for cut in in_parts(read, part, halves_of_slice):
            pieces += cut.pieces
            lost += cut.records
    return _Cut(window, pieces if lost else [window.whole], lost)


def _part_cut(segment: LogSegment, finder: RecordFinder, window: Window, is_read: Bools, part: slice) -> _Cut:
    headers, rows = window.headers[part], np.flatnonzero(is_read[part])
    records = read_keys(segment, window, rows + part.start, finder.secret)
    verdict = _verdict(headers, rows, records, finder)
    lost = len(verdict.kept) - int(verdict.kept.sum())
    return _Cut(window, written(window.buffer, headers, verdict, records, rows), lost)


def _verdict(headers: BatchHeaders, read_rows: Int64s, records: Keyed, finder: RecordFinder) -> Verdict:
    counts = np.zeros(len(headers), dtype=np.int64)
    counts[read_rows] = records.counts
    kept = ~finder.find(records)
    survivors = count_in(counts, kept)
    of_none = np.where(headers.table["magic"] >= v2.MAGIC, Fate.EMPTIED, Fate.GONE)
    fates = np.where(survivors == counts, Fate.COPIED, np.where(survivors > 0, Fate.REBUILT, of_none))
    horizons = np.where(headers.has_delete_horizon, headers.table["base_timestamp"], NO_HORIZON)
    return Verdict(fates.astype(np.int8), horizons, kept, survivors)


def _remove_deleted(log: Log) -> list[str]:
    """Removes the ``.deleted`` files in the log's directory, and syncs it; returns their names.

    Readers keep the files open that they still need.
    """
    filesystem, directory = log.context.filesystem, log.context.directory
    names = [name for name in filesystem.list(directory) if name.endswith(file_names.DELETED)]
    for name in names:
        filesystem.remove(file_names.join(directory, name))
    filesystem.sync_directory(directory)
    return names
