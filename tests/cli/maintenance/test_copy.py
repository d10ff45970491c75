"""``commitlog copy``: topics from a directory to an object store and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_commitlog.storage import CommittedOffset, GroupOffsets, LogManager, TopicPartition
from tests.cli.in_process import commitlog
from tests.support.logs.building import records
from tests.support.stores.served import ServedStores

URL = "s3://memory/logs"


@pytest.fixture
def directory(tmp_path: Path) -> str:
    path = str(tmp_path / "log")
    with LogManager.open(path, create=True) as manager:
        for topic in ("orders", "users"):
            manager.create_topic(topic, partitions=2)
            manager.open_log(topic, 1).append_records(records([b"a", b"b"]))
        GroupOffsets(manager).commit("g", {TopicPartition("orders", 1): CommittedOffset(1)})
    return path


def printed(log: str, topic: str) -> str:
    return commitlog("cat", "--log-dir", log, "-t", topic, "-e", "-q").stdout


def test_topics_go_to_an_object_store_and_back(directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ServedStores(monkeypatch).create(URL)
    done = commitlog("copy", "--from", directory, "--to", URL, "--json")
    assert (done.code, done.stderr) == (0, "")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["topic"], row["partition"], row["log_end_offset"]) for row in rows] == [
        ("orders", 0, 0),
        ("orders", 1, 2),
        ("users", 0, 0),
        ("users", 1, 2),
    ]
    assert printed(URL, "orders") == printed(directory, "orders") == "a\nb\n"
    back = str(tmp_path / "back")
    assert commitlog("copy", "--from", URL, "--to", back, "-t", "users").code == 0
    assert commitlog("topics", "--list", "--log-dir", back).stdout == "__consumer_offsets\nusers\n"
    assert printed(back, "users") == "a\nb\n"
    again = commitlog("copy", "--from", URL, "--to", back, "-t", "users")
    assert (again.code, again.stdout) == (1, "")
    assert "topic 'users' exists" in again.stderr
