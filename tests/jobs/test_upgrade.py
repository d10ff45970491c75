"""``jobs/upgrade.py`` as a program: what it prints, leaves and answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_commitlog.jobs.upgrade import main
from pyspark_commitlog.storage import LogManager
from tests.jobs.test_maintenance_jobs import submit
from tests.support.classic.kafka_0_7 import unpacked

pytestmark = pytest.mark.slow


@pytest.mark.only_all
def test_the_program_copies_a_directory_once_and_writes_the_tables(tmp_path: Path) -> None:
    source, log_dir = unpacked("migration-to-0.8", tmp_path) / "log-0.7", tmp_path / "log"
    done = submit("upgrade", "--from", source, "--log-dir", log_dir, "--json", "--config", "compression.type=gzip")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["topic"], each["partition"], each["status"]) for each in lines] == [
        (topic, partition, "done") for topic in ("alpha", "beta") for partition in (0, 1)
    ]
    with LogManager.open(str(log_dir)) as manager:
        for each in lines:
            with manager.open_reader(each["topic"], each["partition"]) as log:
                assert log.log_end_offset == each["end_offset"] == each["appended"]
            table = tmp_path / "log-positions" / f"{each['topic']}-{each['partition']}.csv"
            assert table.read_text().splitlines()[-1] == f"{each['end_position']},{each['end_offset']}"
        assert manager.topic("alpha").configs == {"compression.type": "gzip"}


def test_a_directory_without_partitions_is_wrong_and_starts_no_spark(tmp_path: Path) -> None:
    done = submit("upgrade", "--from", tmp_path, "--log-dir", tmp_path / "log")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"upgrade: {tmp_path} has no partition of Kafka 0.7, such as my-topic-0"


def test_a_source_that_is_not_there_is_named_as_by_other_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--from", str(tmp_path / "nope"), "--log-dir", str(tmp_path / "log")]) == 1
    assert capsys.readouterr().err == f"upgrade: {tmp_path}/nope: no such directory\n"
