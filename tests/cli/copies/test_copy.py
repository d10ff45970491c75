"""``commitlog copy``: topics from a directory to an object store and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_commitlog.storage import CommittedOffset, GroupOffsets, LogManager, TopicPartition
from pyspark_commitlog.storage.bucket.clients.appends import ClientBatch, append_batches
from pyspark_commitlog.storage.bucket.files import filesystem as bucket_files
from pyspark_commitlog.storage.errors import MissingSegmentError
from pyspark_commitlog.storage.writing.checks.checked_batch import check_batch
from tests.cli.in_process import commitlog
from tests.support.logs.building import batch, config, records
from tests.support.stores.seaweed import SeaweedFS
from tests.support.stores.served import ServedStores

URL = "s3://memory/logs"
GROUPS = ("--describe", "--all-groups")


@pytest.fixture(params=["a directory", "an object store"])
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The log to copy to, which does not have a topic."""
    ServedStores(monkeypatch).create(URL)
    return URL if request.param == "an object store" else str(tmp_path / "copy")


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


@pytest.mark.parametrize(
    ("to", "topics", "said"),
    [("log/copy", "users", "is in the log directory"), ("copy", "users,order", "did you mean 'orders'?")],
)
def test_what_is_refused_makes_no_directory(to: str, topics: str, said: str, directory: str, tmp_path: Path) -> None:
    done = commitlog("copy", "--from", directory, "--to", tmp_path / to, "--topics", topics)
    assert (done.code, done.stdout) == (1, "")
    assert said in done.stderr
    assert not (tmp_path / to).exists()


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
    assert commitlog("topics", "--list", "--log-dir", back).stdout == "users\n"
    assert printed(back, "users") == "a\nb\n"
    again = commitlog("copy", "--from", URL, "--to", back, "-t", "users")
    assert (again.code, again.stdout) == (1, "")
    assert "topic 'users' exists" in again.stderr


def test_a_snapshot_of_an_object_store_is_restored_to_a_directory_and_to_another_store(
    directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = ServedStores(monkeypatch)
    stores.create(URL)
    stores.create("s3://memory/again")
    assert commitlog("copy", "--from", directory, "--to", URL).code == 0
    snapshot, restored = str(tmp_path / "snapshot"), str(tmp_path / "restored")
    done = commitlog("snapshot", "--log-dir", URL, "--to", snapshot)
    assert (done.code, done.stderr) == (0, "")
    assert f"of {URL}" in done.stdout
    for target in (restored, "s3://memory/again"):
        done = commitlog("restore", "--from", snapshot, "--log-dir", target)
        assert (done.code, done.stderr) == (0, "")
        assert printed(target, "orders") == "a\nb\n"
        with LogManager.open(target) as manager:
            [offset] = GroupOffsets(manager).fetch("g").values()
        assert offset.offset == 1
        assert commitlog("verify", "--log-dir", target).code == 0
    again = commitlog("restore", "--from", snapshot, "--log-dir", restored)
    assert again.code == 1
    assert "not an empty directory" in again.stderr


# --- damage in the source


@pytest.fixture
def damaged(directory: str) -> Path:
    """The log of orders-1, in which a byte is flipped: its two records are one batch."""
    [log] = Path(directory).glob("orders-1/*.log")
    flip(log)
    return log


def flip(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)


NOT_FINISHED = "orders-1.unfinished: the copy of this partition to here is not finished"


def test_a_copy_of_a_damaged_log_has_the_sound_partitions_and_shows_the_other(
    directory: str, damaged: Path, target: str
) -> None:
    done = commitlog("copy", "--from", directory, "--to", target)
    assert (done.code, [line.split(":")[0] for line in done.stdout.splitlines()]) == (
        3,
        ["orders-0", "users-0", "users-1"],
    )
    assert f"orders-1: damaged, not copied: {damaged}, position 0" in done.stderr
    assert "copy: 4 partitions: 3 done, 1 damaged; " in done.stderr.splitlines()[-1]
    for command in ("verify", "retain", "key-filters", *(["recover"] if target != URL else ["compact"])):
        found = commitlog(command, "--log-dir", target, "-t", "orders")
        assert (found.code, found.stdout.count(NOT_FINISHED)) == (3, 1), command
        assert " done, 1 damaged" in found.stdout.splitlines()[-1]
    for command, *topic in (["cat", "-t", "orders"], ["describe"], ["describe", "-t", "orders"], ["groups", *GROUPS]):
        found = commitlog(command, "--log-dir", target, *topic)
        assert (found.code, found.stderr.count(NOT_FINISHED)) == (3, 1), command
    assert printed(target, "users") == "a\nb\n"


def test_nobody_writes_to_a_partition_whose_copy_is_not_finished(directory: str, damaged: Path, target: str) -> None:
    assert commitlog("copy", "--from", directory, "--to", target).code == 3
    with LogManager.open(target) as manager:  # as a gateway opens a partition; what sinks commit: test_proposals.py
        opening = manager.open_log if manager.bucket is None else manager.open_watcher
        with pytest.raises(MissingSegmentError, match=NOT_FINISHED):
            opening("orders", 1)


def test_a_copy_of_a_copy_that_is_not_finished_is_not_finished_either(
    directory: str, damaged: Path, target: str, tmp_path: Path
) -> None:
    assert commitlog("copy", "--from", directory, "--to", target).code == 3
    second = str(tmp_path / "second")
    done = commitlog("copy", "--from", target, "--to", second)
    assert (done.code, done.stderr.count(f"orders-1: damaged, not copied: {target}/{NOT_FINISHED}")) == (3, 1)
    assert commitlog("verify", "--log-dir", second, "-t", "orders").stdout.count(NOT_FINISHED) == 1
    assert commitlog("snapshot", "--log-dir", target, "--to", str(tmp_path / "snapshot")).code != 0


def test_a_copy_goes_on_once_its_source_is_repaired(directory: str, damaged: Path, target: str) -> None:
    assert commitlog("copy", "--from", directory, "--to", target).code == 3
    flip(damaged)
    again = commitlog("copy", "--from", directory, "--to", target, "-t", "orders")
    assert (again.code, [line.split(":")[0] for line in again.stdout.splitlines()]) == (0, ["orders-1"])
    assert printed(target, "orders") == "a\nb\n"
    assert commitlog("verify", "--log-dir", target).code == 0
    with LogManager.open(target) as manager:
        assert not [name for name in manager.filesystem.list(target) if name.endswith(".unfinished")]
    if target != URL:
        assert "topic 'orders' exists" in commitlog("copy", "--from", directory, "--to", target, "-t", "orders").stderr


def test_a_copy_of_all_topics_goes_on_with_those_that_are_not_complete(
    directory: str, damaged: Path, target: str
) -> None:
    assert commitlog("copy", "--from", directory, "--to", target).code == 3
    still = commitlog("copy", "--from", directory, "--to", target)
    assert (still.code, "1 damaged; once the source is repaired" in still.stderr.splitlines()[-1]) == (3, True)
    flip(damaged)
    again = commitlog("copy", "--from", directory, "--to", target)
    assert (again.code, "orders-1" in again.stdout) == (0, True)
    assert again.stderr == ("" if target == URL else "commitlog: users: passed over: an earlier run has completed it\n")
    assert (printed(target, "orders"), printed(target, "users")) == ("a\nb\n", "a\nb\n")


def test_a_topic_of_the_same_name_from_elsewhere_is_not_passed_over(directory: str, tmp_path: Path) -> None:
    target = str(tmp_path / "copy")
    with LogManager.open(target, create=True) as manager:
        manager.create_topic("users", partitions=2)
    done = commitlog("copy", "--from", directory, "--to", target)
    assert (done.code, "topic 'users' exists" in done.stderr) == (1, True)


def test_a_partition_that_lost_a_segment_in_the_middle_is_not_copied(directory: str, target: str) -> None:
    with LogManager.open(directory) as manager:
        for value in (b"c", b"d"):
            manager.open_log("users", 1).roll()
            manager.open_log("users", 1).append_records(records([value]))
    for file in Path(directory).glob("users-1/00000000000000000002.*"):
        file.unlink()
    done = commitlog("copy", "--from", directory, "--to", target)
    assert (done.code, "users-1: damaged, not copied" in done.stderr) == (3, True)
    assert "offsets 2 to 2 are in no segment" in done.stderr


def test_deleting_a_topic_that_was_not_copied_to_its_end_leaves_nothing_of_it(
    directory: str, damaged: Path, target: str
) -> None:
    assert commitlog("copy", "--from", directory, "--to", target).code == 3
    assert commitlog("topics", "--delete", "--topic", "orders", "--log-dir", target).code == 0
    with LogManager.open(target) as manager:
        assert not [name for name in manager.filesystem.list(target) if name.startswith("orders")]
    assert commitlog("verify", "--log-dir", target).code == 0


def test_what_producers_wrote_to_finished_partitions_stays_when_a_copy_goes_on(
    directory: str, damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = ServedStores(monkeypatch).create(URL)
    assert commitlog("copy", "--from", directory, "--to", URL).code == 3
    topic_id = log.catch_up().topic_ids["orders"]
    append_batches(log, [ClientBatch(topic_id, 0, check_batch(batch(b"later").data, config()))])
    flip(damaged)
    assert commitlog("copy", "--from", directory, "--to", URL).code == 0
    assert sorted(printed(URL, "orders").split()) == ["a", "b", "later"]


@pytest.mark.only_all
@pytest.mark.slow
def test_a_real_object_store_keeps_which_copies_are_not_finished(
    directory: str, damaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SeaweedFS(tmp_path / "seaweed") as server:
        server.reach(monkeypatch)
        copy = ("copy", "--from", directory, "--to", server.url)
        assert commitlog(*copy).code == 3
        monkeypatch.setattr(bucket_files, "_of_this_process", {})  # another process finds what the store has
        shown = commitlog("verify", "--log-dir", server.url)
        assert (shown.code, shown.stdout.count(NOT_FINISHED)) == (3, 1)
        flip(damaged)
        assert commitlog(*copy).code == 0
        assert commitlog("verify", "--log-dir", server.url).code == 0
        assert printed(server.url, "orders") == "a\nb\n"
