"""``where("key = …")`` with push-down: the records that a scan finds, from the segments that may have them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.datasource import EqualTo, Filter, In

from pyspark_commitlog.pipeline.read.batch import FilteringBatchReader
from pyspark_commitlog.pipeline.read.options import ReadOptions
from pyspark_commitlog.storage import (
    LogManager,
    MaintenanceRun,
    Records,
    counting_reads,
    filter_partitions,
    in_this_process,
    partitions_of,
    select_partitions,
)
from pyspark_commitlog.storage.format.tables import BinaryColumn
from pyspark_commitlog.storage.transfer.to_bucket import copy_to_bucket
from tests.support.logs.building import NOW_MS, end_transaction, write_transactional
from tests.support.stores.served import ServedStores

URL = "s3://memory/logs"
KEY = ("key",)
KEYS = [None, b"", b"\xff", *(b"key %d" % number for number in range(12))]
Rows = list[tuple[int, int, bytes | None]]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Topic t, of 3 partitions with 12 segments each and their key filters; any key may be in any partition."""
    path, chance = str(tmp_path_factory.mktemp("keys") / "log"), Random(7)
    with LogManager.open(path, create=True) as manager:
        manager.create_topic("t", partitions=3, configs={"keyfilter.enable": "true"})
        for partition in range(3):
            log = manager.open_log("t", partition)
            for segment in range(12):
                keys = chance.choices(chance.sample(KEYS, 3), k=5)
                log.append_records(Records.to_append(keys, [b"%d" % segment] * 5, NOW_MS + segment))
                if segment % 4 == 1:
                    write_transactional(log, 40 + segment, 0, b"aborted", b"too")
                    end_transaction(log, 40 + segment, commit=segment % 8 == 1)
                log.roll()
    run = MaintenanceRun(path)
    with run.manager() as manager:
        selection = select_partitions(manager, (), run.overrides)
    assert {each.facts["made"] for each in filter_partitions(run, selection, in_this_process)} == {12}
    return path


def read(path: str, filters: list[Filter], **options: str) -> tuple[Rows, int]:
    """Returns the rows of a pushed read, and the bytes of segments that it read."""
    given = ReadOptions.parse({"path": path, "subscribe": "t", "pushFilters": "true", **options})
    reader = FilteringBatchReader(given, given.columns.arrow_schema(given.columns.schema()))
    assert reader.pushFilters(filters) == []
    tasks, size = reader.partitions(), list[int]()
    with counting_reads(size.append):
        batches = [batch for task in tasks for batch in reader.read(task)]
    rows = [(row["partition"], row["offset"], row["key"]) for batch in batches for row in batch.to_pylist()]
    return rows, sum(size)


def with_keys(rows: Rows, keys: Collection[bytes]) -> Rows:
    return [row for row in rows if row[2] in keys]


@pytest.fixture
def places(directory: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The directory, and its copy on an object store."""
    stores = ServedStores(monkeypatch)
    with LogManager.open(directory) as manager:
        list(copy_to_bucket(manager, stores.create(URL), limit=10_000))
    return [directory, URL]  # type: ignore[return-value]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("mode", ["failfast", "dropmalformed"])
def test_a_pushed_key_finds_what_a_scan_finds(places: list[str], isolation: str, mode: str) -> None:
    for path in places:
        options = {"isolation.level": isolation, "mode": mode}
        everything, _ = read(path, [], **options)
        assert len(everything) > 150
        for key in [b"absent", *KEYS[1:]]:
            assert read(path, [EqualTo(KEY, key)], **options)[0] == with_keys(everything, [key])
        some = (b"key 1", b"key 5", None, b"absent")
        assert read(path, [In(KEY, some)], **options)[0] == with_keys(everything, some[:2])


def test_segments_without_the_key_are_not_read(directory: str) -> None:
    everything, whole = read(directory, [])
    found, size = read(directory, [EqualTo(KEY, b"key 3")])
    assert found == with_keys(everything, [b"key 3"])
    assert size < 0.6 * whole  # a key is in about a fifth of the segments; reads are rounded up
    assert read(directory, [EqualTo(KEY, b"absent")])[1] < 0.2 * whole


def test_filters_are_passed_over_in_every_task_of_a_partition(directory: str) -> None:
    everything, _ = read(directory, [])
    for size in ("3", "7", "50"):
        found, _ = read(directory, [EqualTo(KEY, b"key 3")], maxRecordsPerPartition=size)
        assert found == with_keys(everything, [b"key 3"])


def test_only_the_option_restricts_a_key_to_the_partition_of_its_hash(directory: str) -> None:
    everything, _ = read(directory, [])
    places = {key: {row[0] for row in with_keys(everything, [key])} for key in KEYS if key}
    owners = dict(zip(places, partitions_of(BinaryColumn.from_list([*places]), 3).tolist(), strict=True))
    key = next(key for key, found in places.items() if found > {owners[key]})
    own, rows = owners[key], with_keys(everything, [key])
    assert read(directory, [EqualTo(KEY, key)], keyPartitioner="murmur2")[0] == [row for row in rows if row[0] == own]
    (Path(directory) / "topics.json").rename(Path(directory) / "kept")
    try:  # then how many partitions the topic has is not known
        assert read(directory, [EqualTo(KEY, key)], keyPartitioner="murmur2")[0] == rows
    finally:
        (Path(directory) / "kept").rename(Path(directory) / "topics.json")


def test_damage_in_a_segment_that_may_have_the_key_fails_the_query(directory: str, tmp_path: Path) -> None:
    shutil.copytree(directory, tmp_path / "log")  # in the copy, filters are not believed
    damaged = sorted((tmp_path / "log" / "t-0").glob("*.log"))[3]
    data = bytearray(damaged.read_bytes())
    data[80] ^= 1
    damaged.write_bytes(data)
    with pytest.raises(Exception, match=f"{damaged.name}, position 0"):
        read(str(tmp_path / "log"), [EqualTo(KEY, b"absent")])


# In Spark


def load(spark: SparkSession, path: str, **options: str) -> DataFrame:
    return spark.read.format("commitlog").options(subscribe="t", **options).load(path)


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param("key = 'key 3'", id="text"),
        pytest.param("key = X'FF'", id="bytes"),
        pytest.param(lambda: F.col("key") == F.lit(b"key 3"), id="a literal of bytes"),
        pytest.param("key in ('key 3', 'key 4', 'absent') and offset > 20", id="a list, and offsets"),
        pytest.param(lambda: F.col("key").isin([b"key 1", b"key 2"]), id="a list of bytes"),
        pytest.param("key <=> 'key 5' and value is not null", id="equal or both null"),
        pytest.param("cast(key as string) = 'key 3'", id="what Spark does not hand over"),
        pytest.param("key = 'key 3' or partition = 1", id="either"),
        pytest.param("not (key = 'key 3')", id="another key"),
        pytest.param("key is null", id="no key"),
    ],
)
def test_spark_finds_the_rows_of_a_scan(
    pushing: SparkSession, directory: str, condition: str | Callable[[], Column]
) -> None:
    def rows(frame: DataFrame) -> list[tuple[int, int]]:
        given = frame.where(condition if isinstance(condition, str) else condition())
        return sorted((row.partition, row.offset) for row in given.select("partition", "offset").collect())

    found = rows(load(pushing, directory, pushFilters="true"))
    assert found == rows(load(pushing, directory))
    assert found


@pytest.mark.parametrize("condition", ["key = 'key 3'", "key = X'FF'", "key in ('key 3', 'key 4')"])
def test_spark_hands_over_a_key_that_is_compared_with_text_or_bytes(
    pushing: SparkSession, directory: str, condition: str
) -> None:
    """Spark does not filter again by what was handed over."""

    def filters_by_key(**options: str) -> bool:
        plan = load(pushing, directory, **options).where(condition)._jdf.queryExecution().executedPlan().toString()
        return re.search(r"key#\d+ (=|IN) ", plan) is not None

    assert filters_by_key()
    assert not filters_by_key(pushFilters="true")
