"""Compaction written plainly: lists, dicts and one rule after the other, without files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from pyspark_commitlog.storage.format.constants import CONTROL_MASK
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.recovery.segment_recovery import read_markers
from pyspark_commitlog.storage.segment.walk import Window
from pyspark_commitlog.storage.segment.writer import LogSegment

DELETE_RETENTION_MS = 1000


class Row(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class ModelBatch:
    base: int
    last: int
    kind: Literal["data", "commit", "abort"]
    producer_id: int = -1
    transactional: bool = False
    rows: tuple[Row, ...] = ()  # of a marker one without key and value, until it is emptied
    horizon: int | None = None


class Bounds(NamedTuple):
    """What a round goes by."""

    segment_bases: list[int]  # ascending, the active one last
    first_dirty: int
    first_uncleanable: int
    limit: int  # keys that the map takes
    now_ms: int


def is_aborted(batches: list[ModelBatch], index: int) -> bool:
    batch = batches[index]
    if not batch.transactional or batch.kind != "data":
        return False
    markers = (each.kind for each in batches[index:] if each.producer_id == batch.producer_id and each.kind != "data")
    return next(markers, "commit") == "abort"


def build_map(batches: list[ModelBatch], bounds: Bounds) -> tuple[dict[bytes, int], int]:
    """The newest offset of each dirty key, and up to where the log is in the map."""
    newest: dict[bytes, int] = {}
    latest = -1
    bases = [*bounds.segment_bases, batches[-1].last + 1]
    for base, behind in pairwise(bases):
        if behind <= bounds.first_dirty or base >= bounds.first_uncleanable:
            continue
        for index, batch in enumerate(batches):
            if not base <= batch.base < behind:
                continue
            if batch.kind == "data" and not is_aborted(batches, index):
                for row in batch.rows:
                    if row.key is not None and row.offset >= bounds.first_dirty:
                        if len(newest) >= bounds.limit:
                            return newest, latest
                        newest[row.key] = latest = row.offset
            if batch.last >= bounds.first_dirty:
                latest = batch.last
        latest = min(behind, bounds.first_uncleanable) - 1
    return newest, latest


def compacted(batches: list[ModelBatch], bounds: Bounds, last_data: dict[int, int]) -> tuple[list[ModelBatch], int]:
    """The log after a round, and its next first dirty offset; ``last_data`` is by producer, -1: markers only."""
    newest, latest = build_map(batches, bounds)
    end = min(base for base in bounds.segment_bases if base > latest)  # whole segments are cleaned
    seen: set[tuple[int, bool]] = set()
    after = []
    for index, batch in enumerate(batches):
        if batch.base >= end:
            after.append(batch)
            continue
        aborted = is_aborted(batches, index)
        if batch.kind == "data":
            is_useless = aborted
            if batch.transactional:
                seen.add((batch.producer_id, aborted))
        elif not batch.rows:
            is_useless = True
        else:
            which = (batch.producer_id, batch.kind == "abort")
            is_useless = which not in seen
            seen.discard(which)
        left = cleaned(batch, is_useless, newest, latest, bounds.now_ms)
        is_marker = batch.kind != "data"
        last = last_data.get(batch.producer_id)
        is_remembered = batch.last + 1 == bounds.first_uncleanable or (
            last is not None and (batch.last == last or (last == -1 and is_marker))
        )
        if left.rows:
            after.append(left)
        elif is_remembered:
            after.append(replace(left, horizon=None))
    return after, latest + 1


def cleaned(batch: ModelBatch, is_useless: bool, newest: dict[bytes, int], latest: int, now_ms: int) -> ModelBatch:
    """A batch without the rows that go, with a delete horizon where it gets one."""
    is_marker = batch.kind != "data"
    is_past = batch.horizon is not None and batch.horizon <= now_ms
    if is_useless and (not is_marker or is_past):
        return replace(batch, rows=())
    rows = batch.rows
    if not is_marker:
        rows = tuple(row for row in rows if survives(row, newest, latest, is_past))
    needs_horizon = is_useless if is_marker else any(row.value is None for row in rows)
    if rows and needs_horizon and batch.horizon is None:
        return replace(batch, rows=rows, horizon=now_ms + DELETE_RETENTION_MS)
    return replace(batch, rows=rows)


def survives(row: Row, newest: dict[bytes, int], latest: int, is_past: bool) -> bool:
    if row.offset > latest:
        return True
    if row.key is None or row.offset < newest.get(row.key, -1):
        return False
    return row.value is not None or not is_past


class Told(NamedTuple):
    """What a log tells of a batch."""

    base: int
    last: int
    producer_id: int
    is_control: bool
    content: tuple[Row, ...] | str  # of a marker that is not emptied: its kind
    horizon: int | None


def told(batch: ModelBatch) -> Told:
    is_control = batch.kind != "data"
    content = batch.kind if is_control and batch.rows else batch.rows
    return Told(batch.base, batch.last, batch.producer_id, is_control, content, batch.horizon)


def described(segment: LogSegment, window: Window) -> Iterator[Told]:
    records, counts = segment.decode(window, slice(None), ("key", "value"))
    assert records.keys is not None
    assert records.values is not None
    columns = zip(records.offsets.tolist(), records.keys.to_list(), records.values.to_list(), strict=True)
    rows = [Row(*row) for row in columns]
    markers, _ = read_markers(window)
    ends = np.cumsum(counts).tolist()
    horizons = np.where(window.headers.has_delete_horizon, window.headers.table["base_timestamp"], -1).tolist()
    for header, horizon, end, count in zip(window.headers.table, horizons, ends, counts.tolist(), strict=True):
        marker = markers.get(int(header["base_offset"]))
        kind = None if marker is None else "commit" if marker.is_commit else "abort"
        yield Told(
            int(header["base_offset"]),
            int(header["last_offset"]),
            int(header["producer_id"]),
            bool(header["attributes"] & CONTROL_MASK),
            kind or tuple(rows[end - count : end]),
            None if horizon == -1 else horizon,
        )


def found(log: LogReader) -> list[Told]:
    """Every batch of a log, below the log start too."""
    windows = ((segment, window) for segment in log.segments for window in segment.batches())
    return [batch for segment, window in windows for batch in described(segment, window)]
