"""Finds the records that readers of committed records must not see: those of aborted and of open transactions.

The markers in the log decide, never the transaction index, which has no checksum and may be missing or wrong
(docs/compatibility_details.md).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

import numpy as np

from ..config import INT64_MAX
from ..format.tables import BatchHeaders, Bools, Int64s
from ..recovery.producer_state import Marker
from ..recovery.producer_state_manager import ProducerStateManager
from ..recovery.segment_recovery import read_markers
from ..segment.collection import LogSegments
from ..segment.walk import PROBE_BYTES, WINDOW_BYTES, LogContext, Window
from ..segment.writer import LogSegment

_NONE = -1


class Isolation(Enum):
    """Which transactional records a reader sees; the values are those of ``isolation.level``."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class AbortedTransaction(NamedTuple):
    """Hides the records of ``producer_id`` from ``first_offset`` up to the producer's next marker from read_committed.

    A fetch has one for each run of aborted records, ordered by ``first_offset``.
    """

    producer_id: int
    first_offset: int


class TransactionLog(Protocol):
    """The attributes of a log that :class:`Outcomes` uses."""

    segments: LogSegments
    context: LogContext
    passes_damage: bool  # whether damaged batches are ignored in the search for a marker

    @property
    def producers(self) -> ProducerStateManager: ...


class Outcomes:
    """Finds out how the transactions of a log ended, and caches the results from one fetch to the next."""

    def __init__(self, log: TransactionLog) -> None:
        """The results apply to the current segments of ``log``; create another object after segments were replaced."""
        self._log = log
        self._segments = log.segments
        self._known: dict[int, _Outcome] = {}  # by producer id: the outcome found last

    def hidden_rows(
        self, segment: LogSegment, window: Window, markers: Mapping[int, Marker], log_end_offset: int
    ) -> Bools:
        """Returns which batches of a window belong to an aborted or open transaction; shape (batches,).

        ``markers``: all markers in the window, by offset. For a batch, the next marker of its producer decides.
        """
        headers, batches = window.headers, _batches_by_producer(window.headers, markers)
        hidden = np.zeros(len(headers), dtype=np.bool_)
        aborts = [offset for offset, marker in markers.items() if not marker.is_commit]
        hidden[batches.rows] = np.isin(batches.next_markers, np.array(aborts, dtype=np.int64))
        is_open = batches.next_markers == _NONE
        if is_open.any():
            rows, producers = batches.rows[is_open], batches.producers[is_open].tolist()
            self._find_outcomes(set(producers), segment, window, log_end_offset)
            hidden_from = np.array([self._known[producer_id].hidden_from for producer_id in producers], dtype=np.int64)
            hidden[rows] = headers.table["base_offset"][rows] >= hidden_from
        return hidden

    def _find_outcomes(self, producers: set[int], segment: LogSegment, window: Window, log_end_offset: int) -> None:
        """Adds to the cache how each transaction ends that is open at the end of a window, by producer."""
        after = window.headers.next_offset
        wanted = {
            producer_id
            for producer_id in producers
            if producer_id not in self._known or not self._known[producer_id].holds(after, log_end_offset)
        }
        for marker_offset, producer_id, hidden_from in self._next_markers(wanted, segment, window) if wanted else ():
            self._known[producer_id] = _Outcome(after, marker_offset, hidden_from, log_end_offset)
            wanted.remove(producer_id)
            if not wanted:
                return
        for producer_id in wanted:
            self._known[producer_id] = _Outcome(after, None, self._hidden_from_open(producer_id), log_end_offset)

    def _next_markers(
        self, wanted: Container[int], segment: LogSegment, window: Window
    ) -> Iterator[tuple[int, int, int]]:
        """Yields (marker offset, producer id, offset from which it hides records) for markers after a window.

        Skips markers of producers that are not in ``wanted``, which the caller may change between two markers.
        """
        for found in self._windows_after(segment, window):
            table = found.headers.table
            for row in np.flatnonzero(found.headers.is_control).tolist():
                producer_id = int(table["producer_id"][row])
                if producer_id in wanted:
                    markers, _ = read_markers(found._replace(headers=found.headers[row : row + 1]))
                    for offset, marker in markers.items():
                        yield offset, producer_id, _hidden_from(marker)

    def _windows_after(self, segment: LogSegment, window: Window) -> Iterator[Window]:
        """Yields all batches after a window; the first windows are small, since a marker is usually near."""
        position, end, before = window.position + window.headers.end, window.headers.next_offset, segment
        for each in self._segments.reaching(segment.base_offset):
            # Compared by base offset: a compaction may still use segment objects from before a refresh.
            if each.base_offset != segment.base_offset:
                each.check_follows(before, end)
                position, end, before = 0, each.base_offset, each
            for found in self._windows(each, position, end):
                yield found
                end = found.headers.next_offset

    def _windows(self, segment: LogSegment, position: int, expected: int) -> Iterator[Window]:
        if self._log.passes_damage:
            yield from segment.sound_batches(position)
            return
        window_bytes = PROBE_BYTES
        while position < segment.size:
            window = next(segment.batches(position, window_bytes=window_bytes, expected=expected))
            yield window
            position, expected = window.position + window.headers.end, window.headers.next_offset
            window_bytes = min(2 * window_bytes, WINDOW_BYTES)

    def _hidden_from_open(self, producer_id: int) -> int:
        """Returns the offset from which the records of a producer are hidden, if no marker of the producer follows.

        If its transaction is open, that is the first offset of the transaction. Otherwise nothing is hidden
        (INT64_MAX): the transaction was committed, and compaction removed the marker.
        """
        producer = self._log.producers.last_entry(producer_id)
        return producer.current_txn_first_offset if producer is not None and producer.in_transaction else INT64_MAX


def _hidden_from(marker: Marker) -> int:
    """Returns the offset from which a marker hides records of its producer: 0 for an abort, INT64_MAX for a commit.

    A marker applies to the records after the producer's previous marker. That holds in compacted logs too: Kafka's
    cleaner keeps the marker of a transaction as long as any batch of the transaction exists.
    """
    return INT64_MAX if marker.is_commit else 0


@dataclass(frozen=True)
class _Outcome:
    """The next marker of a producer after an offset, and the offset from which records up to the marker are hidden."""

    from_offset: int  # no marker of the producer lies from here up to marker_offset
    marker_offset: int | None  # None: there is no marker up to the log end
    hidden_from: int
    log_end_offset: int  # the log end at that time: if marker_offset is None, a marker may have been appended since

    def holds(self, after: int, log_end_offset: int) -> bool:
        """Whether this outcome also applies to the producer's records just below offset ``after``."""
        if self.marker_offset is None:
            return self.from_offset <= after and self.log_end_offset == log_end_offset
        return self.from_offset <= after <= self.marker_offset


class _Batches(NamedTuple):
    """The batches of transactions in a window, without markers; grouped by producer, in log order within a group."""

    rows: Int64s
    producers: Int64s
    next_markers: Int64s  # the offset of the producer's next marker in the window; _NONE if there is none


def _batches_by_producer(headers: BatchHeaders, markers: Mapping[int, Marker]) -> _Batches:
    """Returns the batches of transactions in a window. ``markers``: all markers in the window, by offset."""
    rows = np.flatnonzero(headers.is_transactional)
    rows = rows[np.argsort(headers.table["producer_id"][rows], kind="stable")]
    producers, offsets = headers.table["producer_id"][rows], headers.table["base_offset"][rows]
    is_marker = np.isin(offsets, np.fromiter(markers, dtype=np.int64, count=len(markers)))
    last = len(rows) - 1
    next_rows = np.where(is_marker, np.arange(len(rows)), last)
    following = np.minimum.accumulate(next_rows[::-1])[::-1]  # after the last marker: the last batch
    is_followed = is_marker[following] & (producers[following] == producers)
    next_markers = np.where(is_followed, offsets[following], _NONE)
    is_data = ~headers.is_control[rows]
    return _Batches(rows[is_data], producers[is_data], next_markers[is_data])


def aborted_runs(headers: BatchHeaders, hidden: Bools, markers: Mapping[int, Marker]) -> list[AbortedTransaction]:
    """Returns the runs of aborted records in a window, in offset order; the markers of a producer separate its runs.

    ``hidden``: which batches are hidden, as :meth:`Outcomes.hidden_rows` returns them.
    """
    batches = _batches_by_producer(headers, markers)
    rows, producers, next_markers = (column[hidden[batches.rows]] for column in batches)
    is_first = np.ones(len(rows), dtype=np.bool_)
    is_first[1:] = (producers[1:] != producers[:-1]) | (next_markers[1:] != next_markers[:-1])
    rows = np.sort(rows[is_first])
    producers, offsets = headers.table["producer_id"][rows], headers.table["base_offset"][rows]
    return [AbortedTransaction(*each) for each in zip(producers.tolist(), offsets.tolist(), strict=True)]
