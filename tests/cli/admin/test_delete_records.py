"""``commitlog delete-records``: compared with what kafka-delete-records did to the same directory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli import kafka_said
from tests.cli.in_process import Done, commitlog


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A broker's log directory with the configs of its topics."""
    return kafka_said.directory(tmp_path, with_configs=True)


def delete(directory: Path, content: str, *arguments: str) -> Done:
    path = directory.parent / "offsets.json"
    path.write_text(content)
    return commitlog("delete-records", "--log-dir", directory, "--offset-json-file", path, *arguments)


def offsets(*rows: tuple[str, int, int]) -> str:
    return json.dumps({"partitions": [{"topic": topic, "partition": n, "offset": to} for topic, n, to in rows]})


def test_deletions_in_sequence_end_as_with_kafkas_tool(directory: Path) -> None:
    names = [name for name in kafka_said.calls("delete-records", 0) if name != "delete unknown"]
    assert len(names) == 6
    for name in names:
        done = delete(directory, kafka_said.SAID[name]["json"])
        kafka, ours = kafka_said.lines(name), done.stdout.splitlines()
        assert len(ours) == len(kafka)
        for line, said in zip(ours, kafka, strict=True):
            assert line.split("error: ")[0] == said.split("error: ")[0]
            reason = said.rpartition(".errors.")[2].partition("Exception")[0] if "error: " in said else ""
            assert reason in line
        assert done.code == (1 if "error: " in done.stdout else 0)
        if name == "delete orders":
            starts = commitlog("offsets", "--log-dir", directory, "--topic", "orders", "--time", "-2").stdout
            assert starts.splitlines() == kafka_said.lines("log starts after delete")


def test_an_unknown_partition_does_not_stop_the_others(directory: Path) -> None:
    done = delete(directory, offsets(("nothing", 0, 1), ("orders", 9, 1), ("orders", 0, 2)))
    assert done.code == 1
    [_, _, *lines] = done.stdout.splitlines()
    assert "no topic 'nothing'" in lines[0]
    assert "has partitions [0, 1, 2], but not 9" in lines[1]
    assert lines[2] == "partition: orders-0\tlow_watermark: 2"


@pytest.mark.parametrize("name", kafka_said.calls("delete-records", 1))
def test_files_that_kafka_refuses_are_refused_before_anything_is_deleted(name: str, directory: Path) -> None:
    done = delete(directory, kafka_said.SAID[name]["json"])
    assert (done.code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "offsets.json" in done.stderr


@pytest.mark.parametrize(("partition", "to"), [("0.9", "2"), ("0", "2.9"), ("true", "2"), ("0", "true"), ('"0"', "2")])
def test_numbers_that_are_not_whole_are_refused(partition: str, to: str, directory: Path) -> None:
    content = f'{{"partitions": [{{"topic": "orders", "partition": {partition}, "offset": {to}}}]}}'
    done = delete(directory, content)
    assert (done.code, done.stdout) == (1, "")
    assert "not a whole number" in done.stderr
    starts = commitlog("offsets", "--log-dir", directory, "--topic", "orders", "--time", "-2").stdout
    assert "orders:0:0" in starts.splitlines()


def test_a_dry_run_prints_the_same_and_changes_nothing(directory: Path) -> None:
    before = kafka_said.contents(directory)
    asked = offsets(("orders", 0, 3), ("orders", 1, -1), ("customers", 0, 1))
    dry = delete(directory, asked, "--dry-run")
    assert kafka_said.contents(directory) == before
    assert "nothing is changed" in dry.stdout.splitlines()[0]
    assert dry.stdout.splitlines()[1:] == delete(directory, asked).stdout.splitlines()[1:]


def test_json_has_the_outcome_of_each_partition(directory: Path) -> None:
    done = delete(directory, offsets(("orders", 0, 3), ("orders", 0 + 1, 99)), "--json")
    first, second = map(json.loads, done.stdout.splitlines())
    assert first == {"topic": "orders", "partition": 0, "log_start_offset": 3, "error": None, "deleted": True}
    assert (second["log_start_offset"], second["deleted"]) == (None, False)
    assert "cannot delete records before offset 99" in second["error"]


def test_a_missing_file_and_a_missing_flag_are_errors(directory: Path) -> None:
    done = commitlog("delete-records", "--log-dir", directory, "--offset-json-file", "/nowhere.json")
    assert (done.code, done.stderr) == (1, "commitlog: /nowhere.json: no such file\n")
    done = commitlog("delete-records", "--log-dir", directory)
    assert done.code == 2
    assert "--offset-json-file" in done.stderr


def test_help_shows_such_a_file() -> None:
    done = commitlog("delete-records", "--help")
    assert done.code == 0
    assert '"offset":' in done.stdout.replace("\n", " ")
