"""Batches appended by few steps: the same bytes, results and refusals as by the full checks, for any batch."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.errors import (
    CorruptRecordError,
    InvalidProducerEpochError,
    LogStoreError,
    OutOfOrderSequenceError,
    RecordTooLargeError,
    RecordValidationError,
    StorageError,
)
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.filesystem.operations import read_file
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.checksums import crc32c
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.recovery.producer_state import Producer
from pyspark_commitlog.storage.writing.append_info import AppendInfo
from pyspark_commitlog.storage.writing.checks.checked_batch import CheckedBatch, check_batch
from pyspark_commitlog.storage.writing.log import Log
from tests.storage.writing.checks.test_batches import Rec, batch
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs import building, record_sets
from tests.support.logs.building import NOW_MS, config, open_log, records, rows

DIRECTORY = "/t-0"
TOPICS: list[dict[str, object]] = [
    {},
    {"cleanup_policy": "compact"},
    {"message_timestamp_type": "LogAppendTime"},
    {"compression_type": "zstd"},
    {"compression_type": "uncompressed"},
    {"segment_bytes": 400, "index_interval_bytes": 0},
    {"message_timestamp_before_max_ms": 1000, "message_timestamp_after_max_ms": 1000},
    {"max_message_bytes": 150},
]
Outcome = AppendInfo | tuple[type[Exception], str]


def outcome(error: Exception) -> Outcome:
    return type(error), str(error)


class Pair:
    """Two logs of one topic: what is appended to one by the full checks, is appended to the other by few steps."""

    def __init__(self, **settings: object) -> None:
        self.disks = MemoryFileSystem(), MemoryFileSystem()
        self.full, self.few = (open_log(DIRECTORY, filesystem=disk, **settings) for disk in self.disks)

    def append(self, *batches: bytes) -> list[Outcome]:
        """Appends to both; returns the results, which are the same."""
        full = [self._fully(each) for each in batches]
        assert self._by_few_steps(batches) == full
        assert self.contents(0) == self.contents(1)
        return full

    def _fully(self, data: bytes) -> Outcome:
        try:
            return self.full.append(np.frombuffer(data, dtype=np.uint8))
        except LogStoreError as error:
            return outcome(error)

    def _by_few_steps(self, batches: Sequence[bytes]) -> list[Outcome]:
        found: list[Outcome | CheckedBatch] = []
        for data in batches:
            try:
                found.append(check_batch(data, self.few.context.config))
            except LogStoreError as error:
                found.append(outcome(error))
        appended = iter(self.few.append_checked([each for each in found if isinstance(each, CheckedBatch)]))
        results = [next(appended) if isinstance(each, CheckedBatch) else each for each in found]
        return [outcome(each) if isinstance(each, Exception) else each for each in results]

    def contents(self, which: int) -> dict[str, bytes]:
        disk = self.disks[which]
        names = [name for name in disk.list(DIRECTORY) if not name.endswith(".lock")]
        return {name: read_file(disk, f"{DIRECTORY}/{name}", 1 << 24) for name in names}

    def close(self) -> None:
        assert self.full.producers.entries() == self.few.producers.entries()
        assert self.full.epochs.entries == self.few.epochs.entries
        self.full.close()
        self.few.close()
        assert self.contents(0) == self.contents(1)


def is_plain(data: bytes, **settings: object) -> bool:
    return check_batch(data, config(**settings)).is_plain


def signed(data: bytes | bytearray) -> bytes:
    """The batch with a correct checksum and length."""
    return bytes(data[:8]) + struct.pack(">i", len(data) - 12) + data[12:17] + crc32c(data[21:]).to_bytes(4) + data[21:]


# Batches by Kafka


def client_batches(name: str) -> list[bytes]:
    """The batches of a file that Kafka wrote, as a client would send them: with base offset 0."""
    data = record_sets.log_bytes(name)
    found = []
    for row in formats.scan(data).headers.table:
        start = int(row["position"])
        whole = data[start : start + int(row["size"])].tobytes()
        found.append(bytes(8) + whole[8:] if row["magic"] == 2 else whole)
    return found


SMALL = [name for name in record_sets.names() if record_sets.log_bytes(name).size < 200_000]


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.only_all) for part in (1, 2, 3))])
def test_what_kafka_wrote_is_taken_or_refused_alike(part: int, policy: str) -> None:
    for name in SMALL[part::4] if policy == "delete" else SMALL[part::40]:
        pair = Pair(cleanup_policy=policy)
        pair.append(*client_batches(name)[:20], record_sets.log_bytes(name)[:5000].tobytes())
        pair.close()


@pytest.mark.parametrize("codec", Codec)
def test_a_usual_batch_is_plain(codec: Codec) -> None:
    data = v2.encode(records([b"a" * 100] * 9, keys=[b"k"] * 9), v2.BatchFields(codec=codec)).tobytes()
    assert is_plain(data)
    assert is_plain(data, cleanup_policy="compact")
    assert is_plain(data, compression_type="zstd") is (codec is Codec.ZSTD)


def test_a_view_of_a_larger_buffer_is_checked_and_never_changed() -> None:
    data = bytearray(b"before" + building.batch(b"a", b"b").tobytes() + b"after")
    before = bytes(data)
    pair = Pair()
    checked = check_batch(memoryview(data)[6:-5], pair.few.context.config)
    assert checked.is_plain
    assert pair.few.append_checked([checked, checked]) == [
        AppendInfo(0, 1, NOW_MS, -1, len(data) - 11),
        AppendInfo(2, 3, NOW_MS, -1, len(data) - 11),
    ]
    assert data == before


# Any batches


BYTES = st.none() | st.binary(max_size=20)
TIMES = st.sampled_from([NOW_MS, NOW_MS, NOW_MS + 1, NOW_MS - 5000, NOW_MS + 5000, -1, -2, 0, 2**62, -(2**63)])
RECORDS = st.lists(st.builds(Rec, BYTES, BYTES, TIMES, st.none() | st.integers(0, 2)), max_size=4)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "last_offset_delta": st.integers(-1, 3),
        "base_timestamp": TIMES,
        "max_timestamp": TIMES,
        "producer_id": st.integers(-2, 1),
        "producer_epoch": st.integers(-2, 1),
        "base_sequence": st.integers(-2, 3),
        "count": st.integers(-1, 4),
        "base_offset": st.integers(-1, 1),
        "attributes": st.sampled_from([0, 8, 16, 32, 48, 64, 128, -32768]),
    },
)
BATCHES = st.builds(
    lambda rows, codec, fields: batch(rows, codec=codec, **fields), RECORDS, st.sampled_from([0, 0, 1, 4, 5]), FIELDS
)


@settings(max_examples=100)
@given(st.sampled_from(TOPICS), st.lists(BATCHES, min_size=1, max_size=4))
def test_any_batch_is_taken_or_refused_alike(topic: dict[str, object], batches: list[bytes]) -> None:
    pair = Pair(**topic)
    pair.append(*batches)
    pair.close()


SOUND = st.builds(
    lambda values, codec: v2.encode(records(values, keys=values), v2.BatchFields(codec=codec)).tobytes(),
    st.lists(BYTES, min_size=1, max_size=3),
    st.sampled_from(Codec),
)


@settings(max_examples=100)
@given(
    SOUND, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=2), st.integers(-3, 3), st.booleans()
)
def test_a_damaged_batch_is_taken_or_refused_alike(
    data: bytes, changes: list[tuple[int, int]], more: int, is_signed: bool
) -> None:
    """Signed again, the damage shows only in the header's fields, the compressed stream and the records."""
    damaged = bytearray(data[: len(data) + more] + bytes(max(more, 0)))
    for at, byte in changes:
        damaged[at % len(damaged)] = byte
    pair = Pair()
    pair.append(signed(damaged) if is_signed else bytes(damaged))
    pair.close()


def test_a_wrong_bit_anywhere_is_refused() -> None:
    data = building.batch(b"a", b"b", producer_id=1, base_sequence=0).tobytes()
    pair = Pair()
    for at in range(12, len(data)):
        if not 12 <= at < 16:  # the leader epoch, which the log sets
            (found,) = pair.append(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            assert not isinstance(found, AppendInfo)
            assert pair.few.log_end_offset == 0


def test_damage_shows_when_a_batch_is_checked() -> None:
    data = bytearray(building.batch(b"a").tobytes())
    data[-1] ^= 1
    with pytest.raises(CorruptRecordError, match="checksum"):
        check_batch(data, config())
    with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes"):
        check_batch(building.batch(b"a" * 100).tobytes(), config(max_message_bytes=100))


# Producers


PRODUCED = st.tuples(st.integers(-1, 1), st.integers(0, 1), st.integers(0, 3), st.integers(1, 2), st.booleans())


@settings(max_examples=100)
@given(st.lists(st.lists(PRODUCED, max_size=4), max_size=4))
def test_producers_are_fenced_and_repetitions_found_alike(groups: list[list[tuple[int, int, int, int, bool]]]) -> None:
    pair = Pair()
    for group in groups:
        pair.append(
            *(
                building.batch(
                    *[b"v"] * size,
                    producer_id=producer_id,
                    base_sequence=min(producer_id, 0) or sequence,
                    producer_epoch=min(producer_id, 0) or epoch,
                    transactional=transactional and producer_id >= 0,
                ).tobytes()
                for producer_id, epoch, sequence, size, transactional in group
            )
        )
    pair.close()


def test_each_batch_of_a_group_has_its_own_result() -> None:
    pair = Pair(cleanup_policy="compact")
    first = batch([Rec()], producer_id=5, producer_epoch=1, base_sequence=0)
    found = pair.append(
        first,
        batch([Rec(key=None)]),
        first,
        batch([Rec()], producer_id=5, producer_epoch=1, base_sequence=7),
        batch([Rec()], producer_id=5, producer_epoch=0, base_sequence=1),
        batch([Rec()]),
    )
    assert [each.first_offset if isinstance(each, AppendInfo) else each[0] for each in found] == [
        0,
        RecordValidationError,
        0,
        OutOfOrderSequenceError,
        InvalidProducerEpochError,
        1,
    ]
    pair.close()


# The log


def test_a_log_of_many_segments_with_indexes_is_the_same() -> None:
    pair = Pair(segment_bytes=1000, segment_index_bytes=60, index_interval_bytes=150, segment_ms=10_000)
    times = count(NOW_MS, 700)
    for _ in range(12):
        pair.append(*(building.batch(b"v" * 40, b"w", timestamps=next(times)).tobytes() for _ in range(5)))
    assert len(pair.few.segments) > 5
    pair.close()


def test_other_processes_append_in_between() -> None:
    disk = MemoryFileSystem()
    one, other = (open_log(DIRECTORY, filesystem=disk, segment_bytes=500) for _ in range(2))
    for number in range(20):
        log = (one, other)[number % 3 == 0]
        checked = check_batch(building.batch(b"%d" % number).tobytes(), log.context.config)
        assert log.append_checked([checked]) == [AppendInfo(number, number, NOW_MS, -1, len(checked.data))]
    one.refresh()
    assert rows(one) == [(number, b"%d" % number) for number in range(20)]


def test_a_batch_checked_for_other_settings_is_checked_again() -> None:
    log = open_log(DIRECTORY, filesystem=MemoryFileSystem(), cleanup_policy="compact")
    (found,) = log.append_checked([check_batch(building.batch(b"no key").tobytes(), config())])
    assert isinstance(found, RecordValidationError)


def test_a_time_that_is_refused_by_now_is_judged_when_the_batch_is_appended() -> None:
    log = open_log(DIRECTORY, filesystem=MemoryFileSystem(), message_timestamp_before_max_ms=1000)
    checked = check_batch(building.batch(b"v", timestamps=NOW_MS - 1000).tobytes(), log.context.config)
    assert isinstance(log.append_checked([checked])[0], AppendInfo)
    log.context.clock.advance(1)  # type: ignore[attr-defined]
    assert isinstance(log.append_checked([checked])[0], RecordValidationError)


def test_after_a_failed_write_nothing_is_appended_until_the_log_is_opened_again() -> None:
    disk = FaultyFileSystem(MemoryFileSystem(), [fail("write", "*.log", call=2)])
    log = open_log(DIRECTORY, filesystem=disk)
    checked = check_batch(building.batch(b"v").tobytes(), log.context.config)
    with pytest.raises(StorageError, match="open the log again"):
        log.append_checked([checked, checked])
    with pytest.raises(StorageError, match="open the log again"):
        log.append_checked([checked])
    log.close()
    with open_log(DIRECTORY, filesystem=disk) as again:
        assert again.log_end_offset <= 1


def checked(log: Log, *values: bytes) -> list[CheckedBatch]:
    return [check_batch(building.batch(value).tobytes(), log.context.config) for value in values]


def test_an_append_that_may_wait_for_its_sync_and_fits_its_segment_is_quick() -> None:
    log = open_log("/t-0", filesystem=MemoryFileSystem(), flush_messages=3, segment_bytes=500)
    assert log.is_quick(checked(log, b"1"))
    assert log.is_quick(checked(log, b"1", b"2"))
    assert not log.is_quick(checked(log, b"1", b"2", b"3"))  # the third is due to be synced
    assert log.is_quick(checked(log, b"1", b"2", b"3"), sync=False)
    assert not log.is_quick(checked(log, bytes(300), bytes(300)), sync=False)  # together too large for a segment
    assert not log.is_quick([CheckedBatch(memoryview(b""), log.context.config)], sync=False)  # not checked yet


def test_batches_that_begin_a_segment_are_not_quick_if_one_may_need_the_next_segment() -> None:
    log = open_log("/t-0", filesystem=MemoryFileSystem(), segment_ms=1000)
    times = NOW_MS - 2000, NOW_MS
    batches = [check_batch(building.batch(b"v", timestamps=each).tobytes(), log.context.config) for each in times]
    assert log.is_quick(batches[:1], sync=False)
    assert not log.is_quick(batches, sync=False)
    log.append_checked(batches)
    assert len(log.segments) == 2


def test_a_log_is_used_alone_only_while_nobody_else_appends(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    with log.if_alone() as is_alone:
        assert not is_alone  # it has not had the lock yet
    log.append_checked(checked(log, b"ours"))
    with log.if_alone() as is_alone:
        assert is_alone
        assert log.is_append_locked
    assert not log.is_append_locked
    with open_log(tmp_path / "t-0").exclusively(), log.if_alone() as is_alone:
        assert not is_alone
    with log.if_alone() as is_alone:
        assert not is_alone  # the other one had the lock
    log.append_checked(checked(log, b"ours"))
    with log.if_alone() as is_alone:
        assert is_alone


def test_a_log_that_another_process_has_rolled_is_not_used_alone(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    log.append_checked(checked(log, b"ours"))
    open_log(tmp_path / "t-0").roll()
    assert not log.is_as_left()
    with log.if_alone() as is_alone:
        assert not is_alone
    log.append_checked(checked(log, b"ours"))
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    assert log.is_as_left()


def test_nothing_to_append_is_no_error(tmp_path: object) -> None:
    with open_log(tmp_path, filesystem=LocalFileSystem()) as log:
        assert log.append_checked([]) == []
        (found,) = log.append_checked([check_batch(b"", log.context.config)])
        assert found == AppendInfo(0, -1, -1, -1, 0)
    assert isinstance(log, Log)


# Batches that this process encodes, one at a time


STEPS = st.tuples(
    st.sampled_from(["plain", "idempotent", "transactional", "commit", "abort"]),
    st.integers(0, 2),  # of the producer
    st.integers(0, 2),  # epoch
    st.integers(0, 3),  # sequence
    st.lists(BYTES, min_size=1, max_size=3),
)
Step = tuple[str, int, int, int, list[bytes | None]]


def take_step(log: Log, step: Step, *, by_tables: bool) -> object:
    kind, producer_id, epoch, sequence, values = step
    producer, fields = Producer(producer_id, epoch), v2.BatchFields()
    if kind == "idempotent":
        fields = v2.BatchFields(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    batches = v2.encode_batches(records(values), fields, batch_bytes_max=1000)
    try:
        if kind == "transactional":
            return log.append_transactional(batches, producer)
        if kind in ("plain", "idempotent"):
            return log.append_encoded(batches)
        if by_tables:
            building.end_transaction(log, producer_id, commit=kind == "commit", epoch=epoch)
        else:
            log.end_transaction(producer, commit=kind == "commit")
    except LogStoreError as error:
        return type(error)  # the text has the offset that the batch would have had, which tables know later
    return None


@settings(max_examples=60)
@given(
    st.lists(STEPS, min_size=1, max_size=12), st.sampled_from([{}, {"segment_bytes": 300, "index_interval_bytes": 0}])
)
def test_single_batches_of_this_process_are_written_as_by_tables(steps: list[Step], topic: dict[str, object]) -> None:
    pair = Pair(**topic)
    with patch.object(Log, "_is_plain", return_value=False):
        full = [take_step(pair.full, step, by_tables=True) for step in steps]
    assert [take_step(pair.few, step, by_tables=False) for step in steps] == full
    pair.close()
