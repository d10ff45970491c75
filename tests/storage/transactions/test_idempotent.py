"""An idempotent producer: a failing disk neither loses nor duplicates its appends."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import RecordTooLargeError, StorageError, UnfinishedAppendError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.transactions.idempotent import IdempotentProducer, appended_before
from tests.support.clock import ManualClock
from tests.support.disk.faulty_filesystem import FaultyFileSystem, OperationName, Rule, fail, tear
from tests.support.logs.building import NOW_MS, records, rows


def manager_of(
    path: Path, rules: list[Rule] | None = None, configs: Mapping[str, str] = MappingProxyType({})
) -> LogManager:
    filesystem = FaultyFileSystem(LocalFileSystem(), [] if rules is None else rules)
    manager = LogManager.open(str(path), create=True, clock=ManualClock(NOW_MS), filesystem=filesystem)
    manager.ensure_topic("t", configs={"max.message.bytes": "300", **configs})
    return manager


@pytest.mark.parametrize("kind", ["write", "sync"])
@pytest.mark.parametrize("times", [1, 2])
def test_a_failed_append_is_repeated_and_stored_once(tmp_path: Path, kind: OperationName, times: int) -> None:
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


@pytest.mark.parametrize(("kind", "call"), [("write", 1), ("write", 6), ("sync", 1)])
def test_an_append_of_more_batches_than_the_log_knows_of_a_producer_is_repeated_and_stored_once(
    tmp_path: Path, kind: OperationName, call: int
) -> None:
    rules: list[Rule] = []
    with manager_of(tmp_path, rules, {"segment.bytes": "600"}) as manager:
        producer = IdempotentProducer(manager)
        producer.append("t", 0, records([b"first"]))
        rules.append(fail(kind, "*/t-0/*.log", call=call, error=errno.EIO))
        values = [b"%02d" % n * 50 for n in range(40)]
        info = producer.append("t", 0, records(values))
        assert (info.first_offset, info.last_offset, [rule.struck for rule in rules]) == (1, 40, [1])
        producer.append("t", 0, records([b"last"]))
        assert [value for _, value in rows(manager.open_reader("t", 0))] == [b"first", *values, b"last"]


def test_an_append_that_was_written_but_not_synced_is_synced_and_stored_once(tmp_path: Path) -> None:
    rules: list[Rule] = []
    with manager_of(tmp_path, rules) as manager:
        producer = IdempotentProducer(manager)
        rules.append(fail("sync", "*/t-0/*.log", error=errno.EIO))
        values = [b"%02d" % n * 50 for n in range(40)]
        info = producer.append("t", 0, records(values))
        assert (info.first_offset, info.last_offset, [rule.struck for rule in rules]) == (0, 39, [1])
        assert [value for _, value in rows(manager.open_reader("t", 0))] == values
        assert manager.open_log("t", 0).recovery_point == 40


def test_a_disk_that_fails_for_good_is_reported(tmp_path: Path) -> None:
    rules: list[Rule] = []
    manager = manager_of(tmp_path, rules)
    producer = IdempotentProducer(manager)
    rules.append(fail("write", "*/t-0/*.log", error=errno.ENOSPC, lasting=True))
    with pytest.raises(StorageError):
        producer.append("t", 0, records([b"a"]))


def test_an_append_of_several_segments_that_a_full_disk_ends_counts_the_records_that_can_be_read(
    tmp_path: Path,
) -> None:
    rules: list[Rule] = []
    with manager_of(tmp_path, rules, {"segment.bytes": "600"}) as manager:
        producer = IdempotentProducer(manager)
        producer.append("t", 0, records([b"a"]))
        rules.append(tear("*/t-0/*.log", after=20, call=4, lasting=True))
        with pytest.raises(UnfinishedAppendError, match=r"t-0 failed 3 times: /.*: write: No space left") as caught:
            producer.append("t", 0, records([b"%d" % n * 50 for n in range(30)]))
        read = len(rows(manager.open_reader("t", 0)))
        assert 1 < read < 30
        assert caught.value.appended == read - 1
        assert appended_before(caught.value, 1, "record") == f"appended before this: {read} records"
    assert len(list((tmp_path / "t-0").glob("*.log"))) > 1


def test_an_append_whose_log_cannot_be_opened_again_counts_at_least_the_earlier_ones(tmp_path: Path) -> None:
    rules: list[Rule] = []
    manager = manager_of(tmp_path, rules)
    producer = IdempotentProducer(manager)
    producer.append("t", 0, records([b"a"]))
    rules.append(fail("write", "*/t-0/*.log", error=errno.EIO, lasting=True))
    rules.append(fail("truncate", "*/t-0/*", error=errno.EIO, lasting=True))
    rules.append(fail("read", "*/t-0/*.log", error=errno.EIO, lasting=True))
    with pytest.raises(UnfinishedAppendError) as caught:
        producer.append("t", 0, records([b"b"]))
    assert caught.value.appended is None
    assert appended_before(caught.value, 1, "record") == "appended before this: at least 1 record"
    assert appended_before(StorageError("no"), 1, "record") == "appended before this: 1 record"


def test_a_batch_that_the_topic_refuses_is_not_retried_and_leaves_no_gap(tmp_path: Path) -> None:
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


# --- an id that a partition knows already


def append_as_new(path: Path, *values: bytes) -> None:
    """Like one run of ``commitlog produce``."""
    with LogManager.open(str(path)) as manager:
        producer = IdempotentProducer(manager)
        for value in values:
            producer.append("t", 0, records([value]))


def values_in(path: Path) -> list[bytes | None]:
    with LogManager.open(str(path)) as manager:
        return [value for _, value in rows(manager.open_reader("t", 0))]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(None, id="lost"),
        pytest.param(b'{"version": 1, "next_prod', id="torn"),
        pytest.param(b'{"version": 1, "next_producer_id": %d}\n' % 2**40, id="set back"),
        pytest.param(b'{"version": 1, "next_producer_id": %d}\n' % (2**63 - 1), id="beyond all ids"),
        pytest.param(b"[" * 900, id="no end"),
    ],
)
def test_a_new_producer_is_never_mistaken_for_an_older_one_whatever_the_id_file_holds(
    tmp_path: Path, content: bytes | None
) -> None:
    manager_of(tmp_path).close()
    append_as_new(tmp_path, b"a", b"b")
    append_as_new(tmp_path, b"c", b"d")
    if content is None:
        (tmp_path / "producer_ids.json").unlink()
    else:
        (tmp_path / "producer_ids.json").write_bytes(content)
    append_as_new(tmp_path, b"e", b"f", b"g")
    append_as_new(tmp_path, b"h")
    assert values_in(tmp_path) == [bytes([each]) for each in b"abcdefgh"]


def test_a_partition_copied_from_another_log_directory_accepts_a_new_producer(tmp_path: Path) -> None:
    for name in ("one", "other"):
        manager_of(tmp_path / name).close()
        append_as_new(tmp_path / name, *(b"%s %d" % (name.encode(), n) for n in range(3)))
    shutil.rmtree(tmp_path / "one" / "t-0")
    shutil.copytree(tmp_path / "other" / "t-0", tmp_path / "one" / "t-0")
    (tmp_path / "one" / "producer_ids.json").unlink()
    append_as_new(tmp_path / "one", b"new")
    assert values_in(tmp_path / "one") == [b"other 0", b"other 1", b"other 2", b"new"]


@pytest.mark.parametrize("in_copy", [1, 2, 3])
def test_a_partition_replaced_under_a_producer_accepts_its_next_append(tmp_path: Path, in_copy: int) -> None:
    """The copy knows the same id, and has fewer, as many or more of its records."""
    for name in ("one", "other"):
        manager_of(tmp_path / name).close()
    append_as_new(tmp_path / "other", *([b"other"] * in_copy))
    with LogManager.open(str(tmp_path / "one")) as manager:
        producer = IdempotentProducer(manager)
        for value in (b"a", b"b"):
            producer.append("t", 0, records([value]))
        (tmp_path / "one" / "t-0").rename(tmp_path / "gone")
        shutil.copytree(tmp_path / "other" / "t-0", tmp_path / "one" / "t-0")
        producer.append("t", 0, records([b"c"]))
    assert values_in(tmp_path / "one") == [*([b"other"] * in_copy), b"c"]


def test_after_an_append_that_failed_for_good_other_records_are_no_repetition_of_it(tmp_path: Path) -> None:
    rules: list[Rule] = []
    with manager_of(tmp_path, rules) as manager:
        producer = IdempotentProducer(manager)
        producer.append("t", 0, records([b"a"]))
        rules.append(fail("sync", "*/t-0/*.log", error=errno.EIO, lasting=True))
        with pytest.raises(StorageError):
            producer.append("t", 0, records([b"b"]))
        rules.clear()
        producer.append("t", 0, records([b"c"]))
        assert [value for _, value in rows(manager.open_reader("t", 0))][-1] == b"c"


def test_one_producer_uses_one_id_for_partitions_that_do_not_know_it(tmp_path: Path) -> None:
    with manager_of(tmp_path) as manager:
        manager.ensure_topic("other")
        producer = IdempotentProducer(manager)
        for topic in ("t", "other"):
            producer.append(topic, 0, records([b"a"]))
        assert [list(manager.open_log(topic, 0).producers.producers) for topic in ("t", "other")] == [[2**40]] * 2
