"""Loading a table again from a time or from offsets, in runs of the export job."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from delta.tables import DeltaTable
from pyspark.sql import SparkSession, functions as F

from pyspark_commitlog.pipeline.delta import tables
from pyspark_commitlog.pipeline.delta.table_rows import differ
from pyspark_commitlog.storage import (
    InvalidConfigError,
    LogManager,
    LogStoreError,
    OffsetOutOfRangeError,
    ProgressMismatchError,
    delete_records,
    delete_topic,
)
from tests.pipeline.delta.table_topics import Topic, rows
from tests.pipeline.delta.test_export_runs import Export, then_no_space
from tests.support.logs.building import NOW_MS
from tests.support.logs.directories import directory_with_internal_topics


@pytest.fixture
def topic(spark: SparkSession, tmp_path: Path) -> Topic:
    topic = Topic(spark, directory_with_internal_topics(tmp_path / "log"))
    for number in range(2):
        topic.append([(b"a", b"%d" % each) for each in range(6)], partition=number)
    return topic


def content(export: Export) -> list[tuple[object, ...]]:
    found = rows(export.topic.spark, export.table, "_partition", "_offset", "_key", "value")
    return [(row[0], row[1], bytes(row[2]), bytes(row[3])) for row in found]


def versions(export: Export) -> int:
    return int(DeltaTable.forPath(export.topic.spark, export.table).history().count())


def spoil(export: Export) -> None:
    """Makes rows of offsets 2 and more differ from the log: a changed one, a lost one, one twice, one of no record."""
    table = DeltaTable.forPath(export.topic.spark, export.table)
    table.update("_partition = 0 AND _offset = 3", {"value": F.lit(b"wrong")})
    table.delete("_partition = 1 AND _offset = 4")
    again = export.topic.spark.read.format("delta").load(export.table).where("_offset = 2")
    again.write.format("delta").mode("append").save(export.table)


FROM_TIME = ("--from-time", datetime.fromtimestamp((NOW_MS + 2) / 1000, UTC).isoformat())


FROM_OFFSETS = ("--from-offsets", '{"t": {"0": 2, "1": 2}}')


@pytest.mark.only_all
@pytest.mark.parametrize("point", [FROM_TIME, pytest.param(FROM_OFFSETS, marks=pytest.mark.matrix)])
def test_a_second_load_from_a_point_leaves_the_table_as_the_first(
    topic: Topic, tmp_path: Path, point: tuple[str, str]
) -> None:
    export = Export(topic, tmp_path)
    export.run()
    right = content(export)
    assert len(right) == 12
    spoil(export)
    assert content(export) != right
    before = versions(export)
    topic.append([(b"a", b"new")], partition=1)
    export.run(*point)
    assert content(export) == [*right, (1, 6, b"a", b"new")]
    assert versions(export) == before + 2  # one for the rows that differed, one for the new record
    for flags in (point, ()):
        export.run(*flags)
        assert content(export) == [*right, (1, 6, b"a", b"new")]
        assert versions(export) == before + 2


def test_rows_below_the_point_and_of_other_partitions_stay_as_they_are(topic: Topic, tmp_path: Path) -> None:
    export = Export(topic, tmp_path)
    export.run()
    DeltaTable.forPath(topic.spark, export.table).update("_offset IN (1, 4)", {"value": F.lit(b"wrong")})
    export.run("--from-offsets", '{"t": {"1": 3}}')
    wrong = [(row[0], row[1]) for row in content(export) if row[3] == b"wrong"]
    assert wrong == [(0, 1), (0, 4), (1, 1)]


@pytest.mark.only_all
def test_a_new_table_begins_at_the_point(topic: Topic, tmp_path: Path) -> None:
    export = Export(topic, tmp_path)
    for _ in range(2):
        export.run("--from-time", str(NOW_MS + 4))
        assert export.offsets() == [(0, 4), (0, 5), (1, 4), (1, 5)]


@pytest.mark.only_all
def test_a_crash_after_the_rows_were_replaced_or_before_neither_loses_nor_doubles_rows(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = Export(topic, tmp_path)
    export.run()
    right = content(export)
    spoil(export)
    topic.append([(b"a", b"new")], partition=1)
    with monkeypatch.context() as patched:
        patched.setattr(tables, "differ", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            export.run(*FROM_TIME)
    assert content(export) != right
    export.fail(*FROM_TIME, through=then_no_space)
    export.run(*FROM_TIME)
    assert content(export) == [*right, (1, 6, b"a", b"new")]


@pytest.mark.only_all
def test_bad_records_are_in_their_own_table_once_after_a_second_load(topic: Topic, tmp_path: Path) -> None:
    topic.append([(b"a", b'{"v":6}'), (b"a", b'{"v":7}')])  # the other values are no objects
    bad = str(tmp_path / "bad")
    export = Export(topic, tmp_path, "--format", "json", "--schema", "v int", "--bad-records", bad)
    export.run()
    DeltaTable.forPath(topic.spark, export.table).update("_offset = 7", {"v": F.lit(-1)})
    for _ in range(2):
        export.run("--from-offsets", "earliest")
        found = rows(topic.spark, export.table, "_offset", "v")
        assert [tuple(row) for row in found] == [(6, 6), (7, 7)]
        assert topic.spark.read.format("delta").load(bad).count() == 12


class TestRefused:
    """What would delete rows that cannot be loaded again."""

    @pytest.fixture
    def export(self, topic: Topic, tmp_path: Path) -> Export:
        export = Export(topic, tmp_path)
        export.run()
        return export

    @pytest.mark.parametrize(
        ("flags", "kind", "told"),
        [
            (("--from-time", "yesterday"), InvalidConfigError, "--from-time: 'yesterday' is neither ISO 8601"),
            (("--from-time", "2026-01-01", "--from-offsets", "earliest"), InvalidConfigError, "used together"),
            (("--from-offsets", "latest"), InvalidConfigError, "cannot be latest"),
            (("--from-offsets", '{"t": {"7": 0}}'), InvalidConfigError, "no partition t-7"),
            (("--from-offsets", '{"t": {"0": 7}}'), OffsetOutOfRangeError, "offset 7 of t-0 is outside the log"),
            (("--from-offsets", "earliest", "--mode", "upsert"), InvalidConfigError, "--mode upsert takes no"),
            (("--from-offsets", "earliest", "--starting-offsets", "earliest"), InvalidConfigError, "be used with"),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("has_rows", [False, pytest.param(True, marks=pytest.mark.only_all)])
    def test_flags_that_say_no_point(
        self,
        topic: Topic,
        tmp_path: Path,
        flags: tuple[str, ...],
        kind: type[LogStoreError],
        told: str,
        has_rows: bool,
    ) -> None:
        export = Export(topic, tmp_path)
        if has_rows:
            export.run()
        with pytest.raises(kind, match=told):
            export.run(*flags)

    def test_offsets_that_the_log_has_no_more(self, topic: Topic, export: Export) -> None:
        with LogManager.open(topic.log_dir) as manager:
            list(delete_records(manager, {("t", 0): 4}))
        with pytest.raises(OffsetOutOfRangeError, match="begins at 4 and ends before 6"):
            export.run("--from-offsets", '{"t": {"0": 2}}')
        export.run("--from-offsets", "earliest")
        assert len(export.offsets()) == 12

    @pytest.mark.only_all
    def test_a_time_in_a_log_that_ends_below_the_rows(self, topic: Topic, tmp_path: Path, export: Export) -> None:
        with LogManager.open(topic.log_dir) as manager:
            delete_topic(manager, "t")
        Topic(topic.spark, topic.log_dir)
        topic.append([(b"a", b"%d" % each) for each in range(4)])
        with pytest.raises(ProgressMismatchError, match=r"up to offset 5, but the log in .* ends at 4"):
            export.run(*FROM_TIME)
        assert len(export.offsets()) == 12
        export.checkpoint = tmp_path / "new"
        export.run("--from-offsets", "earliest")
        assert export.offsets() == [(0, 0), (0, 1), (0, 2), (0, 3)]


def test_rows_differ_in_maps_inside_lists_and_structs_too(spark: SparkSession) -> None:
    schema = "_partition int, _offset bigint, s struct<m: map<string, int>>, l array<map<string, double>>"
    nan = float("nan")
    one = [(0, 7, ({"a": 1},), [{"x": nan}]), (0, 8, None, None), (0, 9, (None,), [None])]
    same = spark.createDataFrame(one, schema)
    assert not differ(same, spark.createDataFrame(one, schema))
    for changed in (
        [(0, 7, ({"a": 2},), [{"x": nan}]), *one[1:]],
        [(0, 7, ({"a": 1},), [{"x": 0.0}]), *one[1:]],
        [one[0], (0, 8, (None,), None), one[2]],
        one[:2],
        [*one, one[0]],
    ):
        assert differ(same, spark.createDataFrame(changed, schema))
        assert differ(spark.createDataFrame(changed, schema), same)


def test_rows_differ_if_another_row_is_there_twice(spark: SparkSession) -> None:
    first, second = (0, 7, "a"), (0, 8, "b")
    one, other = (
        spark.createDataFrame([first, second, again], "_partition int, _offset bigint, v string")
        for again in (first, second)
    )
    assert differ(one, other)
    assert not differ(one, one)
