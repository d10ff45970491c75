"""Commands that change topics, settings, groups and log starts, of a log on an object store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_commitlog.storage import LogManager
from pyspark_commitlog.storage.bucket import root
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from tests.cli.in_process import commitlog
from tests.support.logs.building import records
from tests.support.stores.filling import write
from tests.support.stores.served import ServedStores

URL = "s3://memory/logs"


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> CommitLog:
    """Topic orders with two partitions, and four records in the first one."""
    log = ServedStores(monkeypatch).create(URL)
    said("topics", "--create", "--topic", "orders", "--partitions", "2", "--config", "retention.ms=777")
    log.catch_up()
    write(log, "orders", {0: [records([b"a", b"b", b"c", b"d"])]})
    return log


def said(command: str, *arguments: str) -> str:
    done = commitlog(command, "--log-dir", URL, *arguments)
    assert (done.code, done.stderr) == (0, "")
    return done.stdout


def refused(command: str, *arguments: str) -> str:
    done = commitlog(command, "--log-dir", URL, *arguments)
    assert (done.code, done.stdout) == (2 if command == "configs" else 1, "")  # a wrong setting is wrong usage
    return done.stderr


def described() -> dict[str, object]:
    found: dict[str, object] = json.loads(said("topics", "--describe", "--topic", "orders", "--json"))
    return found


def test_topics_are_enlarged_altered_and_deleted(log: CommitLog) -> None:
    said("topics", "--alter", "--topic", "orders", "--partitions", "3")
    said("configs", "--alter", "--topic", "orders", "--add-config", "segment.ms=55", "--delete-config", "retention.ms")
    assert (described()["partitions"], described()["configs"]) == ([0, 1, 2], {"segment.ms": "55"})
    assert "has 3 partitions" in refused("topics", "--alter", "--topic", "orders", "--partitions", "2")
    assert "retention.mss" in refused("configs", "--alter", "--topic", "orders", "--add-config", "retention.mss=1")
    said("topics", "--delete", "--topic", "orders")
    assert said("topics", "--list") == ""


def test_a_dry_run_commits_nothing(log: CommitLog) -> None:
    before = log.catch_up().number
    said("topics", "--create", "--topic", "more", "--dry-run")
    said("topics", "--alter", "--topic", "orders", "--partitions", "3", "--dry-run")
    said("configs", "--alter", "--topic", "orders", "--add-config", "segment.ms=55", "--dry-run")
    said("topics", "--delete", "--topic", "orders", "--dry-run")
    assert log.catch_up().number == before


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_size_of_batches_that_no_put_takes_is_refused_as_a_setting(log: CommitLog, dry: tuple[str, ...]) -> None:
    large = "max.message.bytes=200000000"
    bound = "must be at most 134152192 on an object store"
    assert bound in refused("topics", "--create", "--topic", "more", "--config", large, *dry)
    assert bound in refused("configs", "--alter", "--topic", "orders", "--add-config", large, *dry)
    assert described()["configs"] == {"retention.ms": "777"}


def test_a_topic_that_exists_is_not_made_again(log: CommitLog) -> None:
    assert "exists" in refused("topics", "--create", "--topic", "orders")
    said("topics", "--create", "--topic", "orders", "--if-not-exists")
    assert described()["configs"] == {"retention.ms": "777"}


def test_groups_are_set_moved_and_deleted(log: CommitLog) -> None:
    asked = ("--group", "board", "--topic", "orders:0", "--execute")
    said("groups", "--reset-offsets", *asked, "--to-offset", "3")
    said("groups", "--reset-offsets", *asked, "--shift-by", "-1")
    [row] = [json.loads(line) for line in said("groups", "--describe", "--group", "board", "--json").splitlines()]
    assert (row["current_offset"], row["lag"]) == (2, 2)
    said("groups", "--delete-offsets", "--group", "board", "--topic", "orders:0")
    assert log.catch_up().groups == {}
    said("groups", "--reset-offsets", *asked, "--to-earliest")
    said("groups", "--delete", "--group", "board")
    assert log.catch_up().groups == {}


def test_records_are_deleted_by_a_log_start(log: CommitLog, tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    path.write_text('{"partitions": [{"topic": "orders", "partition": 0, "offset": 3}]}')
    said("delete-records", "--offset-json-file", str(path))
    assert said("cat", "-t", "orders", "-e", "-q") == "d\n"


def test_a_missing_log_is_made_with_its_first_topic_after_the_store_was_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ServedStores(monkeypatch)
    checked: list[str] = []
    assert "there is no log here" in refused("topics", "--list")
    monkeypatch.setattr(root, "_check_word", lambda url, _: checked.append(url))
    said("topics", "--create", "--topic", "orders")
    assert checked == [URL]
    with LogManager.open(URL) as manager:
        assert list(manager.topics()) == ["orders"]
