"""A search compared with a full scan: directories of real brokers, our own, with damage and while files go."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pytest

from pyspark_commitlog.storage import (
    Bounds,
    Condition,
    Isolation,
    LogManager,
    LogStoreError,
    Records,
    Search,
    Timespan,
    TopicPartition,
    UnknownTopicOrPartitionError,
    counting_reads,
    delete_records,
    partitions_of,
)
from pyspark_commitlog.storage.config import INT64_MAX
from pyspark_commitlog.storage.finding import pieces
from pyspark_commitlog.storage.format.tables import BinaryColumn
from tests.storage.finding import scanning
from tests.storage.finding.scanning import Row, are_newest_first, as_rows, conditions_from, found, is_wanted
from tests.support.clock import ManualClock
from tests.support.kafka import broker_dirs
from tests.support.logs.building import NOW_MS, append, end_transaction, write_transactional
from tests.support.tiered import tiered_directory


def of_stage(name: str) -> Path:
    return broker_dirs.stage(name) / "log"


DIRECTORIES: dict[str, Callable[[], Path]] = {
    "kafka 0.8.2": broker_dirs.oldest,
    "kafka 2.8": lambda: broker_dirs.legacy() / "log",
    **{
        name: partial(of_stage, name)
        for name in ("codecs/final", "compaction/after-2", "times/final", "transactions/final", "4-plain/final")
    },
}
QUICK = ("kafka 0.8.2", "transactions/final")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.only_all) for name in DIRECTORIES]
)
def test_a_search_finds_what_a_scan_of_a_brokers_directory_finds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark_commitlog.storage.finding.pieces.PIECE_BYTES", 2000)
    chance, searched = Random(name), 0
    with broker_dirs.open_manager(DIRECTORIES[name]()) as manager:
        for topic in manager.topics().values():
            for isolation in Isolation:
                try:
                    rows = scan(manager, topic.name, topic.partitions, isolation)
                except LogStoreError:  # a fault that the scenario is about
                    continue
                for condition in conditions_from(rows, chance):
                    expected = [row for row in rows if is_wanted(row, condition)]
                    assert found(manager, topic.name, condition, isolation=isolation) == expected
                    newest = found(manager, topic.name, condition, isolation=isolation, newest_first=True)
                    assert sorted(newest) == sorted(expected)
                    assert are_newest_first(newest)
                    searched += 1
    assert searched >= 20


def scan(manager: LogManager, topic: str, partitions: tuple[int, ...], isolation: Isolation) -> list[Row]:
    rows: list[Row] = []
    for number in partitions:
        with manager.open_reader(topic, number) as reader:
            rows += scanning.all_rows(reader, number, isolation)
    return rows


# --- on a directory of ours


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Topic t has 3 partitions with about 90 records each, in several segments; the key decides the partition."""
    path = tmp_path_factory.mktemp("find") / "log"
    with LogManager.open(str(path), create=True, clock=ManualClock(NOW_MS)) as opened:
        opened.create_topic("t", partitions=3, configs={"segment.bytes": "1000", "index.interval.bytes": "100"})
        for batch in range(45):
            keys: list[bytes | None] = [b"key %d" % (number % 20) for number in range(batch * 6, batch * 6 + 6)]
            places = partitions_of(BinaryColumn.from_list(keys), 3)
            for partition in range(3):
                mine = [key for key, place in zip(keys, places, strict=True) if place == partition]
                if mine:
                    records = Records.to_append(mine, [b"value of batch %d" % batch] * len(mine), NOW_MS + batch)
                    opened.open_log("t", partition).append_records(records)
    return path


@pytest.fixture
def manager(directory: Path, tmp_path: Path) -> Iterator[LogManager]:
    """The same, to change."""
    shutil.copytree(directory, tmp_path / "log")
    with LogManager.open(str(tmp_path / "log"), clock=ManualClock(NOW_MS)) as opened:
        yield opened


def test_a_key_is_searched_in_its_own_partition_only(manager: LogManager) -> None:
    with Search(manager, "t", Condition(key=b"key 7")) as search:
        rows = as_rows(list(search))
        assert len(search.partitions) == 1
    assert len(rows) > 10
    assert {row.key for row in rows} == {b"key 7"}
    assert {row.partition for row in rows} == {search.partitions[0].partition}
    assert found(manager, "t", Condition(key=b"key 7"), all_partitions=True) == rows


def test_a_key_that_another_partitioner_placed_is_found_in_all_partitions(manager: LogManager) -> None:
    key = b"key 7"
    elsewhere = (int(partitions_of(BinaryColumn.from_list([key]), 3)[0]) + 1) % 3
    manager.open_log("t", elsewhere).append_records(Records.to_append([key], [b"here"], NOW_MS))
    assert b"here" not in [row.value for row in found(manager, "t", Condition(key=key))]
    assert b"here" in [row.value for row in found(manager, "t", Condition(key=key), all_partitions=True)]
    assert [row.value for row in found(manager, "t", Condition(key=key), partitions=[elsewhere])] == [b"here"]


def test_bounds_by_offset_and_by_time_combine(manager: LogManager) -> None:
    rows = scan(manager, "t", (0, 1, 2), Isolation.READ_COMMITTED)
    for bounds in (
        Bounds(start=5, end=60),
        Bounds(start=30, times=Timespan(NOW_MS + 10, NOW_MS + 30)),
        Bounds(end=50, times=Timespan(NOW_MS + 20, INT64_MAX)),
        Bounds(start=10**9),
    ):
        condition = Condition(key_prefix=b"key 1")
        expected = [row for row in rows if is_wanted(row, condition, bounds)]
        assert bool(expected) == (bounds.start != 10**9)
        assert found(manager, "t", condition, bounds) == expected
        assert sorted(found(manager, "t", condition, bounds, newest_first=True)) == sorted(expected)


def test_the_newest_of_all_partitions_come_first(manager: LogManager) -> None:
    times = [row.timestamp for row in found(manager, "t", Condition(), newest_first=True)]
    assert times == sorted(times, reverse=True)


def test_newest_first_reads_each_byte_about_once(manager: LogManager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 300)
    read = list[int]()
    with Search(manager, "t", Condition(key=b"absent"), newest_first=True, partitions=[0]) as search:
        total = search.log_bytes
        with counting_reads(read.append):
            assert list(search) == []
    assert total <= sum(read) < 2.5 * total  # the batch at the edge of a piece, which is large here, is read twice


def test_records_of_an_aborted_transaction_are_found_only_uncommitted(tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path / "log"), create=True, clock=ManualClock(NOW_MS)) as manager:
        manager.create_topic("t", partitions=1)
        log = manager.open_log("t", 0)
        write_transactional(log, 7, 0, b"aborted apple")
        end_transaction(log, 7, commit=False)
        append(log, b"committed apple")
        condition = Condition(value_contains=b"apple")
        committed = [row.value for row in found(manager, "t", condition)]
        assert committed == [b"committed apple"]
        everything = found(manager, "t", condition, isolation=Isolation.READ_UNCOMMITTED)
        assert [row.value for row in everything] == [b"aborted apple", b"committed apple"]


# --- what cannot be searched is named


def spoil_second_segment(manager: LogManager, partition: int) -> range:
    """Damages a record in the second segment; returns the offsets of its batch."""
    with manager.open_reader("t", partition) as reader:
        segment = [*reader.segments][1]
        window = next(segment.batches())
        row = window.headers.table[0]
        path = Path(segment.path(".log"))
    data = bytearray(path.read_bytes())
    data[int(row["position"]) + int(row["size"]) - 2] ^= 1
    path.write_bytes(data)
    return range(int(row["base_offset"]), int(row["last_offset"]) + 1)


@pytest.mark.parametrize("newest_first", [False, True])
def test_damage_is_named_and_the_rest_is_found(manager: LogManager, newest_first: bool) -> None:
    rows = [row for row in scan(manager, "t", (0, 1, 2), Isolation.READ_COMMITTED) if row.partition == 1]
    lost = spoil_second_segment(manager, 1)
    with Search(manager, "t", Condition(), partitions=[1], newest_first=newest_first) as search:
        readable = as_rows(list(search))
    assert sorted(readable) == [row for row in rows if row.offset not in lost]
    assert [(each.partition, each.offsets, each.kind) for each in search.unsearched] == [
        (TopicPartition("t", 1), lost, "damaged")
    ]


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_missing_segment_is_named(manager: LogManager, newest_first: bool) -> None:
    with manager.open_reader("t", 1) as reader:
        second, third = [*reader.segments][1:3]
        for kind in (".log", ".index", ".timeindex"):
            Path(second.path(kind)).unlink()
    with Search(manager, "t", Condition(key=b"absent"), partitions=[1], newest_first=newest_first) as search:
        assert list(search) == []
    assert [(each.offsets, each.kind) for each in search.unsearched] == [
        (range(second.base_offset, third.base_offset), "damaged")
    ]


def test_deleted_records_are_named_only_if_they_were_asked_for(manager: LogManager) -> None:
    list(delete_records(manager, {TopicPartition("t", 0): 20}))
    assert found(manager, "t", Condition(key_prefix=b"key"), partitions=[0])[0].offset == 20
    with Search(manager, "t", Condition(), Bounds(start=5), partitions=[0]) as search:
        assert as_rows(list(search))[0].offset == 20
    assert [(each.offsets, each.kind) for each in search.unsearched] == [(range(5, 20), "deleted")]


def test_records_that_are_deleted_during_the_search_are_named(manager: LogManager) -> None:
    with Search(manager, "t", Condition(), partitions=[0], newest_first=True) as search:
        iterator = iter(search)
        next(iterator)
        list(delete_records(manager, {TopicPartition("t", 0): 20}))
        for path in Path(manager.partition_path("t", 0)).glob("0000000000000000000[0-9].*"):
            path.unlink()  # as retention deletes the segment
        rows = as_rows(list(iterator))
    assert min(row.offset for row in rows) <= 20
    assert [each.kind for each in search.unsearched] == ["deleted"]
    assert search.unsearched[0].offsets is not None
    assert search.unsearched[0].offsets.start == 0


def test_what_only_remote_storage_has_is_named(tmp_path: Path) -> None:
    with LogManager.open(str(tiered_directory(tmp_path / "tiered"))) as manager:
        with Search(manager, "t-plain", Condition(key=b"absent")) as search:
            assert list(search) == []
        assert [(each.offsets, each.kind) for each in search.unsearched] == [(range(618), "tiered")]
        assert found(manager, "t-plain", Condition(key=b"absent"), Bounds(start=618)) == []


def test_an_unknown_partition_is_an_error(manager: LogManager) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="but not 9"):
        Search(manager, "t", Condition(), partitions=[9])


def test_a_topic_of_few_partitions_found_by_their_directories_is_searched_whole(manager: LogManager) -> None:
    (Path(manager.directory) / "topics.json").unlink()
    with LogManager.open(manager.directory) as unknown, Search(unknown, "t", Condition(key=b"key 7")) as search:
        assert len(search.partitions) == 3
        assert len(as_rows(list(search))) > 10


def test_rows_are_taken_in_any_order() -> None:
    records = Records.to_append([b"a", None, b"ccc"], [b"1", b"", None], NOW_MS, [(b"h", b"x")])
    taken = records.take(np.array([2, 0], dtype=np.int64))
    assert [(row.key, row.value, row.headers) for row in scanning.rows_of(0, taken)] == [
        (b"ccc", None, ((b"h", b"x"),)),
        (b"a", b"1", ((b"h", b"x"),)),
    ]
    assert len(records.take(np.array([], dtype=np.int64))) == 0
