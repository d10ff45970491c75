"""Maintenance with Spark: command lines, tasks, progress, reports and exit codes."""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_commitlog.pipeline.job.command_line import arguments, to_run
from pyspark_commitlog.pipeline.maintenance.run import show
from pyspark_commitlog.pipeline.maintenance.spark_tasks import SparkTasks
from pyspark_commitlog.storage import (
    ConfigOverrides,
    InvalidConfigError,
    LogManager,
    MaintenanceRun,
    Operation,
    OutcomeStatus,
    PartitionOutcome,
    compact_partitions,
    in_this_process,
    rebuild_partitions,
    retain_partitions,
    select_partitions,
    verify_partitions,
)
from tests.support.clock import ManualClock
from tests.support.logs.building import NOW_MS, records

ALL = (verify_partitions, rebuild_partitions, compact_partitions, retain_partitions)


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A compacted topic ``t`` of three partitions with four segments each; the second one of partition 1 is damaged."""
    directory = tmp_path_factory.mktemp("maintenance") / "log"
    configs = {"cleanup.policy": "compact,delete", "retention.bytes": "600"}
    with LogManager.open(str(directory), create=True, clock=ManualClock(NOW_MS)) as manager:
        manager.create_topic("t", partitions=3, configs=configs)
        for number in range(3):
            log = manager.open_log("t", number)
            for n in range(3):
                log.append_records(records([b"%d" % n] * 10, keys=[b"key %d" % key for key in range(10)]))
                log.roll()
    path = sorted((directory / "t-1").glob("*.log"))[1]
    path.write_bytes(path.read_bytes()[:-2] + b"\xff\xff")
    for index in (directory / "t-2").glob("*.index"):
        index.write_bytes(b"\0\0\0\1\0\0\0\7")
    return str(directory)


def dry_run(log_dir: str) -> MaintenanceRun:
    return MaintenanceRun(log_dir, dry_run=True, clock=ManualClock(NOW_MS + 1))


@pytest.mark.parametrize("operation", ALL)
def test_outcomes_on_spark_are_those_of_a_loop(spark: SparkSession, log_dir: str, operation: Operation) -> None:
    run = dry_run(log_dir)
    with run.manager() as manager:
        selection = select_partitions(manager, [], ConfigOverrides())
    on_spark = list(operation(run, selection, SparkTasks(spark.sparkContext, "test")))
    assert on_spark == list(operation(run, selection, in_this_process))
    assert len(on_spark) == 3


def test_progress_lines_on_stderr_say_how_many_tasks_are_done(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    def task(seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    given = [0.0, 0.4, 0.8, 3.0]  # Spark tells of a task that ends within 100 ms of another when the next one does
    tasks = SparkTasks(spark.sparkContext, "compaction", report_every_s=0.2)
    assert list(tasks("logs", task, given)) == given
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.search(r"^compaction: [123] of 4 logs done after ", printed.err, re.MULTILINE)


def test_without_items_no_job_is_started(spark: SparkSession) -> None:
    assert list(SparkTasks(spark.sparkContext, "test")("logs", str, [])) == []


def test_an_interrupt_cancels_the_tasks(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        while not spark.sparkContext.statusTracker().getActiveJobsIds():
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(SparkTasks, "_report", interrupted)
    with pytest.raises(KeyboardInterrupt):
        SparkTasks(spark.sparkContext, "test")("logs", time.sleep, [600.0])
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []


# Reports and exit codes


def outcomes(*statuses: OutcomeStatus) -> Iterator[PartitionOutcome]:
    for number, status in enumerate(statuses):
        yield PartitionOutcome("t", number, status, f"t-{number}: text", {"bytes": 7})


DONE, FAILED, DAMAGED = OutcomeStatus.DONE, OutcomeStatus.FAILED, OutcomeStatus.DAMAGED


@pytest.mark.parametrize(
    ("statuses", "code"),
    [((), 0), ((DONE, DONE), 0), ((DONE, FAILED), 1), ((FAILED, DAMAGED, DONE), 3), ((DAMAGED, FAILED), 3)],
)
def test_the_exit_code_is_that_of_the_worst_outcome(statuses: tuple[OutcomeStatus, ...], code: int) -> None:
    assert show("retention", outcomes(*statuses), as_json=False) == code


def test_a_report_ends_with_how_many_there_were_of_each_kind(capsys: pytest.CaptureFixture[str]) -> None:
    show("retention", outcomes(DONE, FAILED, DONE), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["t-0: text", "t-1: text", "t-2: text", "retention: 3 partitions: 2 done, 1 failed"]


def test_json_prints_one_line_per_partition_and_nothing_else_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    show("retention", outcomes(DONE, FAILED), as_json=True)
    printed = capsys.readouterr()
    assert [json.loads(line) for line in printed.out.splitlines()] == [
        {"topic": "t", "partition": 0, "status": "done", "bytes": 7},
        {"topic": "t", "partition": 1, "status": "failed", "bytes": 7},
    ]
    assert printed.err == "retention: 2 partitions: 1 done, 1 failed\n"


# Command lines


def parse(*given: str) -> argparse.Namespace:
    return arguments("").parse_args(["--log-dir", "/log", *given])


@pytest.mark.parametrize("wrong", [("--as-of", "monday"), ("--no-such",), ()])
def test_wrong_usage_exits_with_2(wrong: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        arguments("").parse_args(["--log-dir", "/log", *wrong] if wrong else [])
    assert end.value.code == 2
    assert (wrong[-1] if wrong else "--log-dir") in capsys.readouterr().err


def test_a_run_names_its_process_and_has_the_options() -> None:
    run = to_run("retention", parse("--config", "retention.ms=1", "--dry-run", "--wait"))
    assert run.holder.startswith("retention since 20")
    assert " UTC, process " in run.holder
    assert (run.directory, run.dry_run, run.wait) == ("/log", True, True)
    assert run.overrides.topic == {"retention.ms": "1"}
    with pytest.raises(InvalidConfigError, match="future"):
        to_run("retention", parse("--as-of", "2999-01-01"))


def test_a_run_accepts_the_settings_that_kafkas_tools_print(tmp_path: Path) -> None:
    said = tmp_path / "said.txt"
    said.write_text("Dynamic configs for topic orders are:\n  retention.ms=7 sensitive=false synonyms={}\n")
    run = to_run("retention", parse("--topic-configs", str(said)))
    assert run.overrides.described.topics["orders"].configs == {"retention.ms": "7"}
    with pytest.raises(InvalidConfigError, match="--topic-configs"):
        to_run("retention", parse("--topic-configs", "/nowhere"))
