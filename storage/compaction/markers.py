"""Finds the transaction markers that a compaction must keep (Kafka's CleanedTransactionMetadata).

A marker is needed as long as a batch of its transaction is in the log, emptied or not. Records of aborted transactions
are dropped at once; if their marker were dropped while some remain, these would become visible again.
"""

from __future__ import annotations

import logging

import numpy as np

from ..errors import CorruptIndexError, InvalidRecordError
from ..format.files import file_names
from ..format.files.index_entries import AbortedTxn
from ..format.tables import Bools
from ..reading.reader import LogReader
from ..recovery.producer_state import Marker
from ..recovery.segment_recovery import read_markers
from ..segment.walk import Window
from ..segment.writer import LogSegment

logger = logging.getLogger(__name__)


class Transactions:
    """Follows a log's transactions from its beginning, window after window; use one instance per round."""

    def __init__(self, log: LogReader) -> None:
        self._log = log
        self._seen_committed: set[int] = set()  # producers with data since their last commit
        self._seen_aborted: dict[int, int] = {}  # producers with aborted data since their last abort: its first offset
        self.still_aborted: list[AbortedTxn] = []  # index entries of the markers kept in the last window

    def discardable(self, segment: LogSegment, window: Window) -> Bools:
        """Which batches of the next window are not needed, shape (batches,): aborted data, and markers without data."""
        headers = window.headers
        found = np.zeros(len(headers), dtype=np.bool_)
        self.still_aborted = []
        if not headers.is_transactional.any() and not headers.is_control.any():
            return found
        markers = _all_markers(segment, window)
        found |= self._log.hidden_rows(segment, window, markers)
        for row in np.flatnonzero(headers.is_transactional | headers.is_control).tolist():
            producer_id, offset = int(headers.table["producer_id"][row]), int(headers.table["base_offset"][row])
            if not headers.is_control[row]:
                self._see(producer_id, offset, bool(found[row]))
            elif not headers.table["count"][row]:
                found[row] = True  # emptied by an earlier round
            elif offset in markers:
                found[row] = not self._end(segment, producer_id, offset, markers[offset])
        return found

    def _see(self, producer_id: int, offset: int, is_aborted: bool) -> None:
        if is_aborted:
            self._seen_aborted.setdefault(producer_id, offset)
        else:
            self._seen_committed.add(producer_id)

    def _end(self, segment: LogSegment, producer_id: int, offset: int, marker: Marker) -> bool:
        """Returns whether data of the ended transaction was seen; if so, and it was aborted, keeps its index entry."""
        if marker.is_commit:
            was_seen = producer_id in self._seen_committed
            self._seen_committed.discard(producer_id)
            return was_seen
        began = self._seen_aborted.pop(producer_id, None)
        if began is None:
            return False
        # If the index lost its entry, use a last stable offset that is too low: it only makes readers search further.
        rebuilt = AbortedTxn(producer_id, began, offset, began)
        self.still_aborted.append(_entries(segment).get(offset, rebuilt))
        return True


def _all_markers(segment: LogSegment, window: Window) -> dict[int, Marker]:
    markers, good = read_markers(window)
    if good < len(window.headers):
        position = int(window.headers.table["position"][good])
        reason = "a transaction marker does not parse: which records it ends is unknown, so nothing is compacted"
        raise InvalidRecordError(reason, path=segment.path(file_names.LOG), position=window.position + position)
    return markers


def _entries(segment: LogSegment) -> dict[int, AbortedTxn]:
    """Returns the entries of a segment's transaction index by the offset of their marker; none if it is damaged."""
    try:
        return {entry.last_offset: entry for entry in segment.txn_index.entries}
    except CorruptIndexError as error:
        logger.warning("%s; using entries rebuilt from the log", error)
        return {}
