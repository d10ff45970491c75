"""Topics as Delta tables, and back: micro-batches, replays, tombstones, formats."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from delta.tables import DeltaTable
from py4j.java_gateway import JavaPackage
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_commitlog import commitlog_sink
from pyspark_commitlog.arrow.values.avro.serde import AvroSerde, SingleObject
from pyspark_commitlog.arrow.values.serde import JsonSerde, SerializationError
from pyspark_commitlog.pipeline.delta.tables import changes_to_records, starting_offsets, table_sink
from pyspark_commitlog.pipeline.job.delta_jars import check_delta
from pyspark_commitlog.storage import InvalidConfigError, LogManager, ProgressMismatchError, delete_topic
from tests.pipeline.delta.table_topics import PARTITIONS, Pair, Topic, raw, rows, run
from tests.support.logs.building import NOW_MS
from tests.support.logs.directories import directory_with_internal_topics

JSON = JsonSerde(pa.schema([("carrier", pa.string()), ("delay", pa.int32())]))
AVRO = AvroSerde(
    {
        "type": "record",
        "name": "Flight",
        "fields": [{"name": "carrier", "type": "string"}, {"name": "delay", "type": ["null", "int"]}],
    },
    SingleObject(),
)


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    return directory_with_internal_topics(tmp_path / "log")


@pytest.fixture
def topic(spark: SparkSession, log_dir: str) -> Topic:
    return Topic(spark, log_dir)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "table")


class TestAppend:
    def test_rows_have_their_coordinates_and_a_repeated_batch_is_skipped(
        self, spark: SparkSession, topic: Topic, path: str
    ) -> None:
        topic.append([(b"a", b"1"), (None, b"2"), (b"c", None)])
        topic.append([(b"d", b"")], partition=1)
        batch, write = topic.next_batch(), table_sink(path=path, txnAppId="export")
        write(batch, 0)
        write(batch, 0)
        topic.append([(b"a", b"3")])
        write(topic.next_batch(), 1)
        write(batch, 0)
        found = [raw(row) for row in rows(spark, path, "_partition", "_offset", "_key", "value", "_headers")]
        assert found == [
            (0, 0, b"a", b"1", None),
            (0, 1, None, b"2", None),
            (0, 2, b"c", None, None),
            (0, 3, b"a", b"3", None),
            (1, 0, b"d", b"", None),
        ]

    @pytest.mark.parametrize("serde", [JSON, AVRO], ids=["json", "avro"])
    def test_values_become_columns(self, spark: SparkSession, topic: Topic, path: str, serde: JsonSerde) -> None:
        flights = [{"carrier": "UA", "delay": 7}, {"carrier": "B6", "delay": None}]
        values = serde.encode(pa.array(flights, serde.type)).to_pylist()
        topic.append([(b"k", value) for value in [*values, None]])
        table_sink(path=path, serde=serde, txnAppId="export")(topic.next_batch(), 0)
        found = rows(spark, path, "carrier", "delay", "_offset")
        assert [tuple(row) for row in found] == [("UA", 7, 0), ("B6", None, 1), (None, None, 2)]

    def test_query_without_a_checkpoint_continues_after_the_table(
        self, spark: SparkSession, topic: Topic, path: str, log_dir: str
    ) -> None:
        assert json.loads(starting_offsets(spark, path, log_dir, "t")) == {"t": {"0": -2, "1": -2}}
        topic.append([(b"a", b"1"), (b"b", b"2")])
        table_sink(path=path, txnAppId="export")(topic.next_batch(), 0)
        assert json.loads(starting_offsets(spark, path, log_dir, "t")) == {"t": {"0": 2, "1": -2}}

    def test_log_that_the_table_did_not_come_from_is_refused_and_another_table_is_accepted(
        self, spark: SparkSession, topic: Topic, path: str, log_dir: str
    ) -> None:
        """A backup of the log was restored, or the topic was deleted and created again."""
        topic.append([(b"a", b"1"), (b"b", b"2")])
        table_sink(path=path, txnAppId="export")(topic.next_batch(), 0)
        with LogManager.open(log_dir) as manager:
            delete_topic(manager, "t")
        again = Topic(spark, log_dir)
        with pytest.raises(ProgressMismatchError, match=r"row from offset 1 of t-0, but the log in .* ends at 0"):
            starting_offsets(spark, path, log_dir, "t")
        again.append([(b"c", b"3"), (b"d", b"4"), (b"e", b"5")], at_ms=NOW_MS + 77_000)
        with pytest.raises(ProgressMismatchError, match=r"from offset 1 of t-0 with the time .* Put back the log"):
            starting_offsets(spark, path, log_dir, "t")
        assert json.loads(starting_offsets(spark, f"{path}2", log_dir, "t")) == {"t": {"0": -2, "1": -2}}
        with LogManager.open(log_dir) as manager:  # what was deleted tells nothing
            manager.open_log("t", 0).delete_records(2)
        assert json.loads(starting_offsets(spark, path, log_dir, "t")) == {"t": {"0": 2, "1": -2}}


class Model:
    """The newest value of each key, in a dict."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.newest: dict[bytes, tuple[int, int, bytes]] = {}
        self._next = dict.fromkeys(range(PARTITIONS), 0)

    def draw(self, partition: int) -> list[Pair]:
        """Draws records with few keys, separate ones per partition, and many tombstones."""
        pairs: list[Pair] = []
        for _ in range(self._chance.randrange(12)):
            key = b"%d/%d" % (partition, self._chance.randrange(6))
            value = None if self._chance.random() < 0.4 else b"%d" % self._chance.randrange(1000)
            self.newest.pop(key, None)
            if value is not None:
                self.newest[key] = (partition, self._next[partition], value)
            self._next[partition] += 1
            pairs.append((key, value))
        return pairs

    def rows(self) -> list[tuple[bytes, int, int, bytes]]:
        return sorted((key, *found) for key, found in self.newest.items())


class TestUpsert:
    @pytest.mark.only_all
    def test_table_agrees_with_the_compacted_topic_after_every_micro_batch_whatever_is_replayed(
        self, spark: SparkSession, topic: Topic, path: str
    ) -> None:
        model, chance = Model(seed=3), random.Random(4)
        write = table_sink(path=path, mode="upsert", txnAppId="export")
        again = table_sink(path=path, mode="upsert", txnAppId="after the checkpoint was lost")
        for number in range(4):
            for partition in range(PARTITIONS):
                topic.append(model.draw(partition), partition)
            batch = topic.next_batch()
            write(batch, number)
            if chance.random() < 0.5:
                (write if chance.random() < 0.5 else again)(batch, number)
            found = [raw(row) for row in rows(spark, path, "_key", "_partition", "_offset", "value")]
            assert sorted(found) == model.rows(), f"after micro-batch {number}"

    @pytest.mark.only_all
    def test_everything_from_the_beginning_leads_to_the_same_table(
        self, spark: SparkSession, topic: Topic, path: str
    ) -> None:
        model = Model(seed=5)
        for partition in range(PARTITIONS):
            topic.append(model.draw(partition) + model.draw(partition), partition)
        table_sink(path=path, mode="upsert", txnAppId="one")(topic.read(), 0)
        table_sink(path=path, mode="upsert", txnAppId="two")(topic.read(), 0)
        found = [raw(row) for row in rows(spark, path, "_key", "_partition", "_offset", "value")]
        assert sorted(found) == model.rows()

    def test_record_without_a_key_is_named(self, topic: Topic, path: str) -> None:
        topic.append([(b"a", b"1"), (None, b"2")])
        with pytest.raises(PySparkException, match="offset 1 of partition 0 has no key"):
            table_sink(path=path, mode="upsert", txnAppId="export")(topic.next_batch(), 0)

    def test_table_of_the_other_mode_is_refused(self, topic: Topic, path: str) -> None:
        topic.append([(b"a", b"1")])
        table_sink(path=path, txnAppId="export")(topic.next_batch(), 0)
        with pytest.raises(InvalidConfigError, match="created with mode 'append', not 'upsert'"):
            table_sink(path=path, mode="upsert", txnAppId="export")(topic.next_batch(), 1)


def test_records_without_headers_are_refused_with_the_option_that_reads_them(
    spark: SparkSession, topic: Topic, path: str
) -> None:
    topic.append([(b"a", b"1")])
    with pytest.raises(InvalidConfigError, match="includeHeaders"):
        table_sink(path=path, txnAppId="export")(topic.next_batch().drop("headers"), 0)


def test_a_value_that_does_not_decode_is_named_by_its_offset(spark: SparkSession, topic: Topic, path: str) -> None:
    topic.append([(None, b'{"carrier":"UA","delay":1}'), (None, b"{not json")], partition=1)
    with pytest.raises(SerializationError, match=rf"^{topic.name}-1, offset 1: its value is not the JSON .*badRecords"):
        table_sink(path=path, serde=JSON, txnAppId="export")(topic.next_batch(), 0)


def test_a_session_without_the_jar_of_delta_is_told_how_to_get_it() -> None:
    class Session:
        class _jvm:  # noqa: N801  as py4j names it
            class io:  # noqa: N801
                class delta:  # noqa: N801
                    class tables:  # noqa: N801
                        DeltaTable = JavaPackage("io.delta.tables.DeltaTable", None)

    with pytest.raises(InvalidConfigError, match=r"spark_session\(name, delta=True\)"):
        check_delta(cast(SparkSession, Session()))


def test_wrong_settings_are_refused_at_once(path: str) -> None:
    with pytest.raises(InvalidConfigError, match="did you mean 'upsert'"):
        table_sink(path=path, mode="upserts")
    with pytest.raises(InvalidConfigError, match="_offset"):
        table_sink(path=path, serde=JsonSerde(pa.schema([("_offset", pa.int64())])))


class TestBack:
    """The changes of a table to a topic."""

    def changes(self, spark: SparkSession, path: str) -> DataFrame:
        return spark.readStream.format("delta").option("readChangeFeed", "true").load(path)

    def committed(self, topic: DataFrame) -> list[tuple[object, ...]]:
        found = topic.orderBy("partition", "offset").select("partition", "key", "value", "timestamp", "headers")
        return [raw(row) for row in found.collect()]

    def test_topic_to_table_to_topic_keeps_keys_values_times_headers_and_order(
        self, spark: SparkSession, log_dir: str, tmp_path: Path, path: str
    ) -> None:
        text = "encode(string(id), 'UTF-8')"
        source = spark.range(0, 100, 1, 2).selectExpr(
            "if(id % 5 = 0, NULL, string(id % 7)) AS key",
            f"if(id % 6 = 0, NULL, {text}) AS value",
            "timestamp_millis(1700000000000 + id) AS timestamp",
            f"if(id % 3 = 0, array(struct('trace' AS key, {text} AS value)), NULL) AS headers",
        )
        commitlog_sink(topic="a", log_dir=log_dir, txnAppId="load", partitions=PARTITIONS)(source, 0)
        a, b = (self.reader(spark, log_dir, name) for name in "ab")
        stream = spark.readStream.format("commitlog").option("subscribe", "a").option("includeHeaders", "true")
        limited = stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "40").load(log_dir)
        run(limited, table_sink(path=path), tmp_path / "to table")
        back = commitlog_sink(topic="b", log_dir=log_dir, partitions=PARTITIONS)

        def write(changes: DataFrame, batch_id: int) -> None:
            back(changes_to_records(changes, keep_partitions=True), batch_id)

        for _ in range(2):
            run(self.changes(spark, path), write, tmp_path / "to topic")
        assert self.committed(b()) == self.committed(a())

    def reader(self, spark: SparkSession, log_dir: str, name: str) -> Callable[[], DataFrame]:
        frame = spark.read.format("commitlog").option("subscribe", name).option("includeHeaders", "true")
        return lambda: frame.load(log_dir)

    @pytest.mark.only_all
    def test_changes_of_any_table_are_upserts_and_tombstones_in_the_order_of_its_versions(
        self, spark: SparkSession, log_dir: str, tmp_path: Path, path: str
    ) -> None:
        spark.sql(f"CREATE TABLE delta.`{path}` (id INT, carrier STRING, delay INT) USING delta "
                  "TBLPROPERTIES (delta.enableChangeDataFeed = true)")  # fmt: skip
        table = DeltaTable.forPath(spark, path)
        spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'UA', 5), (2, 'B6', 0)")
        run(self.changes(spark, path), self.sink(log_dir), tmp_path / "checkpoint")
        table.update("id = 1", {"delay": "6"})  # type: ignore[dict-item]
        table.delete("id = 2")
        spark.sql(f"INSERT INTO delta.`{path}` VALUES (2, 'AA', NULL)")
        run(self.changes(spark, path), self.sink(log_dir), tmp_path / "checkpoint")
        found = self.reader(spark, log_dir, "changes")().orderBy("offset").collect()
        by_key: dict[str, list[object]] = {"1": [], "2": []}
        for row in found:
            by_key[bytes(row.key).decode()].append(None if row.value is None else json.loads(bytes(row.value)))
        assert by_key == {
            "1": [{"carrier": "UA", "delay": 5}, {"carrier": "UA", "delay": 6}],
            "2": [{"carrier": "B6", "delay": 0}, None, {"carrier": "AA", "delay": None}],
        }

    def sink(self, log_dir: str) -> Callable[[DataFrame, int], object]:
        sink = commitlog_sink(topic="changes", log_dir=log_dir, configs={"cleanup.policy": "compact"})
        return lambda changes, batch_id: sink(changes_to_records(changes, serde=JSON, key="id"), batch_id)

    @pytest.mark.parametrize("keep_partitions", [False, True])
    def test_records_of_a_key_that_moved_are_in_one_task_in_the_order_of_their_times(
        self, spark: SparkSession, keep_partitions: bool
    ) -> None:
        """Key k was in partition 1 and now is in 0; the time of its second record is earlier."""
        changes = [("k", 1, 7, 100, "a"), ("k", 1, 8, 50, "b"), ("k", 0, 2, 300, "c"), (None, 0, 3, 10, "d")]
        changes += [("other", 1, 9, 20, "e"), ("other", 0, 1, 5, "f")]
        rows = [(*row[:3], datetime.fromtimestamp(row[3], UTC), row[4].encode(), "insert", 1, None) for row in changes]
        schema = "_key string, _partition int, _offset long, _timestamp timestamp, value binary, _change_type string, "
        frame = spark.createDataFrame(rows, schema + "_commit_version long, _commit_timestamp timestamp")
        found = changes_to_records(frame, keep_partitions=keep_partitions).selectExpr("*", "spark_partition_id() task")
        orders = [("a", "b"), ("d",)]
        orders += [("f", "c", "d"), ("a", "b", "e")] if keep_partitions else [("a", "b", "c"), ("f", "e")]
        kept = [(row.task, bytes(row.value).decode()) for row in found.collect()]
        for order in orders:
            assert len({task for task, value in kept if value in order}) == 1, order
            assert tuple(value for _, value in kept if value in order) == order

    def test_missing_column_is_named(self, spark: SparkSession) -> None:
        frame = spark.sql("SELECT 1 AS id, 'insert' AS _change_type, 1L AS _commit_version, now() AS _commit_timestamp")
        with pytest.raises(InvalidConfigError, match="the changes lack the columns value, _key; they have id"):
            changes_to_records(frame)
