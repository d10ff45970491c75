"""A log, and beside it what it must hold, kept as plain lists: the steps of any history, one as likely as the next.

A step takes the chance that it decides by: a seeded Random for millions of steps, or the one that hypothesis plays,
which it can shrink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.config import CleanerConfig
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.tables import Records
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.retention.apply import retain
from pyspark_commitlog.storage.writing.append_info import AppendInfo
from pyspark_commitlog.storage.writing.log import Log
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import config, end_transaction, records
from tests.support.logs.compaction_model import DELETE_RETENTION_MS, Bounds, ModelBatch, Row, compacted, found, told

DIRECTORY = "/t-0"
KEYS = (b"a", b"b", b"c", b"d", b"e", b"f")
VALUES = (b"", b"x", b"y" * 40, b"z" * 110, None)
PRODUCERS = (1, 2, 3)  # of transactions
IDEMPOTENT = 9
RETENTION_BYTES = 2500
SETTINGS = config(
    cleanup_policy="compact,delete",
    segment_bytes=600,
    index_interval_bytes=100,
    segment_index_bytes=120,
    retention_bytes=RETENTION_BYTES,
    retention_ms=-1,
    delete_retention_ms=DELETE_RETENTION_MS,
    file_delete_delay_ms=0,
)


class LogModel:
    """One log and its model. Every step compares what it changed; :meth:`read` compares all."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.disk = MemoryFileSystem(self.clock)
        self.marks = KeptInMemory()
        self.batches: list[ModelBatch] = []
        self.start = self.end = self.synced = 0
        self.sequences: dict[int, int] = {}
        self.last_data: dict[int, int] = {}  # by producer: its last data batch; -1: markers only
        self.began: dict[int, int] = {}  # by the offset of a marker: where its transaction began
        self.headless: set[int] = set()  # producers of open transactions whose first records may be gone
        self.first_dirty: int | None = None
        self.cleaned_to = 0
        self._open()

    def step(self, chance: Random) -> str:
        """Any of the steps; its name."""
        step = chance.choice(STEPS)
        step(self, chance)
        self.check_bounds()
        return step.__name__

    def _open(self) -> None:
        self.log = Log.open(DIRECTORY, SETTINGS, clock=self.clock, filesystem=self.disk, checkpoints=self.marks)

    def reader(self) -> LogReader:
        """Another who looks at the same log."""
        return LogReader.open(DIRECTORY, SETTINGS, clock=self.clock, filesystem=self.disk, checkpoints=self.marks)

    # Writing

    def append_plainly(self, chance: Random) -> None:
        self._append(chance, v2.BatchFields())

    def append_idempotently(self, chance: Random) -> None:
        """Once, and up to twice again."""
        fields = self._fields(IDEMPOTENT, transactional=False)
        columns = self._append(chance, fields)
        for _ in range(chance.randrange(3)):
            assert self.log.append(v2.encode(columns, fields)).duplicate

    def append_in_a_transaction(self, chance: Random) -> None:
        self._append(chance, self._fields(chance.choice(PRODUCERS), transactional=True))

    def append_unsynced(self, chance: Random) -> None:
        columns = _records(chance)
        info = self.log.append_records(columns, sync=False)
        self._appended(info, columns, v2.BatchFields())

    def end_a_transaction(self, chance: Random) -> None:
        producer, commit = chance.choice(PRODUCERS), bool(chance.randrange(2))
        began = self.open_since().get(producer)
        at = end_transaction(self.log, producer, commit=commit).first_offset
        assert at == self.end
        self.batches.append(ModelBatch(at, at, "commit" if commit else "abort", producer, True, (Row(at, None, None),)))
        self.last_data.setdefault(producer, -1)
        if producer in self.headless or began is not None:
            self.began[at] = -1 if producer in self.headless or began is None else began
        self.headless.discard(producer)
        self.end = self.synced = at + 1

    def _fields(self, producer: int, *, transactional: bool) -> v2.BatchFields:
        sequence = self.sequences.get(producer, 0)
        if self.last_data.get(producer, -1) < self.start:  # it may have been forgotten with its records
            state = self.log.producers.last_entry(producer)
            sequence = state.last_sequence + 1 if state else 0
        return v2.BatchFields(
            producer_id=producer, producer_epoch=0, base_sequence=sequence, transactional=transactional
        )

    def _append(self, chance: Random, fields: v2.BatchFields) -> Records:
        columns = _records(chance)
        self._appended(self.log.append(v2.encode(columns, fields)), columns, fields)
        self.synced = self.end
        return columns

    def _appended(self, info: AppendInfo, columns: Records, fields: v2.BatchFields) -> None:
        assert not info.duplicate
        assert info.first_offset == self.end
        rows = tuple(Row(self.end + n, *pair) for n, pair in enumerate(_pairs(columns)))
        producer = fields.producer_id
        self.batches.append(
            ModelBatch(self.end, self.end + len(rows) - 1, "data", producer, fields.transactional, rows)
        )
        self.end += len(rows)
        if producer >= 0:
            self.sequences[producer] = fields.base_sequence + len(rows)
            self.last_data[producer] = self.end - 1

    def roll(self, _: Random) -> None:
        self.log.roll()

    def sync(self, _: Random) -> None:
        self.log.sync()
        self.synced = self.end

    # Cutting

    def truncate(self, chance: Random) -> None:
        """Not below what was compacted: what a marker there would then have ended is gone."""
        ended = [marker + 1 for marker, began in self.began.items() if began < self.cleaned_to]
        floor = max([self.start, self.cleaned_to, *ended])
        offset = chance.randint(min(floor, self.end), self.end)
        self.log.truncate_to(offset)
        if offset < self.end:
            reached = min((batch.base for batch in self.batches if batch.last >= offset), default=self.end)
            kept = max((batch.last + 1 for batch in self.batches if batch.last < offset), default=0)
            assert kept <= self.log.log_end_offset <= reached  # the same, but where compaction left a gap
            self._cut_to(self.log.log_end_offset)
            self.synced = self.end

    def begin_anew(self, chance: Random) -> None:
        """Seldom: what is in the log is gone."""
        if chance.randrange(20):
            return
        self.start = chance.randint(0, self.end + 5)
        self.log.truncate_fully_and_start_at(self.start)
        self.batches, self.sequences, self.last_data, self.began, self.headless = [], {}, {}, {}, set()
        self.end = self.synced = self.cleaned_to = self.start

    def _cut_to(self, end: int) -> None:
        """The log lost its last batches, perhaps none."""
        if end < self.end:
            cut = [batch for batch in self.batches if batch.last >= end]
            self.headless |= {batch.producer_id for batch in cut if self.began.get(batch.base, end) < self.start}
            self.batches = self.batches[: len(self.batches) - len(cut)]
            self.began = {marker: began for marker, began in self.began.items() if marker < end}
            self.end, self.start = end, min(self.start, end)
            known = self.log.producers.producers
            self.sequences = {producer: state.last_sequence + 1 for producer, state in known.items()}
            self.last_data = {producer: state.last_offset for producer, state in known.items()}

    def delete_records(self, chance: Random) -> None:
        offset = chance.choice((-1, self.end, *[chance.randint(self.start, self.end)] * 8))
        self.start = self.end if offset == -1 else max(self.start, offset)
        assert self.log.delete_records(offset) == self.start
        self.synced = self.end

    # Maintenance

    def retain(self, _: Random) -> None:
        first = self._first_kept()
        self.headless |= {producer for producer, began in self.open_since().items() if began < first}
        retain(self.log)
        assert self.log.segments.first.base_offset == first
        self.batches = [batch for batch in self.batches if batch.base >= first]
        self.start = max(self.start, first)

    def _first_kept(self) -> int:
        """Base offset of the oldest segment that stays."""
        stable = self.log.last_stable_offset
        bases = self.log.segments.base_offsets
        sizes = [len(segment.read_bytes(0, 1 << 20)) for segment in self.log.segments]
        first = 0
        while first + 1 < len(bases) and bases[first + 1] <= min(stable, self.start):
            first += 1
        while first + 1 < len(bases) and bases[first + 1] <= stable and sum(sizes[first + 1 :]) >= RETENTION_BYTES:
            first += 1
        return bases[first]

    def compact(self, chance: Random) -> None:
        self.clock.advance(chance.choice((0, 400, DELETE_RETENTION_MS)))
        limit = chance.choice((2, 3, 100))
        bases = self.log.segments.base_offsets
        cleaner = Cleaner(CleanerConfig(dedupe_buffer_size=24 * limit, io_buffer_load_factor=1.0))
        result = cleaner.clean(self.log, self.first_dirty, self.clock.now_ms())
        bounds = self._bounds(bases, limit)
        self.first_dirty = result.next_first_dirty_offset
        if result.segments_before:
            self.batches, expected = compacted(self.batches, bounds, self._check_producers())
            assert self.first_dirty == expected
            whole_segments = min(base for base in bases if base >= self.first_dirty)
            self.cleaned_to = max(self.cleaned_to, whole_segments)
        else:
            assert self.first_dirty == bounds.first_dirty
        assert found(self.log) == [told(batch) for batch in self.batches]

    def _bounds(self, bases: list[int], limit: int) -> Bounds:
        """What a round over these segments goes by."""
        is_inside = self.first_dirty is not None and self.start <= self.first_dirty <= self.end
        first_dirty = self.first_dirty if is_inside and self.first_dirty is not None else self.start
        bound = max(first_dirty, min(self.log.last_stable_offset, bases[-1]))
        first_uncleanable = max(base for base in bases if base <= bound)
        return Bounds(bases, first_dirty, first_uncleanable, limit, self.clock.now_ms())

    def _check_producers(self) -> dict[int, int]:
        """By producer that the log knows, its last data batch. One of deleted records only may have been forgotten."""
        known = {each.producer_id: each.last_offset for each in self.log.producers.producers.values()}
        for producer, last in self.last_data.items():
            assert known.get(producer, -1) == last or last < self.start
        return known

    # Ends of processes

    def reopen(self, _: Random) -> None:
        self.log.close()
        self._open()
        self.synced = self.end

    def kill(self, _: Random) -> None:
        """What was written stays; the next process finds it and makes it durable."""
        self.disk.lose_locks()
        self._open()
        self.synced = self.end

    def lose_power(self, chance: Random) -> None:
        self.disk = self.disk.crash(chance.getrandbits(32), unsynced=chance.choice(("lost", "kept", "chance")))
        self._open()
        assert self.log.log_end_offset in (self.end, *(each.base for each in self.batches if each.base >= self.synced))
        self._cut_to(self.log.log_end_offset)
        self.synced = self.end
        self.read(chance)

    # Reading

    def read(self, chance: Random) -> None:
        """All of it, or from anywhere on, by the writer and by another, in both isolation levels."""
        self.check_bounds()
        start = chance.choice((self.start, chance.randint(self.start, self.end)))
        with self.reader() as reader:
            for log in (self.log, reader):
                for isolation in Isolation:
                    assert _rows(log, start, isolation) == self.visible(start, isolation, log.last_stable_offset)

    def visible(self, start: int, isolation: Isolation, stable: int) -> list[Row]:
        """What a reader sees from ``start`` on, if everything below ``stable`` is decided."""
        if isolation is Isolation.READ_UNCOMMITTED:
            return [row for batch in self.batches if batch.kind == "data" for row in batch.rows if row.offset >= start]
        ended: dict[int, str] = {}  # by producer, what the next marker says
        shown: list[Row] = []
        for batch in reversed(self.batches):
            if batch.kind != "data":
                ended[batch.producer_id] = batch.kind
            elif batch.last < stable and not (batch.transactional and ended.get(batch.producer_id) == "abort"):
                shown += [row for row in reversed(batch.rows) if row.offset >= start]
        return shown[::-1]

    def open_since(self) -> dict[int, int]:
        """By producer with an open transaction, its first offset."""
        began: dict[int, int] = {}
        for batch in self.batches:
            if batch.kind != "data":
                began.pop(batch.producer_id, None)
            elif batch.transactional:
                began.setdefault(batch.producer_id, batch.base)
        return began

    def check_bounds(self) -> None:
        """Where the log begins, ends and is decided. The part of a transaction that was deleted may be forgotten."""
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        unstable = self.open_since()
        above = min((first for first in unstable.values() if first >= self.start), default=self.end)
        has_deleted = bool(self.headless) or min(unstable.values(), default=self.start) < self.start
        assert self.log.last_stable_offset in ((self.start, above) if has_deleted else (above,))


def _records(chance: Random) -> Records:
    count = chance.randint(1, 4)
    return records([chance.choice(VALUES) for _ in range(count)], keys=[chance.choice(KEYS) for _ in range(count)])


def _pairs(columns: Records) -> Iterator[tuple[bytes | None, bytes | None]]:
    assert columns.keys is not None
    assert columns.values is not None
    return zip(columns.keys.to_list(), columns.values.to_list(), strict=True)


def _rows(log: LogReader, start: int, isolation: Isolation) -> list[Row]:
    return [
        Row(offset, *pair)
        for part in log.records(start, log.log_end_offset, isolation=isolation)
        for offset, pair in zip(part.offsets.tolist(), _pairs(part), strict=True)
    ]


STEPS: tuple[Callable[[LogModel, Random], None], ...] = (
    *[LogModel.append_plainly, LogModel.append_idempotently, LogModel.append_unsynced] * 2,
    *[LogModel.append_in_a_transaction, LogModel.end_a_transaction] * 4,
    *(LogModel.roll, LogModel.sync, LogModel.truncate, LogModel.begin_anew, LogModel.delete_records),
    *(LogModel.retain, LogModel.compact, LogModel.reopen, LogModel.kill, LogModel.lose_power, LogModel.read),
)
