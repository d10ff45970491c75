"""Decides the fate of each batch (Kafka's MemoryRecords.filterTo and the filter of its Cleaner).

A window of batches is decided at once, by masks over its batches and over all their records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from functools import partial

import numpy as np

from ..format import v2
from ..format.compaction_view import NO_HORIZON, Keyed
from ..format.constants import NO_OFFSET
from ..format.record_columns import halves_of_slice, in_parts
from ..format.tables import BatchHeaders, Bools, Bytes, Int64s
from ..kernels.compaction import offset_map as maps
from ..recovery.producer_state import ProducerState
from ..segment.walk import Window
from ..segment.writer import LogSegment
from .rewriting import Fate, Verdict, count_in, parts_of, read_keys, verify, written
from .superseded import Superseded


@dataclass(frozen=True)
class Rules:
    """The rules of a round for keeping records."""

    offset_map: maps.OffsetMap
    superseded: Superseded
    producers: Mapping[int, ProducerState]  # active producers, by producer id
    first_uncleanable_offset: int
    now_ms: int
    delete_retention_ms: int
    legacy_horizon_ms: int  # segments whose .log is newer keep tombstones of magic 0 and 1


@dataclass
class Counts:
    """Statistics of a compaction."""

    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(mine + others for mine, others in zip(astuple(self), astuple(other), strict=True)))


class Filter:
    """Applies the rules to windows of one segment, and counts records and bytes. Each thread needs its own filter."""

    def __init__(self, rules: Rules, segment: LogSegment) -> None:
        self.rules = rules
        self.segment = segment
        self.counts = Counts()
        self._keeps_legacy_tombstones = segment.status().modified_ms > rules.legacy_horizon_ms

    def apply(self, window: Window, discardable: Bools) -> Bytes:
        """Returns the bytes of the batches of a window that remain, copied or rebuilt.

        ``discardable``, shape (batches,), marks the batches that no transaction needs.

        Raises CorruptRecordError or InvalidRecordError, with path and position: damage is never compacted away.
        """
        headers = window.headers
        is_past = headers.has_delete_horizon & (headers.table["base_timestamp"] <= self.rules.now_ms)
        discarded = discardable & (~headers.is_control | is_past)
        # These are dropped or kept by their header alone, without being decoded, so verify them here.
        verify(self.segment, window, np.flatnonzero(discarded | (headers.table["count"] == 0)))
        superseded = ~discarded & self.rules.superseded.of(headers)
        is_read = ~discarded & ~superseded & (headers.table["count"] != 0)
        read = partial(self._filtered, window, discardable, is_read)
        found = (each for part in parts_of(window, is_read) for each in in_parts(read, part, halves_of_slice))
        pieces = [piece for each in found for piece in each]
        self.counts.bytes_read += len(window.whole)
        self.counts.records_read += int(headers.table["count"][superseded].sum())
        return pieces[0] if len(pieces) == 1 else np.concatenate([*pieces, np.empty(0, dtype=np.uint8)])

    def _filtered(self, window: Window, discardable: Bools, is_read: Bools, part: slice) -> list[Bytes]:
        headers = window.headers[part]
        read_rows = np.flatnonzero(is_read[part])
        is_known = self.rules.superseded.knows_each_record(headers[read_rows])
        secret = None if is_known else self.rules.offset_map.secret
        records = read_keys(self.segment, window, read_rows + part.start, secret)
        counts = np.zeros(len(headers), dtype=np.int64)
        counts[read_rows] = records.counts
        latest = self.rules.superseded.are_latest(records) if is_known else self._looked_up(records)
        verdict = self._decide(
            headers, records, self._kept(headers, records, counts, latest), counts, discardable[part]
        )
        self.counts.records_read += len(records.offsets)
        self.counts.records_kept += int(verdict.survivors.sum())
        return written(window.buffer, headers, verdict, records, read_rows)

    def _looked_up(self, records: Keyed) -> Bools:
        return self.rules.offset_map.are_latest(records.hashes, records.has_key, records.offsets)

    def _decide(
        self, headers: BatchHeaders, records: Keyed, kept: Bools, counts: Int64s, discardable: Bools
    ) -> Verdict:
        survivors = count_in(counts, kept)
        has_tombstone = count_in(counts, kept & ~records.has_value) > 0
        is_v2, has_horizon = headers.table["magic"] >= v2.MAGIC, headers.has_delete_horizon
        gets_horizon = is_v2 & ~has_horizon & (has_tombstone | (headers.is_control & discardable))
        horizons = np.where(has_horizon, headers.table["base_timestamp"], NO_HORIZON)
        horizons[gets_horizon] = self.rules.now_ms + self.rules.delete_retention_ms
        fates = np.where(survivors, Fate.REBUILT, np.where(self._is_needed(headers), Fate.EMPTIED, Fate.GONE))
        fates[(survivors == counts) & (survivors > 0) & ~gets_horizon] = Fate.COPIED
        return Verdict(fates.astype(np.int8), horizons, kept, survivors)

    def _kept(self, headers: BatchHeaders, records: Keyed, counts: Int64s, is_latest: Bools) -> Bools:
        """Returns which records are kept, shape (records,), of batches that are not dropped as a whole."""
        table, offset_map = headers.table, self.rules.offset_map
        is_waiting = ~headers.has_delete_horizon | (self.rules.now_ms < table["base_timestamp"])
        protects = np.where(table["magic"] >= v2.MAGIC, is_waiting, self._keeps_legacy_tombstones)
        is_safe = (records.offsets > offset_map.latest_offset) | np.repeat(headers.is_control, counts)
        self.counts.records_without_key += int((~records.has_key & ~is_safe).sum())
        kept: Bools = is_safe | (is_latest & (records.has_value | np.repeat(protects, counts)))
        return kept

    def _is_needed(self, headers: BatchHeaders) -> Bools:
        """Returns which batches keep at least their header: the last of each active producer, and of the round.

        Shape (batches,). A producer's last batch has the sequence that the next one must follow, and the epoch below
        which it is fenced. The round's last batch shows the offset up to which the log reaches (KAFKA-17076, newer than
        3.9.1).
        """
        table, control = headers.table, headers.is_control
        is_last = table["last_offset"] + 1 == self.rules.first_uncleanable_offset
        needed: Bools = is_last & (table["magic"] >= v2.MAGIC)
        for producer_id in np.unique(table["producer_id"][table["producer_id"] >= 0]).tolist():
            state = self.rules.producers.get(producer_id)
            if state is not None and state.last_offset != NO_OFFSET:
                needed |= (table["producer_id"] == producer_id) & (table["last_offset"] == state.last_offset)
            elif state is not None:
                is_of_epoch = control & (table["producer_epoch"] == state.epoch)
                needed |= (table["producer_id"] == producer_id) & is_of_epoch
        return needed
