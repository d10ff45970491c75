"""Topics as folders of Parquet files: each record once, readers that see whole loads, and loading again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from pyspark_commitlog.pipeline.delta import parquet_folder
from pyspark_commitlog.pipeline.delta.command.arguments import parser
from pyspark_commitlog.pipeline.delta.export import each_topic, load as load_topic
from pyspark_commitlog.pipeline.delta.parquet_folder import ParquetFolder
from pyspark_commitlog.storage import (
    CorruptionError,
    InvalidConfigError,
    LogDirLockedError,
    LogManager,
    OffsetOutOfRangeError,
    ProgressMismatchError,
    delete_records,
    delete_topic,
)
from tests.pipeline.delta.table_topics import Topic
from tests.support.logs.building import NOW_MS
from tests.support.logs.directories import directory_with_internal_topics

JSON = ("--format", "json", "--schema", "v int")


@pytest.fixture
def topic(spark: SparkSession, tmp_path: Path) -> Topic:
    topic = Topic(spark, directory_with_internal_topics(tmp_path / "log"))
    for number in range(2):
        topic.append([(b"a", b'{"v":%d}' % each) for each in range(4)], partition=number)
    return topic


class Load:
    """A command line that is run repeatedly; ``path`` is its folder."""

    def __init__(self, topic: Topic, tmp_path: Path) -> None:
        self.topic, self.path = topic, tmp_path / "rows"

    def run(self, *flags: str) -> str:
        given = ["--log-dir", self.topic.log_dir, "--topic", "t", "--table", str(self.path)]
        (options,) = each_topic(parser("").parse_args(["to-table", *given, "--table-format", "parquet", *JSON, *flags]))
        return str(load_topic(self.topic.spark, options))

    def rows(self) -> list[tuple[int, int, int]]:
        return rows_of(self.topic.spark, self.path / "current")

    def files(self) -> list[str]:
        return sorted(each.name for each in (self.path / "current").glob("part-*"))


def rows_of(spark: SparkSession, folder: Path) -> list[tuple[int, int, int]]:
    found = spark.read.parquet(str(folder)).select("_partition", "_offset", "v")
    return sorted(map(triple, found.collect()))


def triple(row: Row) -> tuple[int, int, int]:
    return row[0], row[1], row[2]


def expected(*ends: int) -> list[tuple[int, int, int]]:
    return [(number, offset, offset) for number, end in enumerate(ends) for offset in range(end)]


@pytest.fixture
def load(topic: Topic, tmp_path: Path) -> Load:
    load = Load(topic, tmp_path)
    load.run()
    return load


def test_each_load_adds_what_is_new_and_one_without_news_changes_no_file(load: Load) -> None:
    assert load.rows() == expected(4, 4)
    first = load.files()
    assert "nothing new" in load.run()
    assert load.files() == first
    load.topic.append([(b"a", b'{"v":4}')], partition=1)
    assert "offsets 4 to 4 of partition 1" in load.run()
    assert load.rows() == expected(4, 5)
    assert set(first) < set(load.files())
    assert ParquetFolder(str(load.path)).next_offsets().offsets == {("t", 0): 4, ("t", 1): 5}


@pytest.mark.parametrize(
    "point",
    [
        ("--from-time", str(NOW_MS + 2)),
        pytest.param(("--from-offsets", '{"t": {"0": 2, "1": 2}}'), marks=pytest.mark.only_all),
    ],
)
def test_a_second_load_from_a_point_leaves_the_rows_as_the_first(load: Load, point: tuple[str, str]) -> None:
    load.topic.append([(b"a", b'{"v":4}')])
    load.run()
    spoiled = Path(os.path.realpath(load.path / "current"))
    rows = load.topic.spark.read.parquet(str(spoiled))
    wrong = rows.selectExpr("_key", "_partition", "_offset", "_timestamp", "_headers",
                            "IF(_offset = 3, -1, v) AS v").where("NOT (_partition = 1 AND _offset = 2)")  # fmt: skip
    wrong.write.parquet(str(load.path / "_wrong"))
    ParquetFolder(str(load.path)).publish(
        ParquetFolder(str(load.path)).next_offsets(), lambda folder: os.rename(load.path / "_wrong", folder), []
    )
    assert load.rows() != expected(5, 4)
    assert load.run(*point).startswith("loaded again")
    assert load.rows() == expected(5, 4)
    files = load.files()
    assert "nothing new" in load.run(*point)
    assert load.files() == files


def test_files_below_the_point_are_kept_as_they_are(load: Load) -> None:
    first = load.files()
    load.topic.append([(b"a", b'{"v":4}'), (b"a", b'{"v":5}')])
    load.run()
    with LogManager.open(load.topic.log_dir) as manager:
        assert manager.topic("t").partitions == (0, 1)
    inode = {name: (load.path / "current" / name).stat().st_ino for name in first}
    load.topic.append([(b"a", b'{"v":6}')])
    load.run("--from-offsets", '{"t": {"0": 5}}')
    assert load.rows() == expected(7, 4)
    assert {name: (load.path / "current" / name).stat().st_ino for name in first} == inode


def test_a_new_field_is_null_in_older_rows(load: Load) -> None:
    load.topic.append([(b"a", b'{"v":4,"w":"x"}')])
    load.run("--schema", "v int, w string")
    assert load.rows() == expected(5, 4)
    found = load.topic.spark.read.parquet(str(load.path / "current")).where("w IS NOT NULL").collect()
    assert [(row._offset, row.w) for row in found] == [(4, "x")]
    with pytest.raises(InvalidConfigError, match="columns w, which the schema of the values lacks"):
        load.run("--from-offsets", "earliest")


STEPS = ["_clean", "_keep", "_sync", "_point_to"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("is_after", [False, True])
def test_a_crash_at_any_step_leaves_the_last_load_or_the_next_and_no_row_twice(
    load: Load, step: str, is_after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    load.topic.append([(b"a", b'{"v":4}')])
    original: Callable[..., None] = getattr(ParquetFolder, step)

    def crash(*arguments: object) -> None:
        if is_after:
            original(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(parquet_folder.ParquetFolder, step, crash)
        with pytest.raises(KeyboardInterrupt):
            load.run()
    is_there = step == "_point_to" and is_after
    assert load.rows() == expected(5 if is_there else 4, 4)
    assert ParquetFolder(str(load.path)).next_offsets().offsets == {("t", 0): 5 if is_there else 4, ("t", 1): 4}
    load.run()
    assert load.rows() == expected(5, 4)


def test_a_reader_that_began_before_a_load_sees_its_rows_to_the_end(load: Load) -> None:
    began = Path(os.path.realpath(load.path / "current"))
    load.topic.append([(b"a", b'{"v":4}')])
    load.run("--from-offsets", "earliest")
    assert rows_of(load.topic.spark, began) == expected(4, 4)


class TestRefused:
    @pytest.mark.parametrize("flags", [("--checkpoint", "c"), ("--every", "5 minutes"), ("--mode", "upsert"),
                                       ("--bad-records", "b"), ("--starting-offsets", "earliest")])  # fmt: skip
    def test_options_of_queries(self, topic: Topic, tmp_path: Path, flags: tuple[str, str]) -> None:
        with pytest.raises(InvalidConfigError, match=f"parquet takes no {flags[0]}"):
            Load(topic, tmp_path).run(*flags)

    def test_a_folder_that_another_load_writes(self, load: Load) -> None:
        with ParquetFolder(str(load.path)).locked(), pytest.raises(LogDirLockedError, match="another export writes"):
            load.run()

    def test_a_folder_without_its_offsets(self, load: Load) -> None:
        (load.path / "current" / "_offsets.json").unlink()
        with pytest.raises(CorruptionError, match="rows would be there twice"):
            load.run()

    def test_records_that_were_deleted_before_they_were_loaded(self, load: Load) -> None:
        load.topic.append([(b"a", b'{"v":4}'), (b"a", b'{"v":5}')])
        with LogManager.open(load.topic.log_dir) as manager:
            list(delete_records(manager, {("t", 0): 5}))
        for flags in ((), ("--from-time", str(NOW_MS))):
            with pytest.raises(OffsetOutOfRangeError, match="from offset 4 to 4 were not loaded"):
                load.run(*flags)
        load.run("--from-offsets", '{"t": {"0": 5}}')
        assert load.rows() == [each for each in expected(6, 4) if each != (0, 4, 4)]

    def test_a_log_that_ends_below_the_rows(self, load: Load) -> None:
        with LogManager.open(load.topic.log_dir) as manager:
            topic_id = manager.topic("t").topic_id
            delete_topic(manager, "t")
            manager.create_topic("t", partitions=2, configs={"retention.ms": "-1"}, topic_id=topic_id)
        load.topic.append([(b"a", b'{"v":0}')])
        for flags in ((), ("--from-time", "2020-01-01")):
            with pytest.raises(ProgressMismatchError, match="it is an older copy"):
                load.run(*flags)
        load.run("--from-offsets", "earliest")
        assert load.rows() == expected(1)

    @pytest.mark.parametrize("count", [4, 9])
    def test_a_topic_made_again_with_records_of_the_same_times(self, load: Load, count: int) -> None:
        with LogManager.open(load.topic.log_dir) as manager:
            delete_topic(manager, "t")
        Topic(load.topic.spark, load.topic.log_dir)
        for number in range(2):
            load.topic.append([(b"a", b'{"v":%d}' % each) for each in range(count)], partition=number)
        for flags in ((), ("--from-time", "2020-01-01"), ("--from-offsets", '{"t": {"0": 2}}')):
            with pytest.raises(ProgressMismatchError, match="topic t was deleted and made again"):
                load.run(*flags)
        assert load.rows() == expected(4, 4)
        load.run("--from-offsets", "earliest")
        assert load.rows() == expected(count, count)
        assert "nothing new" in load.run()

    def test_a_topic_made_again_after_the_first_load_that_knows_ids(self, load: Load) -> None:
        offsets = load.path / "current" / "_offsets.json"
        offsets.write_text('{"t": {"0": 4, "1": 4}}')  # as an older version wrote it
        assert "nothing new" in load.run()
        with LogManager.open(load.topic.log_dir) as manager:
            delete_topic(manager, "t")
        Topic(load.topic.spark, load.topic.log_dir)
        with pytest.raises(ProgressMismatchError, match="topic t was deleted and made again"):
            load.run()
