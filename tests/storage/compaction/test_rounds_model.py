"""Compaction of random logs, pass after pass, compared with a plainly written model."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from hypothesis import given, settings, strategies as st

from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.config import CleanerConfig
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.internal import control_records
from pyspark_commitlog.storage.recovery.producer_state import Origin
from pyspark_commitlog.storage.writing.log import Log
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import config, records
from tests.support.logs.compaction_model import DELETE_RETENTION_MS, Bounds, ModelBatch, Row, compacted, found, told

KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e", b"f"])
ROWS = st.lists(st.tuples(KEYS, st.sampled_from([None, b"", b"x"])), min_size=1, max_size=4)
PRODUCERS = st.integers(0, 2)
ACTIONS = st.one_of(
    st.tuples(st.just("plain"), ROWS),
    st.tuples(st.just("idempotent"), ROWS),
    st.tuples(st.just("send"), PRODUCERS, ROWS),
    st.tuples(st.just("send"), PRODUCERS, ROWS),
    st.tuples(st.just("commit"), PRODUCERS),
    st.tuples(st.just("abort"), PRODUCERS),
    st.tuples(st.just("roll")),
    st.tuples(st.just("clean"), st.sampled_from([0, 400, DELETE_RETENTION_MS]), st.sampled_from([2, 3, 100])),
)


class World:
    """A log and its model."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        disk = MemoryFileSystem(self.clock)
        settings = config(cleanup_policy="compact", delete_retention_ms=DELETE_RETENTION_MS, file_delete_delay_ms=0)
        self.log = Log.open("/p-0", settings, clock=self.clock, filesystem=disk)
        self.batches: list[ModelBatch] = []
        self.first_dirty: int | None = None
        self.sequences: dict[int, int] = {}
        self.last_data: dict[int, int] = {}

    def plain(self, rows: list[tuple[bytes, bytes | None]]) -> None:
        self._append(v2.BatchFields(), rows)

    def idempotent(self, rows: list[tuple[bytes, bytes | None]]) -> None:
        self._append(self._fields(9, transactional=False), rows)

    def send(self, producer: int, rows: list[tuple[bytes, bytes | None]]) -> None:
        self._append(self._fields(producer, transactional=True), rows)

    def commit(self, producer: int) -> None:
        self._end(producer, commit=True)

    def abort(self, producer: int) -> None:
        self._end(producer, commit=False)

    def roll(self) -> None:
        self.log.roll()

    def _fields(self, producer: int, *, transactional: bool) -> v2.BatchFields:
        sequence = self.sequences.get(producer, 0)
        return v2.BatchFields(
            producer_id=producer, producer_epoch=0, base_sequence=sequence, transactional=transactional
        )

    def _append(self, fields: v2.BatchFields, rows: list[tuple[bytes, bytes | None]]) -> None:
        columns = records([value for _, value in rows], keys=[key for key, _ in rows])
        info = self.log.append(v2.encode(columns, fields))
        found = tuple(Row(info.first_offset + n, *row) for n, row in enumerate(rows))
        producer = fields.producer_id
        self.batches.append(
            ModelBatch(info.first_offset, info.last_offset, "data", producer, fields.transactional, found)
        )
        if producer >= 0:
            self.sequences[producer] = fields.base_sequence + len(rows)
            self.last_data[producer] = info.last_offset

    def _end(self, producer: int, *, commit: bool) -> None:
        marker = control_records.end_transaction_marker(
            commit=commit,
            offset=0,
            leader_epoch=0,
            timestamp_ms=self.clock.now_ms(),
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=0,
        )
        at = self.log.append(np.array(marker), origin=Origin.COORDINATOR).first_offset
        kind: Literal["commit", "abort"] = "commit" if commit else "abort"
        self.batches.append(ModelBatch(at, at, kind, producer, True, (Row(at, None, None),)))
        self.last_data.setdefault(producer, -1)

    def clean(self, advance_ms: int, limit: int) -> None:
        self.clock.advance(advance_ms)
        now_ms = self.clock.now_ms()
        bases = self.log.segments.base_offsets
        bound = min(self.log.last_stable_offset, bases[-1])
        first_uncleanable = max(base for base in bases if base <= max(bound, self.first_dirty or 0))
        first_dirty = self.first_dirty or 0
        size = sum(len(each.rows) for each in self.batches)
        cleaner = Cleaner(CleanerConfig(dedupe_buffer_size=24 * limit, io_buffer_load_factor=1.0))
        result = cleaner.clean(self.log, self.first_dirty, now_ms)
        self.first_dirty = result.next_first_dirty_offset
        if result.segments_before:
            rules = Bounds(bases, first_dirty, first_uncleanable, limit, now_ms)
            self.batches, expected = compacted(self.batches, rules, self.last_data)
            assert self.first_dirty == expected
        assert sum(len(each.rows) for each in self.batches) <= size
        assert found(self.log) == [told(batch) for batch in self.batches]


@settings(max_examples=100, deadline=None)
@given(actions=st.lists(ACTIONS, min_size=3, max_size=40))
def test_compaction_of_any_log_follows_the_plain_rules(actions: list[tuple[Any, ...]]) -> None:
    """Several producers, transactions, tombstones, full maps, and passes at any time; compares each pass."""
    world = World()
    for name, *arguments in [*actions, ("roll",), ("clean", 0, 100), ("clean", DELETE_RETENTION_MS, 100)]:
        getattr(world, name)(*arguments)
    log_end = world.log.log_end_offset
    world.log.refresh()
    assert world.log.log_end_offset == log_end
    world.clean(0, 100)
