"""A topic's table and the tail of its log, as one DataFrame."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_commitlog import topic_table
from pyspark_commitlog.arrow.values.serde import JsonSerde
from pyspark_commitlog.pipeline.delta.command.words import SERDE_PROPERTY
from pyspark_commitlog.pipeline.delta.table_and_tail import small_tail
from pyspark_commitlog.storage import InvalidConfigError, LogManager, OffsetOutOfRangeError
from tests.pipeline.delta.table_and_tail.exported import FLIGHT, Exported, counted, flight, plan_of
from tests.support.logs.building import NOW_MS, end_transaction, write_transactional


@pytest.fixture
def topic(spark: SparkSession, tmp_path: Path) -> Exported:
    return with_tail(spark, tmp_path)


@pytest.fixture(scope="module")
def unchanged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """A topic for reading only."""
    return with_tail(spark, tmp_path_factory.mktemp("topic"))


def with_tail(spark: SparkSession, folder: Path) -> Exported:
    """Returns a topic of two partitions, of which the table has three records, and the log four more."""
    exported = Exported(spark, folder)
    exported.append([(b"a", flight("UA", 1)), (b"b", None)])
    exported.append([(b"c", flight("AA", 3))], partition=1)
    exported.export()
    exported.append([(b"a", flight("UA", 4)), (None, flight("B6", 5)), (b"d", None)])
    exported.append([(b"e", flight("DL", 7))], partition=1)
    return exported


class TestAppend:
    def test_each_record_is_there_once_and_the_newest_too(self, topic: Exported) -> None:
        both = topic.both()
        assert counted(both) == topic.expected()
        assert both.schema == topic.spark.read.format("delta").load(topic.table).schema
        topic.append([(b"f", flight("F9", 8))], partition=1)
        assert counted(topic.both()) == topic.expected()
        assert topic.both().count() == both.count() + 1

    def test_spark_compiles_table_and_tail_into_one_stage(self, unchanged: Exported) -> None:
        """Otherwise an aggregate reads the table row by row."""
        found = unchanged.both().groupBy().sum("delay")
        assert found.collect()[0][0] == 1 + 3 + 4 + 5 + 7
        stages = re.findall(r"\*\((\d+)\) (?:HashAggregate\(.*partial_sum|Union)", plan_of(found))
        assert stages == ["1", "1"]

    @pytest.mark.only_all
    def test_export_moves_the_seam_and_a_dataframe_from_before_stays_as_it_was(self, topic: Exported) -> None:
        before = topic.both()
        expected = topic.expected()
        topic.export()
        topic.append([(b"f", flight("F9", 8))])
        assert counted(before) == expected
        assert counted(topic.both()) == topic.expected()

    @pytest.mark.only_all
    def test_seam_is_known_where_offsets_have_no_row(self, topic: Exported) -> None:
        """The log ends with an aborted transaction, and then retention deletes everything."""
        with LogManager.open(topic.log_dir) as manager:
            log = manager.open_log("t", 0)
            write_transactional(log, 1, 0, flight("XX", 0))
            end_transaction(log, 1, commit=False)
        expected = topic.expected()
        topic.export()
        with LogManager.open(topic.log_dir) as manager:
            log = manager.open_log("t", 0)
            log.delete_records(log.log_end_offset)
        assert counted(topic.both()) == expected

    @pytest.mark.only_all
    def test_table_that_records_no_offsets_ends_with_its_last_rows(self, topic: Exported) -> None:
        """An older version wrote it, or a program outside a query."""
        topic.table = str(topic.folder / "other")
        replace(topic.sink(), app_id="x")(topic.read(endingOffsets='{"t": {"0": 3, "1": 1}}'), 0)
        assert counted(topic.both()) == topic.expected()

    @pytest.mark.only_all
    def test_partition_without_a_tail_is_not_read_and_a_log_without_one_neither(self, topic: Exported) -> None:
        topic.export()
        assert "commitlog" not in plan_of(topic.both())
        topic.append([(b"f", flight("F9", 8))], partition=1)
        both = topic.both()
        assert counted(both) == topic.expected()
        tail = both.where("_partition = 1 AND _offset >= 2")
        assert [row.carrier for row in tail.collect()] == ["F9"]

    def test_tail_may_have_offsets_but_no_rows(self, topic: Exported) -> None:
        topic.export()
        with LogManager.open(topic.log_dir) as manager:
            log = manager.open_log("t", 0)
            write_transactional(log, 1, 0, flight("XX", 0))
            end_transaction(log, 1, commit=False)
        assert counted(topic.both()) == topic.expected()

    def test_filters_and_columns_reach_the_table_and_the_log(self, unchanged: Exported) -> None:
        found = unchanged.both().where("_offset >= 2 AND delay > 4").select("carrier")
        plan = plan_of(found)
        assert "GreaterThanOrEqual(_offset,2)" in plan
        assert "GreaterThan(delay,4)" in plan
        assert sorted(row.carrier for row in found.collect()) == ["B6"]
        assert "decode" not in plan_of(unchanged.both().select("_offset"))

    def test_reading_ends_before_the_offsets_that_were_asked_for(self, unchanged: Exported) -> None:
        found = unchanged.both(ends={0: 1, 1: 2}).select("_partition", "_offset").collect()
        assert sorted(map(tuple, found)) == [(0, 0), (1, 0), (1, 1)]

    def test_arguments_narrow_what_is_read_of_both(self, unchanged: Exported, monkeypatch: pytest.MonkeyPatch) -> None:
        for most in (small_tail.OFFSETS_MAX, 0):  # read by the call, and by the query
            monkeypatch.setattr(small_tail, "OFFSETS_MAX", most)
            found = unchanged.both(partitions=[0], starts={0: 1}, ends={0: 4}, columns=["carrier", "_offset"])
            assert sorted((row["_offset"], row.carrier) for row in found.collect()) == [(1, None), (2, "UA"), (3, "B6")]
            assert found.columns == ["carrier", "_offset"]
        assert "commitlog" not in plan_of(unchanged.both(partitions=[1], ends={1: 1}))

    @pytest.mark.only_all
    def test_table_is_not_read_for_offsets_that_are_in_the_log_only(self, unchanged: Exported) -> None:
        found = unchanged.both(partitions=[0], starts={0: 3}, columns=["carrier", "_offset"])
        assert "parquet" not in plan_of(found).lower()
        assert sorted((row["_offset"], row.carrier) for row in found.collect()) == [(3, "B6"), (4, None)]
        of_one = unchanged.both(starts={0: 2}, columns=["_partition", "_offset"])
        assert sorted(map(tuple, of_one.collect())) == [(0, 2), (0, 3), (0, 4), (1, 0), (1, 1)]

    def test_times_narrow_what_is_read_of_both(self, topic: Exported, monkeypatch: pytest.MonkeyPatch) -> None:
        for most in (small_tail.OFFSETS_MAX, 0):
            monkeypatch.setattr(small_tail, "OFFSETS_MAX", most)
            found = topic.both(since=NOW_MS + 1, until=NOW_MS + 2002, columns=["_partition", "_offset"]).collect()
            assert sorted(map(tuple, found)) == [(0, 1), (0, 2), (0, 3), (1, 1)]

    @pytest.mark.only_all
    def test_long_tail_is_read_by_the_query(self, topic: Exported, monkeypatch: pytest.MonkeyPatch) -> None:
        short = topic.both()
        monkeypatch.setattr(small_tail, "OFFSETS_MAX", 0)
        long = topic.both()
        assert ("commitlog" in plan_of(short), "commitlog" in plan_of(long)) == (False, True)
        assert counted(short) == counted(long) == topic.expected()
        assert short.schema == long.schema

    @pytest.mark.only_all
    def test_bad_record_of_the_tail_fails_only_what_asks_for_its_value(self, topic: Exported) -> None:
        topic.append([(b"x", b"{")])
        assert topic.both().select("_offset").count() == 8
        assert topic.both(columns=["_offset", "_key"]).count() == 8
        with pytest.raises(PySparkException, match="is not the JSON that was expected"):
            topic.both().collect()

    @pytest.mark.only_all
    def test_partition_and_column_that_do_not_exist_are_refused(self, unchanged: Exported) -> None:
        for name, asked in {"starts": {2: 0}, "ends": {2: 0}, "partitions": [2]}.items():
            with pytest.raises(InvalidConfigError, match=f"{name}: the topic has no partition t-2"):
                unchanged.both(**{name: asked})
        with pytest.raises(InvalidConfigError, match=r"columns: no column 'carier'.*carrier"):
            unchanged.both(columns=["carier"])

    @pytest.mark.only_all
    def test_offsets_in_neither_are_named_unless_loss_is_allowed(self, topic: Exported) -> None:
        with LogManager.open(topic.log_dir) as manager:
            manager.open_log("t", 0).delete_records(4)
        with pytest.raises(OffsetOutOfRangeError, match=r"offset 2 of t-0, .* offsets 2 to 3 are in neither"):
            topic.both()
        found = topic.both(options={"failOnDataLoss": "false"}).where("_partition = 0")
        assert sorted(row["_offset"] for row in found.collect()) == [0, 1, 4]
        for asked in ({"starts": {0: 4}, "partitions": [0]}, {"partitions": [1]}):
            assert all(row["_partition"] or row["_offset"] == 4 for row in topic.both(**asked).collect())
        with pytest.raises(OffsetOutOfRangeError, match="offsets 2 to 3 are in neither"):
            topic.both(starts={0: 3})

    @pytest.mark.only_all
    def test_bad_records_of_the_tail_are_left_out_as_the_export_leaves_them_out(self, topic: Exported) -> None:
        topic.bad = str(topic.folder / "bad")
        topic.export()
        topic.append([(b"x", b"{"), (b"y", flight("F9", 8))])
        before = counted(topic.both())
        topic.export()
        assert counted(topic.both()) == before == counted(topic.spark.read.format("delta").load(topic.table))

    @pytest.mark.only_all
    def test_new_field_is_null_in_rows_from_before_and_a_table_without_it_does_not_show_it(
        self, topic: Exported
    ) -> None:
        topic.serde = JsonSerde(pa.schema([*FLIGHT.type, ("gate", pa.string())]))
        topic.append([(b"f", b'{"carrier": "F9", "delay": 8, "gate": "A1"}')])
        assert "gate" not in topic.both().columns
        topic.export()
        topic.append([(b"g", b'{"carrier": "G4", "delay": 9, "gate": "B2"}')])
        gates = topic.both().select("gate").collect()
        assert sorted(row.gate for row in gates if row.gate) == ["A1", "B2"]

    @pytest.mark.only_all
    def test_table_that_does_not_say_how_values_were_decoded_needs_a_serde(self, topic: Exported) -> None:
        topic.spark.sql(f"ALTER TABLE delta.`{topic.table}` UNSET TBLPROPERTIES ('{SERDE_PROPERTY}')")
        with pytest.raises(InvalidConfigError, match="does not say how its values were decoded"):
            topic.both()
        assert counted(topic.both(serde=FLIGHT)) == topic.expected()

    @pytest.mark.only_all
    def test_values_that_are_kept_as_bytes(self, spark: SparkSession, tmp_path: Path) -> None:
        topic = Exported(spark, tmp_path)
        topic.serde = None
        topic.append([(b"a", b"1")])
        topic.export()
        topic.append([(b"b", b"2")])
        assert counted(topic.both()) == topic.expected()

    def test_folder_without_a_table_is_refused(self, unchanged: Exported) -> None:
        with pytest.raises(InvalidConfigError, match="neither a Delta table nor a folder of Parquet files"):
            topic_table(unchanged.spark, unchanged.log_dir, "t", str(unchanged.folder))


class TestUpsert:
    @pytest.fixture
    def topic(self, spark: SparkSession, tmp_path: Path) -> Exported:
        """Keys whose newest record is in the table, in the tail, or a tombstone in either."""
        topic = Exported(spark, tmp_path, mode="upsert")
        topic.append([(b"a", flight("UA", 1)), (b"b", flight("AA", 2)), (b"c", flight("DL", 3)), (b"x", None)])
        topic.export()
        topic.append([(b"a", flight("UA", 4)), (b"a", flight("UA", 5)), (b"b", None), (b"n", flight("B6", 6))])
        return topic

    @pytest.mark.only_all
    def test_each_key_is_there_once_with_its_newest_record(self, topic: Exported) -> None:
        found = topic.both()
        assert counted(found) == topic.expected()
        assert sorted((bytes(row["_key"]), row.delay) for row in found.collect()) == [(b"a", 5), (b"c", 3), (b"n", 6)]

    def test_older_record_of_a_key_in_another_partition_changes_nothing(self, topic: Exported) -> None:
        topic.append([(b"c", flight("OLD", 0)), (b"x", flight("OLD", 0))], partition=1, at_ms=NOW_MS - 1)
        topic.append([(b"a", None), (b"n", flight("NEW", 7))], partition=1, at_ms=NOW_MS + 60_000)
        found = topic.both()
        assert counted(found) == topic.expected()
        assert sorted((bytes(row["_key"]), row.delay) for row in found.collect()) == [(b"c", 3), (b"n", 7)]

    @pytest.mark.only_all
    def test_dataframe_from_before_an_export_stays_as_it_was(self, topic: Exported) -> None:
        before, expected = topic.both(), topic.expected()
        topic.append([(b"c", None), (b"x", None)])
        topic.export()
        assert counted(before) == expected
        assert counted(topic.both()) == topic.expected()

    @pytest.mark.only_all
    def test_arguments_choose_among_the_newest_records(self, topic: Exported) -> None:
        found = topic.both(starts={0: 3}, columns=["delay"])
        assert sorted(row.delay for row in found.collect()) == [5, 6]

    @pytest.mark.only_all
    def test_end_below_the_table_is_refused_because_older_records_are_gone(self, topic: Exported) -> None:
        with pytest.raises(InvalidConfigError, match=r"up to offset 3 of t-0, and no older ones"):
            topic.both(ends={0: 3})
