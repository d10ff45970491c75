"""``commitlog transactions``: open transactions, their age, and what waits for them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.storage import LogManager, TransactionalWriter, TransactionCoordinator
from tests.cli.in_process import commitlog
from tests.support.kafka import broker_dirs
from tests.support.logs.building import append, write_transactional
from tests.support.logs.directories import directory_with_internal_topics
from tests.support.logs.transactions import encoded


@pytest.fixture
def directory(tmp_path: Path) -> str:
    """A log directory with topic t of two partitions."""
    path = directory_with_internal_topics(tmp_path)
    with LogManager.open(path) as manager:
        manager.create_topic("t", partitions=2)
    return path


def listed(directory: object) -> list[dict[str, Any]]:
    done = commitlog("transactions", "--log-dir", directory, "--json")
    assert (done.code, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_no_open_transaction_is_reported_and_is_not_a_failure(directory: str) -> None:
    done = commitlog("transactions", "--log-dir", directory)
    assert (done.code, done.stdout, done.stderr) == (0, "no open transactions\n", "")
    assert commitlog("transactions", "--log-dir", directory, "--json").stdout == ""


def test_an_open_transaction_shows_what_it_holds_back_until_it_is_committed(directory: str) -> None:
    with LogManager.open(directory) as manager, TransactionCoordinator.open(manager, "copy") as coordinator:
        append(manager.open_log("t", 0), b"before")
        transaction = coordinator.begin([("t", 0), ("t", 1)])
        assert [each["partitions"] for each in listed(directory)] == [[]]
        writer = TransactionalWriter(manager, transaction)
        writer.append("t", 0, encoded(b"a", b"b"))
        writer.sync()
        append(manager.open_log("t", 0), b"behind")
        [found] = listed(directory)
        assert (found["transactional_id"], found["state"], found["epoch"]) == ("copy", "Ongoing", transaction.epoch)
        assert (found["producer_id"], found["timeout_ms"]) == (transaction.producer_id, 900_000)
        assert 0 <= found["age_ms"] < 900_000
        assert found["partitions"] == [
            {
                **{"topic": "t", "partition": 0, "first_offset": 1, "last_stable_offset": 1},
                **{"log_end_offset": 4, "held_back": 3},
            }
        ]
        coordinator.abort(transaction)
        assert listed(directory) == []


def test_the_table_has_a_row_for_each_partition(directory: str) -> None:
    with LogManager.open(directory) as manager, TransactionCoordinator.open(manager, "copy") as coordinator:
        writer = TransactionalWriter(manager, coordinator.begin([("t", 0), ("t", 1)]))
        for partition in (0, 1):
            writer.append("t", partition, encoded(b"a"))
        writer.sync()
        [header, *rows] = [
            line.split() for line in commitlog("transactions", "--log-dir", directory).stdout.split("\n")[1:-1]
        ]
    assert (header[0], header[-1]) == ("TRANSACTIONAL-ID", "HELD-BACK")
    assert [row[0] for row in rows] == ["copy", "copy"]
    assert [row[6:] for row in rows] == [["t", "0", "0", "0", "1", "1"], ["t", "1", "0", "0", "1", "1"]]


def test_the_first_of_two_transactions_in_a_partition_holds_records_back(directory: str) -> None:
    with LogManager.open(directory) as manager:
        log = manager.open_log("t", 0)
        write_transactional(log, 7, 0, b"x")
        write_transactional(log, 8, 0, b"y")
    found = {each["producer_id"]: each for each in listed(directory)}
    assert {each["state"] for each in found.values()} == {"Unknown"}
    assert [found[n]["partitions"][0]["held_back"] for n in (7, 8)] == [2, None]
    assert [found[n]["transactional_id"] for n in (7, 8)] == [None, None]
    assert [found[n]["timeout_ms"] for n in (7, 8)] == [None, None]


def test_a_brokers_open_transaction_is_found_by_its_transactional_id() -> None:
    [found] = listed(broker_dirs.stage("transactions/final") / "log")
    assert (found["transactional_id"], found["producer_id"], found["epoch"]) == ("beta", 1, 0)
    assert (found["state"], found["timeout_ms"]) == ("Ongoing", 900_000)
    assert found["age_ms"] > 0
    assert [(each["topic"], each["first_offset"]) for each in found["partitions"]] == [("txn", 1613)]


def test_without_the_brokers_transaction_state_its_producer_is_unknown(tmp_path: Path) -> None:
    log_dir = tmp_path / "log"
    ignored = shutil.ignore_patterns("__transaction_state-*")
    shutil.copytree(broker_dirs.stage("transactions/final") / "log", log_dir, ignore=ignored)
    [found] = listed(log_dir)
    assert (found["transactional_id"], found["producer_id"], found["state"]) == (None, 1, "Unknown")
    assert [each["first_offset"] for each in found["partitions"]] == [1613]
    done = commitlog("transactions", "--log-dir", log_dir, terminal=True)
    assert done.code == 0
    assert "Unknown" in done.stdout


def test_reading_changes_nothing() -> None:
    log_dir = broker_dirs.stage("transactions/final") / "log"
    before = {path: path.stat().st_mtime_ns for path in log_dir.rglob("*")}
    commitlog("transactions", "--log-dir", log_dir)
    assert {path: path.stat().st_mtime_ns for path in log_dir.rglob("*")} == before


def test_a_missing_directory_is_one_line() -> None:
    done = commitlog("transactions", "--log-dir", "/nowhere")
    assert (done.code, done.stdout, done.stderr) == (1, "", "commitlog: /nowhere: no such directory\n")


def test_wrong_use_and_help_say_what_is_right() -> None:
    done = commitlog("transactions")
    assert done.code == 2
    assert "--log-dir" in done.stderr
    assert "Superseded" in commitlog("transactions", "--help").stdout


# Hanging ones


@pytest.fixture
def hanging(directory: str) -> str:
    """Partition 0 of t has a record, one of a transaction that no coordinator knows, and one more."""
    with LogManager.open(directory) as manager:
        log = manager.open_log("t", 0)
        append(log, b"before")
        write_transactional(log, 7, 0, b"hangs")
        append(log, b"behind")
    return directory


ABORT = ("--abort", "--topic", "t", "--partition", "0", "--start-offset", "1")


def test_a_hanging_transaction_is_found_and_aborted(hanging: str) -> None:
    found = commitlog("transactions", "--log-dir", hanging, "--find-hanging", "--json")
    assert [json.loads(line)["producer_id"] for line in found.stdout.splitlines()] == [7]
    would = commitlog("transactions", "--log-dir", hanging, *ABORT, "--dry-run")
    assert would.stdout.startswith(
        "would abort t-0: open transaction from offset 1, producer 7, epoch 0, last written 2023"
    )
    done = commitlog("transactions", "--log-dir", hanging, *ABORT)
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.startswith("aborted t-0: open transaction from offset 1, producer 7, epoch 0")
    assert commitlog("transactions", "--log-dir", hanging, "--find-hanging").stdout == "no hanging transactions\n"
    again = commitlog("transactions", "--log-dir", hanging, *ABORT)
    assert (again.code, again.stdout) == (1, "")
    assert "no open transaction begins at offset 1; none is open there" in again.stderr


def test_open_transactions_of_a_topic_or_partition_are_listed(hanging: str) -> None:
    with LogManager.open(hanging) as manager:
        manager.create_topic("other", partitions=1)
    for flags, count in ((["--topic", "t"], 1), (["--topic", "t", "--partition", "1"], 0), (["--topic", "other"], 0)):
        done = commitlog("transactions", "--log-dir", hanging, "--json", *flags)
        assert len(done.stdout.splitlines()) == count


@pytest.mark.parametrize("flags", [ABORT[:-2], ABORT[:1], (*ABORT, "--find-hanging")])
def test_an_abort_needs_to_know_what(flags: tuple[str, ...], hanging: str) -> None:
    assert commitlog("transactions", "--log-dir", hanging, *flags).code == 2


def test_cat_and_describe_name_the_transaction_that_readers_wait_for(hanging: str) -> None:
    name = "open transaction from offset 1, producer 7, epoch 0, last written 2023-11-14 22:13:20.000 UTC"
    printed = commitlog("cat", "--log-dir", hanging, "-t", "t", "-p", "0", "-e")
    assert printed.stdout == "before\n"
    assert printed.stderr.splitlines() == [
        "% Reached end of topic t [0] at offset 1",
        f"% t [0]: {name}: 2 offsets waiting for its end; see commitlog transactions",
    ]
    uncommitted = commitlog("cat", "--log-dir", hanging, "-t", "t", "-e", "--isolation-level", "read_uncommitted")
    assert "open transaction" not in uncommitted.stderr
    assert f"{name}: readers of committed records wait" in commitlog("describe", "--log-dir", hanging, "-t", "t").stdout
    shown = commitlog("describe", "--log-dir", hanging, "-t", "t", "-p", "0", "--json").stdout
    assert json.loads(shown)["open_transaction"]["producer_id"] == 7


def test_a_lost_partition_of_an_internal_topic_is_named_and_hides_nothing_else(tmp_path: Path) -> None:
    log_dir = directory_with_internal_topics(tmp_path, partitions=2)
    with LogManager.open(log_dir) as manager:
        manager.create_topic("t", partitions=1)
        for name in ("a", "b"):  # of partitions 1 and 0
            with TransactionCoordinator.open(manager, name) as coordinator:
                coordinator.begin([("t", 0)])
    assert {each["transactional_id"] for each in listed(log_dir)} == {"a", "b"}
    for topic in ("__transaction_state", "__consumer_offsets"):
        shutil.rmtree(tmp_path / f"{topic}-1")
    done = commitlog("transactions", "--log-dir", log_dir, "--json")
    remaining = [json.loads(line)["transactional_id"] for line in done.stdout.splitlines()]
    assert (done.code, remaining) == (0, ["b"])
    assert "1 of the 2 partitions of __transaction_state is not in" in done.stderr
    assert "1 of the 2 partitions of __consumer_offsets is not in" in done.stderr


def test_a_lost_partition_of_a_topic_is_named_behind_what_the_others_have(hanging: str) -> None:
    with LogManager.open(hanging) as manager:
        manager.create_topic("lost", partitions=1)
    shutil.rmtree(Path(hanging) / "lost-0")
    done = commitlog("transactions", "--log-dir", hanging, "--json")
    assert (done.code, [json.loads(line)["producer_id"] for line in done.stdout.splitlines()]) == (1, [7])
    assert done.stderr.splitlines() == [
        f"commitlog: {hanging}/lost-0: no such directory: the partition was deleted, or its disk is not mounted"
    ]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("--topic", "tt"), r"no topic 'tt' in .* \(did you mean 't'\?\)"),
        (("--topic", "t", "--partition", "2"), r"topic 't' in .* has partitions \[0, 1\], but not 2"),
        (("--topic", "tt", "--find-hanging"), "no topic 'tt'"),
    ],
)
def test_an_unknown_topic_or_partition_is_a_failure(directory: str, asked: tuple[str, ...], said: str) -> None:
    done = commitlog("transactions", "--log-dir", directory, *asked)
    assert (done.code, done.stdout) == (1, "")
    assert re.search(said, done.stderr)
    assert commitlog("transactions", "--log-dir", directory, "--topic", "t", "--partition", "1").code == 0
