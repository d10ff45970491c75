"""OPTIMIZE and VACUUM of a table between two micro-batches."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_commitlog.pipeline.delta.command.arguments import parser
from pyspark_commitlog.pipeline.delta.export import upkeep_of
from pyspark_commitlog.pipeline.delta.table_and_tail import upkeep
from pyspark_commitlog.pipeline.delta.table_and_tail.upkeep import Upkeep
from pyspark_commitlog.storage import InvalidConfigError
from tests.pipeline.delta.table_and_tail.exported import Exported, counted, flight
from tests.support.spark.settings import settings
from tests.torture.table_schedules import VACUUM

COMMON = ["to-table", "--log-dir", "log", "--topic", "t", "--table", "table", "--checkpoint", "c"]


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--optimize-every", "1 hour"], "--optimize-every needs --every"),
        (["--vacuum-every", "soon", "--every", "1 minute"], "--vacuum-every: 'soon' is not a duration"),
    ],
)
def test_what_would_have_no_effect_is_refused(spark: SparkSession, flags: list[str], told: str) -> None:
    with pytest.raises(InvalidConfigError, match=told):
        upkeep_of(spark, parser("").parse_args([*COMMON, *flags]))


def test_nothing_is_done_unless_it_is_asked_for(spark: SparkSession) -> None:
    assert upkeep_of(spark, parser("").parse_args([*COMMON, "--every", "1 minute"])) is None


@pytest.mark.only_all
def test_files_are_compacted_when_that_is_due_and_the_rows_stay(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topic, now_s = Exported(spark, tmp_path), [0.0]
    for number in range(3):
        topic.append([(b"k", flight("UA", number))])
        topic.export()
    due = Upkeep(spark, topic.table, {"OPTIMIZE": 60_000, "VACUUM": 90_000}, lambda: now_s[0])
    assert due.run_due() == []
    now_s[0] = 60.0
    assert due.run_due() == ["OPTIMIZE"]
    table = spark.read.format("delta").load(topic.table)
    assert len(table.inputFiles()) == 1
    now_s[0] = 90.0
    with settings(spark, VACUUM):
        assert due.run_due() == ["VACUUM"]
    assert counted(topic.both()) == topic.expected() == counted(table)
    monkeypatch.setattr(upkeep.Upkeep, "_run", lambda *_: spark.sql("SELECT raise_error('busy')").collect())
    now_s[0] = 120.0
    assert due.run_due() == ["OPTIMIZE"]
    assert "OPTIMIZE of table" in caplog.text
