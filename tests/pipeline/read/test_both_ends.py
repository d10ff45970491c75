"""The queries of the comparison with Spark's Kafka source, on a directory and on its copy on an object store.

``test_batch_kafka`` and ``test_stream_kafka`` compare the directory with Spark's source. Here both ends are planned and
read in this process; a few queries then run in Spark's own processes, against a real store.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pyspark_commitlog.pipeline.datasource import CommitLogDataSource
from pyspark_commitlog.storage import GroupOffsets, LogManager
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.transfer.to_bucket import copy_to_bucket
from tests.pipeline.read.kafka_sources import DEFAULTS, Batches, Options, Sources, assert_same
from tests.pipeline.read.test_batch_kafka import BATCHES
from tests.pipeline.read.test_stream_kafka import STREAMS
from tests.support.stores.seaweed import KEY, SECRET
from tests.support.stores.served import ServedStores

URL = "s3://memory/logs"
TOPICS = ("plain", "plain.too", "gap", "compacted", "txn", "empty", "append-time")


@pytest.fixture(scope="module")
def directory(sources: Sources, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The topics as they are now: other modules make topics on the broker that the patterns match."""
    copy, broker = tmp_path_factory.mktemp("copied") / "log", sources.broker.log_dir
    copy.mkdir()
    for path in broker.iterdir():
        if path.is_file():
            shutil.copy2(path, copy)
        elif path.name.rpartition("-")[0] in TOPICS:
            shutil.copytree(path, copy / path.name)
    return str(copy)


@pytest.fixture(scope="module")
def stores(directory: str) -> ServedStores:
    with pytest.MonkeyPatch.context() as monkeypatch:
        stores = ServedStores(monkeypatch)
        fill(directory, stores.create(URL))
    return stores


def fill(directory: str, log: object) -> None:
    with LogManager.open(directory) as manager:
        list(copy_to_bucket(manager, log, TOPICS))  # type: ignore[arg-type]


def source(path: str, options: Options) -> CommitLogDataSource:
    return CommitLogDataSource({**DEFAULTS, **options, "path": path})


def sorted_rows(batches: list[pa.RecordBatch]) -> list[dict[str, object]]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def batch_rows(path: str, options: Options) -> list[dict[str, object]]:
    found = source(path, options)
    reader = found.reader(found.schema())
    return sorted_rows([batch for part in reader.partitions() for batch in reader.read(part)])


def micro_batches(path: str, options: Options) -> Iterator[tuple[object, list[dict[str, object]]]]:
    """The end and the rows of each micro-batch until there is nothing new."""
    found = source(path, options)
    reader = found.streamReader(found.schema())
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    try:
        for _ in range(60):
            end = reader.latestOffset(start, limit)
            if end == start:
                return
            parts = reader.partitions(start, end)
            yield end, sorted_rows([batch for part in parts for batch in reader.read(part)])
            start = end
    finally:
        reader.stop()


@pytest.mark.parametrize("options", BATCHES.values(), ids=BATCHES)
def test_batch_reads_are_the_same(
    options: Options, directory: str, stores: ServedStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores.serve(monkeypatch)
    assert batch_rows(URL, options) == batch_rows(directory, options)


@pytest.mark.parametrize("options", STREAMS.values(), ids=STREAMS)
def test_micro_batches_are_the_same(
    options: Options, directory: str, stores: ServedStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores.serve(monkeypatch)
    of_bucket, of_directory = [*micro_batches(URL, options)], [*micro_batches(directory, options)]
    assert [rows for _, rows in of_bucket] == [rows for _, rows in of_directory]
    if "txn" not in options.get("subscribe", ""):  # whose markers at the end may not be synced yet
        assert [end for end, _ in of_bucket] == [end for end, _ in of_directory]


def test_a_look_at_nothing_new_is_one_request(stores: ServedStores, monkeypatch: pytest.MonkeyPatch) -> None:
    stores.serve(monkeypatch)
    found = source(URL, {"subscribe": ",".join(TOPICS)})
    reader = found.streamReader(found.schema())
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    start = reader.latestOffset(start, limit)
    stores.stores[URL].requests.clear()
    assert reader.latestOffset(start, limit) == start
    assert sum(stores.stores[URL].requests.values()) == 1
    reader.stop()


def test_progress_is_committed_for_the_group(stores: ServedStores, monkeypatch: pytest.MonkeyPatch) -> None:
    stores.serve(monkeypatch)
    options = {"subscribe": "plain", "startingOffsets": "earliest", "kafka.group.id": "readers"}
    found = source(URL, options)
    reader = found.streamReader(found.schema())
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    reader.commit(end)
    reader.stop()
    with LogManager.open(URL) as manager:
        offsets = GroupOffsets(manager).fetch("readers")
    assert {str(key.partition): each.offset for key, each in offsets.items()} == end["plain"]


@pytest.mark.slow
@pytest.mark.only_all
def test_spark_reads_a_real_object_store_as_it_reads_the_broker(
    spark: SparkSession, sources: Sources, bucket: str, tmp_path: Path
) -> None:
    fill(str(sources.broker.log_dir), open_root(bucket))
    for options in (BATCHES["both bounds of tasks"], BATCHES["committed transactions"]):
        ours = spark.read.format("commitlog").options(**{**DEFAULTS, **options}).load(bucket)
        assert_same(ours, sources.kafka(options))
        plan = ours._jdf.queryExecution().toString()
        assert not any(secret in plan for secret in (KEY, SECRET))
    options = {"subscribe": "plain", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "50"}
    stream = spark.readStream.format("commitlog").options(**{**DEFAULTS, **options}).load(bucket)
    seen, expected = Batches(), Batches()
    seen.run(stream, tmp_path / "ours")
    expected.run(sources.stream("kafka", options), tmp_path / "kafkas")
    assert seen.rows == expected.rows
