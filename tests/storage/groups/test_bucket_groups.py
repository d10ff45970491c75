"""The records of groups on an object store, as a coordinator writes and reads them beside other processes."""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType

import pytest

from pyspark_commitlog.storage.bucket.clients.transactions import ClientTransactions
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.commits.commit import GroupOffset, OffsetsChange
from pyspark_commitlog.storage.bucket.files.filesystem import BucketFileSystem
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import InvalidTxnStateError, OffsetOutOfRangeError, OutcomeUnknownError
from pyspark_commitlog.storage.format.files.file_names import TopicPartition
from pyspark_commitlog.storage.format.internal.internal_topics import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from pyspark_commitlog.storage.groups.bucket_groups import BucketGroups
from pyspark_commitlog.storage.groups.coordinator_port import GroupChange, GroupFence, TransactionalOffsets
from pyspark_commitlog.storage.groups.offsets import GroupOffsets
from pyspark_commitlog.storage.recovery.producer_state import Producer
from tests.support.logs.transactions import write_transactional
from tests.support.stores.filling import make_topic
from tests.support.stores.served import ServedStores


class RefusedError(Exception):
    """What a check raises."""


URL = "s3://memory/logs"
T0, T1 = TopicPartition("t-x", 0), TopicPartition("t-x", 1)
KEY, MEMBERS = OffsetCommitKey("g", *T0), GroupMetadataKey("g")


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> CommitLog:
    """The log as another process has it open."""
    log = ServedStores(monkeypatch).create(URL)
    make_topic(log, "t-x", 2)
    return log


@pytest.fixture
def groups(other: CommitLog) -> Iterator[BucketGroups]:
    manager = LogManager.open(URL)
    assert manager.bucket is not None
    groups = BucketGroups(manager, ClientTransactions(manager.bucket))
    yield groups
    groups.close()


def value(offset: int, metadata: str = "") -> OffsetCommitValue:
    return OffsetCommitValue(offset, metadata, 5)


def members() -> GroupMetadataValue:
    return GroupMetadataValue("consumer", 1, "range", "m", 0, ())


def kept(log: CommitLog) -> dict[str, dict[str, GroupOffset]]:
    return log.catch_up().groups


def test_offsets_of_several_groups_are_one_commit_and_members_none(groups: BucketGroups, other: CommitLog) -> None:
    before = other.catch_up().number
    second = OffsetCommitKey("h", *T1)
    changes = [GroupFence(MEMBERS, None), GroupChange(KEY, value(3, "m"))]
    assert groups.write([changes, [GroupChange(second, value(4))]]) == [None, None]
    assert kept(other) == {"g": {"t-x-0": GroupOffset(3, "m")}, "h": {"t-x-1": GroupOffset(4, "")}}
    assert groups.write([[GroupChange(MEMBERS, members())]]) == [None]
    assert other.catch_up().number == before + 1
    assert groups.records("g").keys() == {KEY, MEMBERS}
    assert groups.contents().keys() == {KEY, MEMBERS, second}
    assert groups.undecided("g") == set()


def test_offsets_that_others_commit_are_read(groups: BucketGroups, other: CommitLog) -> None:
    other.catch_up()
    other.commit(lambda _: OffsetsChange({"g": {"t-x-0": GroupOffset(7, "n")}}))
    found = groups.offsets("g", [T0, T1])
    assert {each: (one.offset, one.metadata) for each, one in found.items()} == {T0: (7, "n")}


def test_an_offset_that_others_changed_is_not_deleted(groups: BucketGroups, other: CommitLog) -> None:
    groups.write([[GroupChange(KEY, value(3))]])
    other.catch_up()
    other.commit(lambda _: OffsetsChange({"g": {"t-x-0": GroupOffset(9, "")}}))
    groups.write([[GroupChange(KEY, None, only_if=value(3))]])
    assert kept(other) == {"g": {"t-x-0": GroupOffset(9, "")}}
    groups.write([[GroupChange(KEY, None, only_if=value(9))]])
    assert kept(other) == {}


def test_what_is_not_there_is_deleted_without_a_commit(groups: BucketGroups, other: CommitLog) -> None:
    before = other.catch_up().number
    assert groups.write([[GroupChange(KEY, None)]]) == [None]
    assert other.catch_up().number == before


def test_what_no_commit_can_have_is_refused_alone(groups: BucketGroups, other: CommitLog) -> None:
    found = groups.write([[GroupChange(KEY, value(-1))], [GroupChange(OffsetCommitKey("h", *T1), value(1))]])
    assert isinstance(found[0], OffsetOutOfRangeError)
    assert found[1] is None
    assert kept(other).keys() == {"h"}


def test_offsets_of_a_transaction_count_once_it_is_committed(groups: BucketGroups, other: CommitLog) -> None:
    producer = Producer(1, 0)
    with pytest.raises(InvalidTxnStateError):
        write_transactional(groups, "g", {T0: value(1)}, producer, lambda: None)
    groups._transactions.begin("x", producer, 60_000)
    with pytest.raises(OffsetOutOfRangeError):
        write_transactional(groups, "g", {T0: value(-1)}, producer, lambda: None)
    write_transactional(groups, "g", {T0: value(1)}, producer, lambda: None)
    assert groups.undecided("g") == another(other).undecided("g") == {T0}
    assert kept(other) == {}
    groups._transactions.end([(producer.id, True)])
    assert groups.undecided("g") == another(other).undecided("g") == set()
    assert kept(other) == {"g": {"t-x-0": GroupOffset(1, "")}}


def test_offsets_of_several_transactions_are_one_commit_and_a_refused_one_keeps_no_other_back(
    groups: BucketGroups, other: CommitLog
) -> None:
    def ended() -> None:
        raise RefusedError

    producers = [Producer(number, 0) for number in range(1, 6)]
    for each in producers:
        groups._transactions.begin(f"x{each.id}", each, 60_000)
    groups._transactions.begin("x5", Producer(9, 0), 60_000)
    writes = [TransactionalOffsets(f"g{each.id}", {T0: value(each.id)}, each, lambda: None) for each in producers]
    writes[1] = writes[1]._replace(check=ended)
    writes[2] = writes[2]._replace(offsets={T0: value(-1)})
    before = other.catch_up().number
    errors = groups.write_transactional([*writes, writes[0]._replace(offsets={T0: value(7), T1: value(8)})])
    assert [type(each) for each in errors] == [
        NoneType,
        RefusedError,
        OffsetOutOfRangeError,
        NoneType,
        InvalidTxnStateError,
        NoneType,
    ]
    assert other.catch_up().number == before + 1
    groups._transactions.end([(each.id, True) for each in producers[:4]])
    seven, eight, four = (GroupOffset(number, "") for number in (7, 8, 4))
    assert kept(other) == {"g1": {"t-x-0": seven, "t-x-1": eight}, "g4": {"t-x-0": four}}


def test_a_store_that_fails_is_the_error_of_all_transactional_offsets_of_a_commit(
    groups: BucketGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OutcomeUnknownError("the store did not answer")

    producers = [Producer(1, 0), Producer(2, 0)]
    for each in producers:
        groups._transactions.begin(f"x{each.id}", each, 60_000)
    writes = [TransactionalOffsets("g", {T0: value(1)}, each, lambda: None) for each in producers]
    monkeypatch.setattr(CommitLog, "commit", fail)
    assert [type(each) for each in groups.write_transactional(writes)] == [OutcomeUnknownError] * 2


def another(log: CommitLog) -> BucketGroups:
    """The records as another gateway has them."""
    return BucketGroups(LogManager.open(URL, filesystem=BucketFileSystem(log)), ClientTransactions(log))


@pytest.mark.parametrize("delete", ["gateway", "command"])
def test_a_deletion_also_deletes_what_open_transactions_have(
    groups: BucketGroups, other: CommitLog, delete: str
) -> None:
    producer = Producer(1, 0)
    groups._transactions.begin("x", producer, 60_000)
    write_transactional(groups, "g", {T0: value(1), T1: value(1)}, producer, lambda: None)
    if delete == "gateway":
        assert groups.write([[GroupChange(KEY, None)]]) == [None]
    else:
        GroupOffsets(LogManager.open(URL)).delete("g", [T0])
    groups._transactions.end([(producer.id, True)])
    assert kept(other) == {"g": {"t-x-1": GroupOffset(1, "")}}


def test_a_group_that_is_deleted_does_not_come_back_with_a_transaction(groups: BucketGroups, other: CommitLog) -> None:
    groups.write([[GroupChange(KEY, value(3))]])
    producer = Producer(1, 0)
    groups._transactions.begin("x", producer, 60_000)
    write_transactional(groups, "g", {T1: value(1)}, producer, lambda: None)
    GroupOffsets(LogManager.open(URL)).delete("g")
    groups._transactions.end([(producer.id, True)])
    assert kept(other) == {}


def test_a_commit_that_fails_is_the_error_of_offsets_and_not_of_members(
    groups: BucketGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OutcomeUnknownError("the store did not answer")

    monkeypatch.setattr(CommitLog, "commit", fail)
    found = groups.write([[GroupChange(KEY, value(1))], [GroupChange(MEMBERS, members())]])
    assert isinstance(found[0], OutcomeUnknownError)
    assert found[1] is None
    assert groups.records("g").keys() == {MEMBERS}
