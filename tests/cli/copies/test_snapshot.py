"""``commitlog snapshot`` and ``restore``: a directory becomes a snapshot and a directory again; and what is refused."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from pyspark_commitlog.storage import CommittedOffset, GroupOffsets, LogManager
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from tests.cli import kafka_said
from tests.cli.in_process import commitlog
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A broker's log directory."""
    return kafka_said.directory(tmp_path)


def listed(log_dir: Path) -> tuple[str, str]:
    offsets = commitlog("offsets", "--log-dir", log_dir).stdout
    return offsets, commitlog("cat", "--log-dir", log_dir, "-t", "orders", "-e", "-q", "-J").stdout


def test_a_brokers_directory_is_restored_unchanged(directory: Path, tmp_path: Path) -> None:
    done = commitlog("snapshot", "--log-dir", directory, "--to", tmp_path / "snap")
    assert (done.code, done.stderr) == (0, "")
    before = listed(directory)
    assert commitlog("topics", "--log-dir", directory, "--delete", "--topic", "orders").code == 0
    done = commitlog("restore", "--from", tmp_path / "snap", "--log-dir", tmp_path / "again")
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.startswith("restored 9 partitions, ")
    assert listed(tmp_path / "again") == before
    assert len(before[0].splitlines()) == 9
    assert commitlog("verify", "--log-dir", tmp_path / "again").code == 0


def test_json_describes_the_snapshot(directory: Path, tmp_path: Path) -> None:
    taken = json.loads(commitlog("snapshot", "--log-dir", directory, "--to", tmp_path / "snap", "--json").stdout)
    assert (taken["source"], taken["snapshot"]) == (str(directory), str(tmp_path / "snap"))
    assert "orders-1" in taken["partitions"]
    restore = ("restore", "--from", tmp_path / "snap", "--log-dir", tmp_path / "again", "--json")
    dry = json.loads(commitlog(*restore, "--dry-run").stdout)
    assert (dry["restored"], (tmp_path / "again").exists()) == (False, False)
    assert {**dry, "restored": True} == json.loads(commitlog(*restore).stdout)
    assert taken["taken_at"] == dry["taken_at"]


def test_restore_prints_the_progress_of_writers_and_warns_of_newer_checkpoints(directory: Path, tmp_path: Path) -> None:
    with LogManager.open(str(directory)) as manager:
        of_many_partitions = {("__sink.orders", number): CommittedOffset(4, "{}") for number in range(2)}
        GroupOffsets(manager).commit("ingest", of_many_partitions)
    commitlog("snapshot", "--log-dir", directory, "--to", tmp_path / "snap")
    restore = ("restore", "--from", tmp_path / "snap", "--log-dir", tmp_path / "again")
    (writer,) = json.loads(commitlog(*restore, "--json", "--dry-run").stdout)["writers"]
    assert writer == {"txn_app_id": "ingest", "topic": "orders", "newest_batch": 3}
    printed = commitlog(*restore).stdout.splitlines()
    assert printed[1] == "writer ingest has batches up to 3 in topic orders"
    assert printed[2].startswith("a query whose checkpoint is newer is refused")


def test_restore_succeeds_if_committed_offsets_cannot_be_read(directory: Path, tmp_path: Path) -> None:
    with LogManager.open(str(directory)) as manager:
        GroupOffsets(manager).commit("ingest", {("__sink.orders", 0): CommittedOffset(4, "{}")})
        (log,) = Path(manager.path("{}-{}".format(*GroupOffsets(manager).partition_of("ingest")))).glob("*.log")
    log.write_bytes(bytes(byte ^ 1 for byte in log.read_bytes()))
    commitlog("snapshot", "--log-dir", directory, "--to", tmp_path / "snap")
    done = commitlog("restore", "--from", tmp_path / "snap", "--log-dir", tmp_path / "again")
    assert done.code == 0
    assert done.stdout.startswith("restored ")


def test_a_snapshot_can_be_read_without_restoring_it(directory: Path, tmp_path: Path) -> None:
    commitlog("snapshot", "--log-dir", directory, "--to", tmp_path / "snap")
    assert listed(tmp_path / "snap" / "log") == listed(directory)


# --- wrong use


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param(["snapshot", "--log-dir", "{log}"], 2, "--to", id="nowhere to"),
        pytest.param(["snapshot", "--log-dir", "/nowhere", "--to", "{tmp}/s"], 1, "no such directory", id="of nothing"),
        pytest.param(
            ["snapshot", "--log-dir", "{log}", "--to", "{log}"], 1, "is in the log directory", id="onto itself"
        ),
        pytest.param(
            ["restore", "--from", "{log}", "--log-dir", "{tmp}/s"], 1, "no snapshot.json", id="of no snapshot"
        ),
        pytest.param(["restore", "--log-dir", "{tmp}/s"], 2, "--from", id="of nothing named"),
    ],
)
def test_wrong_use_says_what_is_right_and_makes_nothing(
    arguments: list[str], code: int, said: str, directory: Path, tmp_path: Path
) -> None:
    done = commitlog(*(each.format(log=directory, tmp=tmp_path) for each in arguments))
    assert (done.code, done.stdout) == (code, "")
    assert said in done.stderr.replace("\n", " ")
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("command", ["snapshot", "restore"])
def test_help_says_what_is_linked_and_what_is_copied(command: str) -> None:
    done = commitlog(command, "--help")
    assert done.code == 0
    assert {"snapshot": "hard links", "restore": "Everything is copied"}[command] in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    "command", [("snapshot", "--to", "snap"), ("recover",), ("topics", "--create", "--topic", "new")]
)
def test_what_writes_to_a_read_only_mount_says_that_copy_does_not(
    command: tuple[str, ...], directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FaultyFileSystem(LocalFileSystem(), [fail("lock_shared_with_broker", error=errno.EROFS, lasting=True)])
    monkeypatch.setattr(LocalFileSystem, "lock_shared_with_broker", lambda _, path: disk.lock_shared_with_broker(path))
    monkeypatch.chdir(tmp_path)
    done = commitlog(command[0], "--log-dir", directory, *command[1:])
    said = f"commitlog: {directory} is read-only: `commitlog copy` takes a copy without writing there\n"
    assert (done.code, done.stdout, done.stderr) == (1, "", said)
    assert not (tmp_path / "snap").exists()
