"""An idempotent producer: a failing disk neither loses nor doubles what it appends."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pyspark_commitlog.storage.errors import RecordTooLargeError, StorageError
from pyspark_commitlog.storage.filesystem import LocalFileSystem
from pyspark_commitlog.storage.manager import LogManager
from pyspark_commitlog.storage.transactions import IdempotentProducer
from tests.support.clock import ManualClock
from tests.support.faulty_filesystem import FaultyFileSystem, OperationName, Rule, fail
from tests.support.logs import NOW_MS, records, rows


def manager_of(path: Path, rules: list[Rule] | None = None) -> LogManager:
    filesystem = FaultyFileSystem(LocalFileSystem(), [] if rules is None else rules)
    manager = LogManager.open(str(path), create=True, clock=ManualClock(NOW_MS), filesystem=filesystem)
    manager.ensure_topic("t", configs={"max.message.bytes": "300"})
    return manager


@pytest.mark.parametrize("kind", ["write", "sync"])
@pytest.mark.parametrize("times", [1, 2])
def test_an_append_that_failed_is_repeated_and_there_once(tmp_path: Path, kind: OperationName, times: int) -> None:
    rules: list[Rule] = []
    with manager_of(tmp_path, rules) as manager:
        producer = IdempotentProducer(manager)
        producer.append("t", 0, records([b"a"]))
        rules += [fail(kind, "*/t-0/*.log", error=errno.EIO) for _ in range(times)]
        info = producer.append("t", 0, records([b"%d" % n * 50 for n in range(9)]))  # several batches
        assert all(rule.struck for rule in rules)
        producer.append("t", 0, records([b"z"]))
        assert (info.first_offset, info.last_offset) == (1, 9)
        assert [value[:1] for _, value in rows(manager.open_reader("t", 0)) if value] == [
            each.encode() for each in "a012345678z"
        ]


def test_a_disk_that_fails_for_good_is_told(tmp_path: Path) -> None:
    rules: list[Rule] = []
    manager = manager_of(tmp_path, rules)
    producer = IdempotentProducer(manager)
    rules.append(fail("write", "*/t-0/*.log", error=errno.ENOSPC, lasting=True))
    with pytest.raises(StorageError):
        producer.append("t", 0, records([b"a"]))


def test_what_the_topic_refuses_is_not_tried_again_and_leaves_no_gap(tmp_path: Path) -> None:
    with manager_of(tmp_path) as manager:
        producer = IdempotentProducer(manager)
        with pytest.raises(RecordTooLargeError):
            producer.append("t", 0, records([b"x" * 400]))
        producer.append("t", 0, records([b"a"]))
        assert rows(manager.open_reader("t", 0)) == [(0, b"a")]


def test_each_producer_has_an_id_of_its_own(tmp_path: Path) -> None:
    with manager_of(tmp_path) as manager:
        for value in (b"a", b"b"):
            IdempotentProducer(manager).append("t", 0, records([value]))
        log = manager.open_log("t", 0)
        entries = [log.producers.last_entry(2**40 + n) for n in range(2)]
        assert [entry and entry.last_sequence for entry in entries] == [0, 0]
