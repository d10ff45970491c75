"""A record of a coordinator that cannot be read stops what its key names, and nothing else; log and errors name it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import InvalidRecordError
from pyspark_commitlog.storage.format.files.file_names import TopicPartition
from pyspark_commitlog.storage.format.internal.group_records import GroupRecordKey, GroupRecordKind as Kind
from pyspark_commitlog.storage.format.internal.internal_topics import (
    GROUP_METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    TransactionLogKey,
    TransactionState,
)
from pyspark_commitlog.storage.groups import compacted_values
from pyspark_commitlog.storage.groups.appending import append_entries
from pyspark_commitlog.storage.groups.coordinated import CoordinatedGroups
from pyspark_commitlog.storage.groups.offsets import CommittedOffset, GroupOffsets
from pyspark_commitlog.storage.transactions.coordinator import TransactionCoordinator
from pyspark_commitlog.storage.transactions.states import TransactionStates
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import NOW_MS

PLACE = TopicPartition("t", 0)
KEYS = {
    "empty": b"",
    "one byte": b"\0",
    "cut": OffsetCommitKey("some group", "topic", 0).encode()[:9],
    "negative kind": b"\xff\xff" + b"x" * 20,
    "unknown kind": b"\x7f\0" + b"x" * 20,
    "of a later release": b"\0\x30" + b"x" * 20,
    "not UTF-8": b"\0\0\0\2\xff\xfe" + b"\0\1t\0\0\0\0",
}
VALUES = {
    "empty": b"",
    "one byte": b"\0",
    "unknown version": b"\0\x63" + b"x" * 80,
    "cut": b"\0\0\0\0",
    "garbage": b"?" * 90,
}
keys = pytest.mark.parametrize("key", KEYS.values(), ids=KEYS.keys())
values = pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())


@pytest.fixture(autouse=True)
def log_anew() -> None:
    compacted_values._SAID.clear()


@pytest.fixture
def disk() -> MemoryFileSystem:
    return MemoryFileSystem()


def managed(disk: MemoryFileSystem) -> LogManager:
    return LogManager.open("/logs", create=True, clock=ManualClock(NOW_MS), filesystem=disk)


@pytest.fixture
def manager(disk: MemoryFileSystem) -> Iterator[LogManager]:
    with managed(disk) as manager:
        manager.create_topic("t", partitions=1)
        manager.create_topic(GROUP_METADATA_TOPIC, partitions=1)
        manager.create_topic(TRANSACTION_STATE_TOPIC, partitions=1)
        yield manager


def write(manager: LogManager, topic: str, *entries: tuple[bytes, bytes | None]) -> None:
    """Appends records as another process does."""
    with managed(manager.filesystem) as other:  # type: ignore[arg-type]
        append_entries(other.open_log(topic, 0), list(entries), NOW_MS)


def transact(manager: LogManager, transactional_id: str) -> Any:
    """Commits a transaction without records."""
    with TransactionCoordinator.open(manager, transactional_id) as coordinator:
        coordinator.commit(coordinator.begin([PLACE]), [])
    return TransactionStates(manager).newest(transactional_id)


# --- keys


@keys
@pytest.mark.parametrize("is_read", [True, False], ids=["read before", "read first"])
def test_a_key_that_cannot_be_read_stops_no_transaction(
    manager: LogManager, caplog: pytest.LogCaptureFixture, key: bytes, is_read: bool
) -> None:
    states = TransactionStates(manager)
    before = transact(manager, "before")
    if is_read:
        assert dict(states.all()) == {"before": before}
    end = manager.open_reader(TRANSACTION_STATE_TOPIC, 0).log_end_offset
    write(manager, TRANSACTION_STATE_TOPIC, (key, b"x"), (TransactionLogKey("gone").encode(), None))
    with managed(manager.filesystem) as other:  # type: ignore[arg-type]
        assert transact(other, "after").transaction_status is TransactionState.COMPLETE_COMMIT
    assert transact(manager, "before").producer_epoch == before.producer_epoch + 2
    assert sorted(dict(states.all())) == ["after", "before"]
    assert f"/logs/{TRANSACTION_STATE_TOPIC}-0: offset {end}: the key" in caplog.text


@keys
def test_a_key_that_cannot_be_read_stops_no_group(
    manager: LogManager, caplog: pytest.LogCaptureFixture, key: bytes
) -> None:
    offsets, coordinated = GroupOffsets(manager), CoordinatedGroups(manager)
    offsets.commit("g", {PLACE: CommittedOffset(7)})
    end = manager.open_reader(GROUP_METADATA_TOPIC, 0).log_end_offset
    write(manager, GROUP_METADATA_TOPIC, (key, b"x"))
    offsets.commit("h", {PLACE: CommittedOffset(8)})
    for each in (offsets, GroupOffsets(managed(manager.filesystem))):  # type: ignore[arg-type]
        assert {name: found[PLACE].offset for name, found in each.groups().items()} == {"g": 7, "h": 8}
    assert len(coordinated.contents()) == 2
    assert f"/logs/{GROUP_METADATA_TOPIC}-0: offset {end}: the key" in caplog.text


def test_records_that_cannot_be_read_are_named_and_counted(manager: LogManager) -> None:
    write(manager, TRANSACTION_STATE_TOPIC, (b"", b"x"), (TransactionLogKey("bad").encode(), b"x"), (b"\0\x30", b"x"))
    states = TransactionStates(manager)
    assert dict(states.all()) == {}
    assert sorted(str(each).partition(": the ")[0] for each in states.unreadable()) == [
        f"/logs/{TRANSACTION_STATE_TOPIC}-0: offset {offset}" for offset in (0, 1)
    ]  # that of a later release is sound


def test_many_records_without_a_key_take_bounded_memory(manager: LogManager) -> None:
    write(manager, GROUP_METADATA_TOPIC, *((b"\xff\xff%d" % number, b"x") for number in range(300)))
    offsets = GroupOffsets(manager)
    assert offsets.groups() == {}
    assert len(offsets.unreadable()) == compacted_values.NAMELESS_MAX


# --- values


@values
def test_a_state_that_cannot_be_read_stops_its_transactional_id_only(
    manager: LogManager, caplog: pytest.LogCaptureFixture, value: bytes
) -> None:
    before = transact(manager, "bad")
    write(manager, TRANSACTION_STATE_TOPIC, (TransactionLogKey("bad").encode(), value))
    for _ in range(2):
        with pytest.raises(InvalidRecordError, match=r"transactional_id='bad'.* cannot be read"):
            transact(manager, "bad")
    states = TransactionStates(manager)
    with pytest.raises(InvalidRecordError):
        states.newest("bad")
    with pytest.raises(InvalidRecordError):  # and is not overwritten as if it had no state
        states.replace("bad", None, before)
    assert transact(manager, "good").transaction_status is TransactionState.COMPLETE_COMMIT
    assert "bad" not in dict(states.all())
    assert "TransactionLogKey(transactional_id='bad') cannot be read" in caplog.text


@values
def test_an_offset_that_cannot_be_read_is_no_missing_offset(manager: LogManager, value: bytes) -> None:
    offsets, coordinated = GroupOffsets(manager), CoordinatedGroups(manager)
    for name in ("bad", "good"):
        offsets.commit(name, {PLACE: CommittedOffset(7)})
    write(manager, GROUP_METADATA_TOPIC, (OffsetCommitKey("bad", *PLACE).encode(), value))
    for ask in (offsets.fetch, offsets.fetch_to_commit, lambda name: coordinated.offsets(name, [PLACE])):
        with pytest.raises(InvalidRecordError, match="group='bad'"):
            ask("bad")
        assert ask("good")[PLACE].offset == 7
    assert sorted(offsets.groups()) == ["good"]


def test_a_newer_record_of_the_key_ends_it(manager: LogManager) -> None:
    offsets = GroupOffsets(manager)
    write(
        manager,
        GROUP_METADATA_TOPIC,
        (OffsetCommitKey("g", *PLACE).encode(), b""),
        (GroupMetadataKey("h").encode(), b""),
    )
    assert len(offsets.unreadable()) == 0  # not read yet
    assert offsets.groups() == {}
    assert len(offsets.unreadable()) == 2
    offsets.commit("g", {PLACE: CommittedOffset(9)})
    write(manager, GROUP_METADATA_TOPIC, (GroupMetadataKey("h").encode(), None))
    assert offsets.fetch("g")[PLACE].offset == 9
    assert offsets.fetch("h") == {}
    assert offsets.unreadable() == []


def test_a_value_that_cannot_be_read_is_passed_over_if_a_newer_one_follows(manager: LogManager) -> None:
    value = OffsetCommitValue(5, "", NOW_MS).encode()
    key = OffsetCommitKey("g", *PLACE).encode()
    write(manager, GROUP_METADATA_TOPIC, (key, b""), (key, value))
    assert GroupOffsets(manager).fetch("g")[PLACE].offset == 5


def test_a_record_of_the_newer_protocols_that_cannot_be_read_hides_no_offset(manager: LogManager) -> None:
    offsets = GroupOffsets(manager)
    offsets.commit("g", {PLACE: CommittedOffset(7)})
    write(manager, GROUP_METADATA_TOPIC, (GroupRecordKey(Kind.CONSUMER_MEMBER, "g", "m").encode(), b"?"))
    assert offsets.fetch("g")[PLACE].offset == 7
