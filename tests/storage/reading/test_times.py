"""Lookups by time find records, not the markers between them, whatever effect those have on the time index."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import CorruptRecordError, MissingSegmentError, OffsetOutOfRangeError
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.format.legacy import v1
from pyspark_commitlog.storage.reading import times
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.fetch import Timespan
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.reading.watcher import LogWatcher
from pyspark_commitlog.storage.recovery.producer_state import Origin, Producer
from pyspark_commitlog.storage.segment.joining import Holes
from pyspark_commitlog.storage.segment.reader import SegmentReader
from pyspark_commitlog.storage.segment.walk import Window
from pyspark_commitlog.storage.writing.log import Log
from tests.support.clock import ManualClock
from tests.support.logs.building import NOW_MS, append, open_files, open_log, open_reader, records

OLD_MS = NOW_MS - 10 * 365 * 86_400_000
PRODUCER = Producer(7, 0)


def transaction(log: Log, *timestamps: int, producer: Producer = PRODUCER, commit: bool | None = True) -> None:
    """A batch per time, and the marker after them; None leaves the transaction open."""
    for timestamp in timestamps:
        log.append_transactional(encoded(timestamp), producer)
    if commit is not None:
        log.end_transaction(producer, commit=commit)


def encoded(timestamp: int) -> v2.EncodedBatches:
    return v2.encode_batches(records([b"%d" % timestamp], timestamps=timestamp), v2.BatchFields(), batch_bytes_max=1000)


def history(log: Log, count: int, *, of_each: int = 5) -> None:
    """Old records, one per second, in transactions that end now."""
    for first in range(0, count, of_each):
        transaction(log, *(OLD_MS + 1000 * n for n in range(first, first + of_each)))


def seen(reader: LogReader, isolation: Isolation) -> Iterator[tuple[int, int]]:
    """Offset and time of every record that a reader sees."""
    for part in reader.records(reader.log_start_offset, reader.log_end_offset, isolation=isolation):
        yield from zip(part.offsets.tolist(), part.timestamps.tolist(), strict=True)


def found(reader: LogReader, isolation: Isolation, timestamp_ms: int) -> tuple[int, int] | None:
    record = reader.offset_for_timestamp(timestamp_ms, isolation)
    return None if record is None else (record.offset, record.timestamp)


@pytest.mark.parametrize("isolation", Isolation)
def test_a_time_window_of_a_loaded_history_has_what_a_filter_finds(tmp_path: Path, isolation: Isolation) -> None:
    log = open_log(tmp_path, segment_bytes=1000, index_interval_bytes=0)
    history(log, 50)
    assert len(log.segments) > 3
    with open_reader(tmp_path, segment_bytes=1000) as reader:
        start, end = (reader.offset_for_timestamp(OLD_MS + 1000 * n, isolation) for n in (12, 37))
        assert start is not None
        assert end is not None
        window = [time for offset, time in seen(reader, isolation) if start.offset <= offset < end.offset]
        assert window == [OLD_MS + 1000 * n for n in range(12, 37)]
        assert reader.offset_for_timestamp(OLD_MS + 50_000, isolation) is None
        newest = reader.offset_of_max_timestamp()
        assert newest is not None
        assert newest.timestamp == OLD_MS + 49_000


def test_a_partition_that_nothing_was_written_to_has_no_time(tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path), create=True) as manager:
        manager.create_topic("t", partitions=1)
        with manager.open_reader("t", 0) as reader:
            assert reader.offset_of_max_timestamp() is None
            assert reader.offset_for_timestamp(0) is None
            assert list(reader.records(0, 10, timespan=Timespan(OLD_MS, NOW_MS))) == []


def test_records_of_an_aborted_transaction_are_found_by_read_uncommitted(tmp_path: Path) -> None:
    """A batch failed and was written again: a window by time has one from the second attempt."""
    log = open_log(tmp_path)
    transaction(log, 10, 20, 30, commit=False)
    transaction(log, 10, 20, 30)
    with open_reader(tmp_path) as reader:
        for asked, time, aborted, committed in ((10, 10, 0, 4), (20, 20, 1, 5), (25, 30, 2, 6)):
            assert found(reader, Isolation.READ_UNCOMMITTED, asked) == (aborted, time)
            assert found(reader, Isolation.READ_COMMITTED, asked) == (committed, time)


@pytest.mark.parametrize("seed", range(30))
def test_any_log_answers_every_time_as_reading_all_of_it_does(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lookups in any order, between appends, by readers that remember what they read and by one that does not."""
    chance = random.Random(seed)
    monkeypatch.setattr(times, "STRETCH_BYTES", chance.choice([1, 300, 2**20]))
    monkeypatch.setattr(times, "PROBE_BYTES", 100)
    settings: dict[str, Any] = {
        "segment_bytes": chance.choice([400, 1500, 10**6]),
        "index_interval_bytes": chance.choice([0, 200, 4096]),
    }
    clock = ManualClock(NOW_MS)
    log = open_log(tmp_path, marks := KeptInMemory(), clock=clock, segment_ms=2**62, **settings)
    watcher = LogWatcher.open(str(tmp_path), log.context.config, checkpoints=marks)
    asked = [*range(-2, 103, 3), NOW_MS, NOW_MS + 5, NOW_MS + 10**6]
    for _ in range(4):
        write_something(log, clock, chance)
        watcher.catch_up()
        readers = [log, watcher, open_reader(tmp_path, marks, **settings)]
        for isolation in chance.sample([*Isolation], 2):
            rows = [*seen(watcher, isolation)]
            answers = {time: next((row for row in rows if row[1] >= time), None) for time in asked}
            for time in chance.sample(asked, 12):
                for reader in readers:
                    assert found(reader, isolation, time) == answers[time], (time, isolation)
        everything = [*seen(watcher, Isolation.READ_UNCOMMITTED)]
        newest = max((time for _, time in everything), default=-1)
        for reader in readers:
            largest = reader.offset_of_max_timestamp()
            first = next((each for each in everything if each[1] == newest >= 0), None)
            assert (None if largest is None else (largest.offset, largest.timestamp)) == first


def write_something(log: Log, clock: ManualClock, chance: random.Random) -> None:
    """Times in and out of order, with and without transactions; occasionally the log start is raised."""
    for n in range(chance.randrange(1, 12)):
        clock.advance(chance.choice([0, 0, 7]))
        now = [chance.choice([n * 8, chance.randrange(100), clock.now_ms(), -1]) for _ in range(chance.randrange(1, 4))]
        kind = chance.randrange(6)
        if kind == 0:
            append(log, *[b"x"] * len(now), timestamps=now)
        elif kind == 1 and chance.random() < 0.3:
            log.roll()
        elif kind == 2 and chance.random() < 0.3:
            log.delete_records(chance.randrange(log.log_start_offset, log.last_stable_offset + 1))
        else:
            producer = Producer(chance.randrange(1, 4), 0)
            transaction(log, *now, producer=producer, commit=chance.choice([True, True, False, None]))


def test_a_segment_is_read_once_for_all_lookups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path, segment_bytes=2000, segment_ms=2**62)
    history(log, 200)
    read, inner = list[int](), SegmentReader.batches

    def batches(segment: SegmentReader, *arguments: Any, **more: Any) -> Iterator[Window]:
        read.append(segment.base_offset)
        return inner(segment, *arguments, **more)

    with open_reader(tmp_path, segment_bytes=2000) as reader:
        monkeypatch.setattr(SegmentReader, "batches", batches)
        answer = found(reader, Isolation.READ_COMMITTED, OLD_MS + 190_000)
        assert {*read} >= {*reader.segments.base_offsets[1:-2]}
        assert open_files(tmp_path) < 8
        read.clear()
        assert found(reader, Isolation.READ_COMMITTED, OLD_MS + 190_000) == answer
        assert len(read) < 3


def test_a_segment_that_compaction_replaced_is_read_again(tmp_path: Path) -> None:
    """Remembered positions refer to a file whose name another file has by now."""
    log = open_log(tmp_path, segment_bytes=2000, segment_ms=2**62)
    history(log, 60)
    other = tmp_path / "other"
    shifted = open_log(other, segment_bytes=2000, segment_ms=2**62)
    append(shifted, b"x" * 30, timestamps=OLD_MS)
    reader = open_reader(tmp_path, segment_bytes=2000)
    assert found(reader, Isolation.READ_COMMITTED, OLD_MS + 55_000) is not None
    history(shifted, 60)
    name = file_names.segment_file(0, file_names.LOG)
    (other / name).rename(tmp_path / name)
    answer = found(reader, Isolation.READ_COMMITTED, OLD_MS + 3000)
    assert answer == (4, OLD_MS + 3000)


def test_a_time_index_that_a_broker_made_empty_is_not_believed(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=300)
    for n in range(10):
        append(log, b"x" * 50, timestamps=OLD_MS + n)
    log.close()
    (tmp_path / file_names.segment_file(0, file_names.TIME_INDEX)).write_bytes(b"")
    with open_reader(tmp_path, segment_bytes=300) as reader:
        assert found(reader, Isolation.READ_COMMITTED, OLD_MS) == (0, OLD_MS)


def test_a_changed_header_that_a_lookup_would_pass_over_is_an_error(tmp_path: Path) -> None:
    """A time, or a control bit: no bit can be trusted before the checksum is verified."""
    log = open_log(tmp_path, segment_ms=2**62)
    history(log, 20)
    log.close()
    path = tmp_path / file_names.segment_file(0, file_names.LOG)
    sound = path.read_bytes()
    record = len(encoded(OLD_MS).buffer)
    for byte, bit in ((35 + 6, 3), (35, 6), (21 + 1, 5), (57 + 3, 0)):
        changed = bytearray(sound)
        changed[3 * record + byte] ^= 1 << bit
        path.write_bytes(changed)
        with open_reader(tmp_path, KeptInMemory(recovery_point=log.log_end_offset)) as reader:
            for isolation in Isolation:
                with pytest.raises(CorruptRecordError):
                    reader.offset_for_timestamp(OLD_MS + 3000, isolation)
                with pytest.raises(CorruptRecordError):
                    reader.offset_for_timestamp(OLD_MS + 15_000, isolation)


@pytest.mark.parametrize("order", ["rising", "falling", "any"])
def test_a_time_index_with_too_early_times_is_not_trusted(tmp_path: Path, order: str) -> None:
    """Lost entries, or a changed bit: no checksum covers an index, so the log decides."""
    chance = random.Random(order)
    log = open_log(tmp_path, segment_bytes=400, index_interval_bytes=0)
    offered = [OLD_MS + 10 * n for n in range(30)]
    asked = {"rising": offered, "falling": offered[::-1], "any": chance.sample(offered, 30)}[order]
    for timestamp in asked:
        append(log, b"x" * 50, timestamps=timestamp)
    log.close()
    paths = sorted(tmp_path.glob("*.timeindex"))[:-1]
    for _ in range(60):
        path = chance.choice(paths)
        sound = path.read_bytes()
        changed = bytearray(sound)
        changed[-chance.randrange(1, 13)] ^= 1 << chance.randrange(8)
        path.write_bytes(chance.choice([bytes(changed), sound[:-12]]))
        with open_reader(tmp_path, segment_bytes=400) as reader:
            for timestamp in chance.sample(offered, 3):
                answer = next((n, time) for n, time in enumerate(asked) if time >= timestamp)
                assert found(reader, Isolation.READ_COMMITTED, timestamp) == answer
            newest = reader.offset_of_max_timestamp()
            assert newest is not None
            assert newest.timestamp == offered[-1]
        path.write_bytes(sound)


@pytest.mark.parametrize("damage", ["the content of the last segment", "a changed base offset"])
def test_a_lookup_does_not_skip_a_segment_that_reaches_into_the_next(tmp_path: Path, damage: str) -> None:
    """It said that no record was as late, though the log cannot be read."""
    log = open_log(tmp_path, segment_bytes=400)
    for n in range(12):
        append(log, b"x" * 50, timestamps=OLD_MS + n)
    log.close()
    first, *_, last = sorted(tmp_path.glob("*.log"))
    if damage == "a changed base offset":
        data = bytearray(first.read_bytes())
        position = len(data) // 3 * 2  # of the last of three batches
        data[position + 3] ^= 4  # 2^34 higher
        first.write_bytes(data)
    else:
        first.write_bytes(last.read_bytes())
    with open_reader(tmp_path, segment_bytes=400) as reader, pytest.raises(CorruptRecordError):
        reader.offset_for_timestamp(OLD_MS + 2)


def test_a_lookup_does_not_skip_a_segment_whose_log_is_lost(tmp_path: Path) -> None:
    """It found the first record after the missing ones; each lookup is refused, not only the first."""
    log = open_log(tmp_path, segment_bytes=400)
    for n in range(12):
        append(log, b"x" * 50, timestamps=OLD_MS + n)
    log.close()
    _, lost, *_ = sorted(tmp_path.glob("*.log"))
    lost_offset = int(lost.stem)
    lost.unlink()
    with open_reader(tmp_path, KeptInMemory(recovery_point=12), segment_bytes=400) as reader:
        for _ in range(2):
            with pytest.raises(MissingSegmentError):
                reader.offset_for_timestamp(OLD_MS + lost_offset + 1)


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_lookup_does_not_pass_over_lost_messages_before_wrapper_messages(tmp_path: Path, lost: int) -> None:
    """The header of a wrapper has only its last offset: the messages in it show where it begins."""
    with open_log(tmp_path) as log:
        for n in range(4):
            three = records([b"x"] * 3, timestamps=OLD_MS + n)
            wrapper = v1.encode(replace(three, offsets=three.offsets + 3 * n), Codec.GZIP)
            log.append(wrapper, origin=Origin.REPLICATION)
    path = tmp_path / file_names.segment_file(0, file_names.LOG)
    sound, size = path.read_bytes(), len(wrapper)
    with open_reader(tmp_path) as reader:
        assert found(reader, Isolation.READ_COMMITTED, OLD_MS + lost) == (3 * lost, OLD_MS + lost)
    path.write_bytes(sound[: lost * size] + sound[(lost + 1) * size :])
    with open_reader(tmp_path, KeptInMemory(12, holes=Holes.NOWHERE)) as reader:
        for _ in range(2):
            with pytest.raises(MissingSegmentError):
                reader.offset_for_timestamp(OLD_MS + lost)


def read_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the windows that are walked from now on."""
    found: list[int] = []
    walk = SegmentReader.walk

    def counted(self: SegmentReader, position: int, end: int, window_bytes: int = 4 << 20) -> Iterator[Window]:
        for window in walk(self, position, end, window_bytes):
            found.append(window.headers.end)
            yield window

    monkeypatch.setattr(SegmentReader, "walk", counted)
    return found


def growing(directory: Path, count: int) -> Log:
    """An active segment of about 300 KB with increasing times, and index entries for all but the last batches."""
    log = open_log(directory, index_interval_bytes=4096)
    for number in range(count):
        append(log, b"x" * 1000, timestamps=NOW_MS + number)
    return log


@pytest.mark.parametrize("kind", [LogReader, LogWatcher])
@pytest.mark.parametrize("count", [299, 300, 301, 302, 303])
def test_a_time_still_to_come_is_answered_from_the_index_and_the_tail_behind_it(
    tmp_path: Path,
    kind: type[LogReader],
    count: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    growing(tmp_path, count)
    log = kind.open(str(tmp_path), checkpoints=KeptInMemory())
    monkeypatch.setattr(times, "SMALL_BYTES", 0)
    walked = read_bytes(monkeypatch)
    assert log.offset_for_timestamp(NOW_MS + count, Isolation.READ_UNCOMMITTED) is None
    assert sum(walked) < 20_000
    found = log.offset_for_timestamp(NOW_MS + count - 1, Isolation.READ_UNCOMMITTED)
    assert found is not None
    assert found.offset == count - 1
    assert not caplog.messages


def test_what_was_appended_since_is_in_the_index_and_is_no_contradiction(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = growing(tmp_path, 300)
    with LogReader.open(str(tmp_path), checkpoints=KeptInMemory()) as reader:
        for number in range(300, 400):
            append(log, b"x" * 1000, timestamps=NOW_MS + number)
        assert reader.offset_for_timestamp(NOW_MS + 1000) is None
        found = reader.offset_for_timestamp(NOW_MS + 299)
        assert found is not None
        assert found.offset == 299
    assert not caplog.messages


def test_an_index_of_the_active_segment_that_states_too_early_times_is_not_trusted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = growing(tmp_path, 300)
    index = log.segments.active.time_index
    entry = index.last_entry
    data = bytearray(Path(index.path).read_bytes())
    at = data.index(entry.timestamp.to_bytes(8, "big"))
    data[at : at + 8] = (entry.timestamp - 1).to_bytes(8, "big")
    Path(index.path).write_bytes(data)
    with LogReader.open(str(tmp_path), checkpoints=KeptInMemory()) as reader:
        assert reader.offset_for_timestamp(NOW_MS + 1000) is None
    assert "the time index contradicts the log" in caplog.text


def test_records_deleted_before_a_read_by_time_reaches_them_are_missed(tmp_path: Path) -> None:
    """They were taken for records older than the time, so that a read went on after them."""
    log = open_log(tmp_path)
    for _ in range(3):
        append(log, b"a", b"b")
        log.roll()
    reader = open_reader(tmp_path)
    reading = reader.records(0, 6, timespan=Timespan(first=NOW_MS))
    assert next(reading).offsets.tolist() == [0, 1]
    for base_offset in (0, 2):
        for file in tmp_path.glob(file_names.segment_file(base_offset, ".*")):
            file.unlink()
    with pytest.raises(OffsetOutOfRangeError, match="offset 2 is outside the log, which holds 4 to 6"):
        next(reading)
