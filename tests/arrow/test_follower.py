"""A topic followed by a Python program: what comes, in which order, and how it ends."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog import Follower, Producer, Record, append, follow
from pyspark_commitlog.arrow import follower as module
from pyspark_commitlog.storage import (
    CorruptionError,
    InvalidConfigError,
    LogManager,
    LogStoreError,
    NotALogDirError,
    OffsetOutOfRangeError,
    TopicPartition,
    UnknownTopicOrPartitionError,
    add_partitions,
    delete_records,
    delete_topic,
)
from tests.support.logs.building import end_transaction, write_transactional

TIME_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(module, "NEW_PARTITIONS_EVERY_S", 0.01)


@pytest.fixture
def log(log_dir: str) -> str:
    """Topic ``t``: ten records in partition 0, a second apart, and three in partition 1."""
    rows = [{"value": f"{n}", "timestamp": TIME_MS + n * 1000, "partition": 0} for n in range(10)]
    append(
        log_dir, "t", rows + [{"value": f"b{n}", "timestamp": TIME_MS, "partition": 1} for n in range(3)], partitions=2
    )
    return log_dir


def add(path: str, *values: str, partition: int = 0) -> None:
    append(path, "t", [{"value": value, "partition": partition} for value in values])


def values(records: Iterator[Record]) -> list[str]:
    return [(record.value or b"").decode() for record in records]


def read(path: str, partition: int | None = 0, **arguments: Any) -> list[str]:
    with follow(path, "t", partition=partition, timeout=0, **arguments) as records:
        return values(records)


def test_a_record_has_what_was_appended(log_dir: str) -> None:
    rows = [{"key": "k", "value": None, "headers": [("h", "x"), ("h", None)], "timestamp": TIME_MS}, (None, "v")]
    append(log_dir, "t", rows)
    first, second = follow(log_dir, "t", start="earliest", timeout=0)
    assert first == Record(b"k", None, (("h", b"x"), ("h", None)), TIME_MS, partition=0, offset=0, topic="t")
    assert (second.key, second.value, second.headers, second.offset) == (None, b"v", (), 1)
    assert second.timestamp is not None


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("earliest", range(10)),
        ("latest", []),
        (0, range(10)),
        (7, range(7, 10)),
        (10, []),
        ({0: 4}, range(4, 10)),
        ({}, range(10)),
        (datetime.fromtimestamp(TIME_MS / 1000 + 3, UTC), range(3, 10)),
        (datetime.fromtimestamp(TIME_MS / 1000 + 3.0001, UTC), range(4, 10)),
        ("2023-11-14T22:13:25", range(5, 10)),
        (str(TIME_MS + 6000), range(6, 10)),
        ("2033-11-14", []),
    ],
)
def test_it_begins_where_it_was_asked_to(log: str, start: Any, expected: range) -> None:
    assert read(log, start=start) == [f"{n}" for n in expected]


def test_it_begins_at_the_end_unless_asked_otherwise_and_returns_what_is_appended_later(log: str) -> None:
    with follow(log, "t", timeout=0) as records:
        assert values(records) == []
        add(log, "new", "newer")
        assert values(records) == ["new", "newer"]
        add(log, "third")
        add(log, "other", partition=1)
        assert sorted(values(records)) == ["other", "third"]


def test_it_waits_for_records(log: str) -> None:
    writer = threading.Timer(0.05, add, [log, "late"])
    with follow(log, "t") as records:
        writer.start()
        assert next(records).value == b"late"
    writer.join()


def test_large_partitions_take_turns(log_dir: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FETCH_BYTES", 1)
    with Producer(log_dir) as producer:
        for number in range(20):
            producer.append("t", [{"value": f"{number}", "partition": number % 2}], partitions=2)
    found = list(follow(log_dir, "t", start="earliest", timeout=0))
    assert [record.partition for record in found[:4]] == [0, 1, 0, 1]
    for partition in (0, 1):
        assert [record.offset for record in found if record.partition == partition] == list(range(10))


def test_another_follower_continues_at_its_position(log: str) -> None:
    with follow(log, "t", start="earliest", timeout=0) as records:
        taken = [next(records) for _ in range(6)]
    position = records.position
    assert sum(position.values()) == 6
    rest = list(follow(log, "t", start=position, timeout=0))
    assert sorted((record.partition, record.offset) for record in taken + rest) == [
        *((0, offset) for offset in range(10)),
        *((1, offset) for offset in range(3)),
    ]


def test_records_of_open_and_aborted_transactions_are_not_returned_and_their_offsets_are_passed(log: str) -> None:
    with LogManager.open(log) as manager, follow(log, "t", partition=0, timeout=0) as records:
        partition = manager.open_log("t", 0)
        for producer_id, value, commit in ((10_000, b"a", False), (10_001, b"c", True)):
            write_transactional(partition, producer_id, 0, value)
            assert values(records) == []
            end_transaction(partition, producer_id, commit=commit)
        assert values(records) == ["c"]
    add(log, "z")
    with follow(log, "t", start=12, timeout=0, partition=0) as records:
        assert values(records) == ["c", "z"]
        assert records.position == {0: 15}  # with two markers
    assert read(log, start=10, isolation="read_uncommitted") == ["a", "c", "z"]


def test_partitions_that_are_added_are_followed_from_their_first_record(log: str) -> None:
    with follow(log, "t", timeout=0) as records:
        assert values(records) == []
        with LogManager.open(log) as manager:
            add_partitions(manager, "t", 3)
        add(log, "in a new one", partition=2)
        time.sleep(module.NEW_PARTITIONS_EVERY_S)
        assert values(records) == ["in a new one"]
    with follow(log, "t", partition=[0, 1], timeout=0) as records:
        assert records.position.keys() == {0, 1}


def test_deleted_records_are_an_error_that_names_them(log: str) -> None:
    with follow(log, "t", start="earliest", partition=0, timeout=0) as records:
        assert next(records).offset == 0
        with LogManager.open(log) as manager:
            list(delete_records(manager, {TopicPartition("t", 0): 4}))
        assert [next(records).offset for _ in range(9)] == list(range(1, 10))  # it had read them
    with follow(log, "t", start=5, partition=0, timeout=0) as records, LogManager.open(log) as manager:
        list(delete_records(manager, {TopicPartition("t", 0): 8}))
        for _ in range(2):  # it stays an error, and is never passed over
            with pytest.raises(OffsetOutOfRangeError, match=r"t-0: offsets 5 to 7 were deleted .*start='earliest'"):
                next(records)


def test_a_topic_that_was_deleted_or_created_again_is_an_error(log: str) -> None:
    with follow(log, "t", timeout=0) as records, follow(log, "t", timeout=0) as others:
        with LogManager.open(log) as manager:
            delete_topic(manager, "t")
        with pytest.raises(LogStoreError):
            next(others)
        add(log, *map(str, range(30)))
        for _ in range(2):
            with pytest.raises(OffsetOutOfRangeError, match="topic t was deleted and made again"):
                next(records)


def test_position_of_another_topic_with_the_name_is_refused_by_its_id(log: str) -> None:
    with follow(log, "t", start="earliest", timeout=0) as records:
        list(records)
        position, topic_id = records.position, records.topic_id
    with follow(log, "t", start=position, timeout=0, topic_id=topic_id) as records:
        assert list(records) == []
    with LogManager.open(log) as manager:
        delete_topic(manager, "t")
    add(log, *map(str, range(30)))
    with pytest.raises(OffsetOutOfRangeError, match=f"t was deleted and made again: it was read with id {topic_id}"):
        follow(log, "t", start=position, timeout=0, topic_id=topic_id)
    with follow(log, "t", start="earliest", timeout=0) as records:
        assert len(list(records)) == 30


def test_damage_is_an_error_after_the_records_before_it(log: str) -> None:
    add(log, "x" * 1000)
    add(log, "y" * 1000)
    file = max(Path(log, "t-0").glob("*.log"))
    content = bytearray(file.read_bytes())
    content[content.index(b"x" * 1000)] ^= 1
    file.write_bytes(content)
    with follow(log, "t", start=8, partition=0, timeout=0) as records:
        assert [next(records).value for _ in range(2)] == [b"8", b"9"]
        with pytest.raises(CorruptionError, match=r"t-0"):
            next(records)
        assert records.position == {0: 10}


def test_it_ends_when_no_record_came_for_the_timeout(log: str) -> None:
    with follow(log, "t", start="earliest", timeout=0.05) as records:
        assert len(values(records)) == 13
        assert values(records) == []


def closed_by_a_thread(records: Follower) -> None:
    threading.Timer(0.05, records.close).start()


def closed_by_a_signal(records: Follower) -> None:
    signal.signal(signal.SIGALRM, lambda *_: records.close())
    signal.setitimer(signal.ITIMER_REAL, 0.05)


@pytest.mark.parametrize("closing", [closed_by_a_thread, closed_by_a_signal, Follower.close])
def test_closing_ends_an_iteration_that_waits(log: str, closing: Callable[[Follower], None]) -> None:
    records = follow(log, "t")
    closing(records)
    assert values(records) == []
    assert values(records) == []
    records.close()
    assert records.position == {0: 10, 1: 3}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"start": 11, "partition": 0}, OffsetOutOfRangeError, "t-0 has offsets 0 to 10, but not 11"),
        ({"start": 5}, OffsetOutOfRangeError, "t-1 has offsets 0 to 3, but not 5: .* dict of offsets by partition"),
        ({"start": -1}, OffsetOutOfRangeError, "not -1"),
        ({"start": {7: 1}}, InvalidConfigError, r"partition 7, but partitions \[0, 1\] are followed"),
        ({"start": True}, InvalidConfigError, "start is True"),
        ({"start": None}, InvalidConfigError, "'earliest', 'latest', an offset, a dict"),
        ({"start": "begin"}, InvalidConfigError, "'begin' is neither ISO 8601"),
        ({"start": datetime(2026, 1, 1)}, InvalidConfigError, "no time zone"),
        ({"partition": 2}, UnknownTopicOrPartitionError, r"partitions \[0, 1\], but not 2"),
        ({"isolation": "dirty"}, InvalidConfigError, "isolation"),
        ({"timeout": -1}, InvalidConfigError, "timeout"),
    ],
)
def test_wrong_arguments_are_refused(log: str, arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        follow(log, "t", **arguments)


def test_a_directory_or_a_topic_that_does_not_exist_is_refused(log: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="no topic 'u'"):
        follow(log, "u")
    with pytest.raises(NotALogDirError):
        follow(tmp_path / "nowhere", "t")
