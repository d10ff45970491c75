"""``commitlog verify``, ``rebuild-index`` and ``recover``: their reports, changes, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.storage import LogManager
from tests.cli import kafka_said
from tests.cli.in_process import commitlog
from tests.support.kafka import broker_dirs
from tests.support.logs.building import append


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Topics orders, with a closed and an active segment, and other; three batches each."""
    path = tmp_path / "log"
    with LogManager.open(str(path), create=True) as manager:
        for topic in ("orders", "other"):
            manager.create_topic(topic, partitions=1)
            log = manager.open_log(topic, 0)
            append(log, b"a" * 100)
            append(log, b"b" * 100)
            log.roll()
            append(log, b"c" * 100)
    return path


def logs_of(directory: Path, topic: str) -> list[Path]:
    return sorted((directory / f"{topic}-0").glob("*.log"))


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def reports(directory: Path, *arguments: object, code: int = 0) -> dict[str, dict[str, Any]]:
    """Returns the report about each topic's only partition."""
    command, *rest = arguments
    done = commitlog(command, "--log-dir", directory, *rest, "--json")
    assert done.code == code, done.stderr
    return {row["topic"]: row for row in map(json.loads, done.stdout.splitlines())}


# --- verify


def test_a_sound_directory_is_reported_as_sound(directory: Path) -> None:
    before = kafka_said.contents(directory)
    done = commitlog("verify", "--log-dir", directory)
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "verify: 2 partitions: 2 done"
    assert "orders-0: sound; 2 segments, 3 batches and 3 records" in done.stdout
    assert kafka_said.contents(directory) == before


def test_damage_exits_with_3_and_names_file_and_position(directory: Path) -> None:
    path = logs_of(directory, "orders")[0]
    flip(path, 90)
    done = commitlog("verify", "--log-dir", directory)
    assert done.code == 3
    assert f"damage: {path}, position 0" in done.stdout
    found = reports(directory, "verify", code=3)
    assert [found[topic]["status"] for topic in ("orders", "other")] == ["damaged", "done"]
    assert [each["lost_offsets"] for each in found["orders"]["findings"]] == [[0, 0]]
    assert reports(directory, "verify", "--topics", "oth.*,other") == {"other": found["other"]}


def test_a_log_without_an_index_is_repairable_and_not_called_damaged(directory: Path) -> None:
    logs_of(directory, "orders")[0].with_suffix(".timeindex").unlink()
    done = commitlog("verify", "--log-dir", directory)
    assert (done.code, done.stdout.splitlines()[-1]) == (3, "verify: 2 partitions: 1 done, 1 repairable")
    assert commitlog("rebuild-index", "--log-dir", directory).code == 0
    assert commitlog("verify", "--log-dir", directory).code == 0


def test_the_damage_in_a_brokers_directory_is_found() -> None:
    sound = broker_dirs.stage("plain/final") / "log"
    assert commitlog("verify", "--log-dir", sound, "--topic", "plain").code == 0


# --- rebuild-index


def test_missing_and_wrong_indexes_are_rebuilt(directory: Path) -> None:
    log = logs_of(directory, "orders")[0]
    expected = {path: path.read_bytes() for path in (directory / "orders-0").glob("0*index")}
    log.with_suffix(".timeindex").unlink()
    flip(log.with_suffix(".index"), 0) if log.with_suffix(".index").read_bytes() else None
    dry = reports(directory, "rebuild-index", "--dry-run")
    assert [file["path"] for file in dry["orders"]["files"]] == [str(log.with_suffix(".timeindex"))]
    assert not log.with_suffix(".timeindex").exists()
    done = commitlog("rebuild-index", "--log-dir", directory)
    assert (done.code, "1 file rebuilt" in done.stdout) == (0, True)
    assert {path: path.read_bytes() for path in (directory / "orders-0").glob("0*index")} == expected
    assert reports(directory, "rebuild-index", "--dry-run")["orders"]["files"] == []


def test_no_index_of_a_damaged_log_is_rebuilt(directory: Path) -> None:
    log = logs_of(directory, "orders")[0]
    flip(log, 90)
    log.with_suffix(".timeindex").unlink()
    found = reports(directory, "rebuild-index", code=3)
    assert (found["orders"]["status"], found["other"]["status"]) == ("damaged", "done")
    assert not log.with_suffix(".timeindex").exists()


def test_the_process_that_maintains_a_partition_is_named_and_can_be_waited_for(directory: Path) -> None:
    logs_of(directory, "orders")[0].with_suffix(".timeindex").unlink()
    with LogManager.open(str(directory)) as manager, manager.open_log("orders", 0).maintaining("compaction by cron"):
        done = commitlog("rebuild-index", "--log-dir", directory)
    assert done.code == 1
    assert "compaction by cron" in done.stdout
    assert commitlog("rebuild-index", "--log-dir", directory, "--wait").code == 0


# --- recover


def test_an_incomplete_end_after_a_crash_is_cut_off_and_reported(directory: Path) -> None:
    log = logs_of(directory, "orders")[-1]
    whole = log.read_bytes()
    log.write_bytes(whole + whole[: len(whole) // 2])
    before = kafka_said.contents(directory)
    dry = reports(directory, "recover", "--dry-run")
    assert kafka_said.contents(directory) == before
    assert [finding["kind"] for finding in dry["orders"]["findings"]] == ["unsynced-tail"]
    found = reports(directory, "recover")
    assert found["orders"]["truncated_bytes"] == len(whole) // 2
    assert found["other"]["truncated_bytes"] == 0
    assert log.read_bytes() == whole
    assert reports(directory, "recover")["orders"]["truncated_bytes"] == 0


def test_acknowledged_records_are_never_cut(directory: Path) -> None:
    log = logs_of(directory, "orders")[-1]
    damaged = log.read_bytes()[:-5]
    log.write_bytes(damaged)
    found = reports(directory, "recover", code=3)
    assert (found["orders"]["status"], found["other"]["status"]) == ("damaged", "done")
    assert "was synced" in found["orders"]["error"]
    assert log.read_bytes() == damaged


def test_damage_in_a_closed_segment_is_found_by_the_run_and_by_its_dry_run(directory: Path) -> None:
    log = logs_of(directory, "orders")[0]
    flip(log, 90)
    before = log.read_bytes()
    dry, run = (reports(directory, "recover", *flags, code=3) for flags in (["--dry-run"], []))
    assert [each["orders"]["status"] for each in (dry, run)] == ["damaged", "damaged"]
    assert dry["orders"]["findings"] == run["orders"]["findings"]
    assert [(each["path"], each["position"]) for each in run["orders"]["findings"]] == [(str(log), 0)]
    assert (log.read_bytes(), dry["other"]["status"], run["other"]["status"]) == (before, "done", "done")
    done = commitlog("recover", "--log-dir", directory)
    assert "orders-0: offsets 0 to 3, nothing to cut; 1 damage\n  damage: " in done.stdout
    assert done.stdout.splitlines()[-1] == "recover: 2 partitions: 1 done, 1 damaged"


def test_a_lost_first_segment_stays_damage_after_recovery(directory: Path) -> None:
    logs_of(directory, "orders")[0].unlink()
    for command in (["verify"], ["recover", "--dry-run"], ["recover"], ["recover"], ["verify"]):
        done = commitlog(*command, "--log-dir", directory)
        assert done.code == 3
        assert "records 0 to 1 are gone, and only an index is there: damage, or retention" in done.stdout
        assert "offsets 0 to 1 are lost [lost-start]" in done.stdout


def test_a_damaged_checkpoint_is_reported_by_the_run_too(directory: Path) -> None:
    (directory / "log-start-offset-checkpoint").write_bytes(b"no checkpoint")
    dry = commitlog("recover", "--log-dir", directory, "--dry-run")
    run = commitlog("recover", "--log-dir", directory)
    assert (dry.code, run.code) == (3, 3)
    assert dry.stdout.splitlines()[0] == run.stdout.splitlines()[0]


def test_a_brokers_directory_after_a_crash_is_recovered(tmp_path: Path) -> None:
    [crashed, *_] = sorted(path.name for path in broker_dirs.scenario("recovery-crash").iterdir() if path.is_dir())
    log_dir = broker_dirs.copy_to(tmp_path / "log", f"recovery-crash/{crashed}")
    assert commitlog("recover", "--log-dir", log_dir).code == 0
    assert commitlog("verify", "--log-dir", log_dir).code == 0


# --- wrong use


@pytest.mark.parametrize("command", ["verify", "rebuild-index", "recover"])
def test_wrong_use_says_what_is_right(command: str, directory: Path) -> None:
    asked = (command, "--log-dir", directory)
    assert "--log-dir" in commitlog(command).stderr
    assert commitlog(command).code == 2
    for arguments, code, said in (
        (("--topics", "order"), 1, "did you mean 'orders'?"),
        (("--topics", "x.*y"), 1, "no topic matches; there are orders, other"),
        (("--config", "retention.ms"), 2, "retention.ms=86400000"),
        (("--config", "retention.mss=1"), 2, "did you mean 'retention.ms'?"),
    ):
        done = commitlog(*asked, *arguments)
        assert (done.code, done.stdout, done.stderr.count("\n")) == (code, "", 1)
        assert said in done.stderr


@pytest.mark.parametrize("command", ["verify", "rebuild-index", "recover"])
def test_on_a_terminal_progress_is_shown_and_the_result_the_same(command: str, directory: Path) -> None:
    done = commitlog(command, "--log-dir", directory, terminal=True)
    assert (done.code, done.stdout) == (0, commitlog(command, "--log-dir", directory).stdout)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("verify", ("--topics", "takes no lock", "3 if anything")),
        ("rebuild-index", ("--dry-run", "--wait", "--topics")),
        ("recover", ("--dry-run", "acknowledged", "--config")),
    ],
)
def test_help_says_what_happens(command: str, words: tuple[str, ...]) -> None:
    done = commitlog(command, "--help")
    assert done.code == 0
    assert all(word in " ".join(done.stdout.split()) for word in words)
