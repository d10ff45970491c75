"""Groups whose partition of ``__consumer_offsets`` could not be read when the coordinator loaded it."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.gateway.cluster.homes import Homes
from pyspark_commitlog.gateway.consumer_groups.group import ConsumerGroup
from pyspark_commitlog.gateway.groups import coordinator
from pyspark_commitlog.gateway.groups.consumers import READ_AGAIN_MS
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.storage import (
    GROUP_METADATA_TOPIC,
    BucketGroups,
    ClientTransactions,
    CorruptRecordError,
    LockHeldError,
    LogDirLockedError,
    LogManager,
    StorageError,
    positive_hash,
)
from pyspark_commitlog.storage.groups.coordinator_logs import CoordinatorLogs
from tests.support.disk.faulty_filesystem import FaultyFileSystem, Rule, fail
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.gateway import WireClient, create_topic, serving
from tests.support.groups import Bench, G
from tests.support.stores.filling import make_topic
from tests.support.stores.served import ServedStores
from tests.support.waiting import soon

LOADING = ErrorCode.coordinator_load_in_progress
RECORDS = f"*/{GROUP_METADATA_TOPIC}-{{}}/*.log"
NAMES = {home: next(f"n{i}" for i in range(100) if positive_hash(f"n{i}") % 2 == home) for home in (0, 1)}
URL = "s3://memory/logs"


def reading(partition: int = 0, **fields: Any) -> Rule:
    """An error of the disk when the records of a partition are read."""
    return fail("open", RECORDS.format(partition), error=errno.EIO, **fields)


def loading(disk: MemoryFileSystem, *rules: Rule, **settings: Any) -> Bench:
    """A coordinator that loads what is on a disk, which fails as ``rules`` say once the log is open."""
    faulty = FaultyFileSystem(disk)
    bench = Bench(faulty, **settings).topics(t=1)
    faulty.rules += rules
    return bench.started()


def a_classic_group(bench: Bench) -> Callable[[Bench], ErrorCode | None]:
    (member,) = bench.stable("a")
    assert bench.commit(5, member) is ErrorCode.none
    return lambda after: after.heartbeat(member)


def a_group_of_kafka_4(bench: Bench) -> Callable[[Bench], ErrorCode | None]:
    entered = bench.enter("a", "t")
    assert entered.error is ErrorCode.none
    assert bench.commit(5, generation=entered.epoch, member_id="a") is ErrorCode.none

    def heartbeat(after: Bench) -> ErrorCode | None:
        result = after.beat("a", entered.epoch)
        return None if result is None else result.error

    return heartbeat


Make = Callable[[Bench], Callable[[Bench], ErrorCode | None]]
KINDS = pytest.mark.parametrize("make", [a_classic_group, a_group_of_kafka_4])


def deleted(bench: Bench, group: str = G) -> ErrorCode:
    found: list[ErrorCode] = []
    bench.coordinator.delete(group, found.append)
    return found[0]


def listed(bench: Bench) -> ErrorCode | list[str]:
    found: list[Any] = []
    bench.coordinator.list(lambda error, groups: found.append(error or [each.name for each in groups]))
    return found[0]  # type: ignore[no-any-return]


@KINDS
def test_after_one_error_of_the_disk_a_group_is_loading_and_is_then_as_it_was(make: Make) -> None:
    old = Bench().topics(t=1).started()
    heartbeat = make(old)
    rule = reading()
    bench = loading(old.disk, rule)
    assert rule.struck == 1
    for _ in range(2):  # a request does not end it
        assert bench.commit(9) is LOADING
        assert deleted(bench) is LOADING
        assert bench.fetched() is LOADING
        assert listed(bench) is LOADING
    is_accepted = make is a_classic_group  # as in Kafka: its members keep their sessions
    assert heartbeat(bench) is (ErrorCode.none if is_accepted else LOADING)
    bench.home.advance(READ_AGAIN_MS)
    assert bench.commit(9) is ErrorCode.unknown_member_id
    assert deleted(bench) is ErrorCode.non_empty_group
    assert bench.fetched() == 5
    assert listed(bench) == [G]
    assert heartbeat(bench) is ErrorCode.none


def two_partitions() -> MemoryFileSystem:
    """A disk with a group of Kafka 4 in each of two partitions."""
    disk = MemoryFileSystem()
    with LogManager.open("/logs", create=True, filesystem=disk) as manager:
        manager.create_topic(GROUP_METADATA_TOPIC, partitions=2)
    bench = Bench(disk, homes=Homes(lambda: 2)).topics(t=1).started()
    for name in NAMES.values():
        epoch = bench.enter(name, "t", group=name).epoch
        assert bench.commit(5, group=name, generation=epoch, member_id=name) is ErrorCode.none
    return disk


def test_groups_in_other_partitions_are_served_at_once() -> None:
    bench = loading(two_partitions(), reading(0), homes=Homes(lambda: 2))
    assert bench.commit(9, group=NAMES[0]) is LOADING
    assert bench.commit(9, group=NAMES[1]) is ErrorCode.unknown_member_id
    assert deleted(bench, NAMES[1]) is ErrorCode.non_empty_group
    assert listed(bench) is LOADING
    bench.home.advance(READ_AGAIN_MS)
    assert bench.commit(9, group=NAMES[0]) is ErrorCode.unknown_member_id
    assert listed(bench) == sorted(NAMES.values())


def test_groups_that_stay_unreadable_do_not_hide_the_others() -> None:
    bench = loading(two_partitions(), reading(0, lasting=True), homes=Homes(lambda: 2))
    assert listed(bench) is LOADING
    bench.home.advance(READ_AGAIN_MS)
    assert listed(bench) == [NAMES[1]]
    assert bench.commit(9, group=NAMES[0]) is LOADING
    assert deleted(bench, NAMES[0]) is LOADING


def test_a_mistake_of_ours_in_one_partition_leaves_the_other_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = two_partitions()
    with monkeypatch.context() as patched:
        patched.setattr(ConsumerGroup, "restored", lambda *_: 1 / 0)
        bench = loading(disk, reading(0), homes=Homes(lambda: 2))
    assert deleted(bench, NAMES[0]) is LOADING
    bench.home.advance(READ_AGAIN_MS)
    assert deleted(bench, NAMES[0]) is ErrorCode.non_empty_group


def test_offsets_in_a_deleted_topic_that_could_not_be_read_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    bench = loading(two_partitions(), reading(0, lasting=True), homes=Homes(lambda: 2))
    bench.coordinator.offsets.delete_topics({"t"})
    assert bench.fetched(NAMES[1]) is None
    assert [each.getMessage() for each in caplog.records if "were not deleted" in each.getMessage()] == [
        "offsets of some groups were not deleted: /logs/__consumer_offsets-0/00000000000000000000.log: "
        "open: Input/output error"
    ]


def test_a_lasting_error_is_met_once_per_interval_and_by_no_request() -> None:
    old = Bench().started()
    a_classic_group(old)
    rule = reading(lasting=True)
    bench = loading(old.disk, rule)
    timers = bench.home.timers
    for attempt in range(1, 5):
        assert rule.struck == attempt
        assert bench.commit(9) is LOADING
        bench.coordinator.reassign()  # leadership of other partitions changed
        bench.home.advance(READ_AGAIN_MS - 1)
        assert rule.struck == attempt
        bench.home.advance(1)
    assert bench.home.timers == timers
    bench.coordinator.stop()
    bench.home.advance(2 * READ_AGAIN_MS)
    assert rule.struck == 5


def test_a_partition_that_moves_away_before_it_is_read_again_is_left_alone() -> None:
    old, leads = Bench().started(), [True]
    a_classic_group(old)
    rule = reading(lasting=True)
    bench = loading(old.disk, rule, homes=Homes(leads=lambda _: leads[0]))
    leads[0] = False
    bench.coordinator.reassign()
    bench.home.advance(READ_AGAIN_MS)
    assert rule.struck == 1
    assert bench.commit(9) is ErrorCode.not_coordinator
    leads[0], rule.lasting = True, False
    bench.coordinator.reassign()
    assert bench.commit(9) is ErrorCode.unknown_member_id


def test_a_group_that_another_coordinator_stored_is_loading_until_it_can_be_read_again() -> None:
    disk = MemoryFileSystem()
    faulty = FaultyFileSystem(disk)
    old = Bench(faulty).started()
    (member,) = old.stable("a")
    new = Bench(disk).started()
    rejoined = new.join("a", member.member_id, protocols=(("range", b"more"),))
    assert rejoined is not None
    new.sync("a", rejoined, {member.member_id: b"all"})
    rule = fail("list", "/logs")
    faulty.rules.append(rule)
    assert old.commit(3, member) is ErrorCode.not_coordinator
    assert rule.struck == 1
    assert deleted(old) is LOADING
    old.home.advance(READ_AGAIN_MS)
    assert deleted(old) is ErrorCode.non_empty_group


def failing_once(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """The first read of a partition fails."""
    errors, read = [error], CoordinatorLogs.current_to_write

    def current(logs: CoordinatorLogs[Any, Any], partition: int) -> Mapping[Any, Any]:
        if errors:
            raise errors.pop()
        return read(logs, partition)

    monkeypatch.setattr(CoordinatorLogs, "current_to_write", current)


@pytest.mark.parametrize(
    "error", [StorageError("x"), LockHeldError("x"), LogDirLockedError("x"), OSError(errno.EMFILE, "x")]
)
def test_errors_that_may_pass(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Bench().started()
    a_classic_group(old)
    failing_once(monkeypatch, error)
    bench = Bench(old.disk).started()
    assert deleted(bench) is LOADING
    bench.home.advance(READ_AGAIN_MS)
    assert deleted(bench) is ErrorCode.non_empty_group


def test_damage_does_not_keep_groups_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    old = Bench().started()
    a_classic_group(old)
    failing_once(monkeypatch, CorruptRecordError("x"))
    bench = Bench(old.disk).started()
    joined = bench.join("b", group="other")
    assert joined is None
    bench.home.advance(0)
    assert bench.answers["b"].error is ErrorCode.none


def test_groups_on_an_object_store_that_does_not_answer_once(monkeypatch: pytest.MonkeyPatch) -> None:
    make_topic(ServedStores(monkeypatch).create(URL), "t", 1)
    leads = [True]
    bench = Bench(homes=Homes(leads=lambda _: leads[0])).topics(t=1)
    with LogManager.open(URL, clock=bench.clock) as manager:
        assert manager.bucket is not None
        bench.disk_thread.opened = BucketGroups(manager, ClientTransactions(manager.bucket))  # type: ignore[assignment]
        bench.started()
        heartbeat = a_group_of_kafka_4(bench)
        leads[0] = False
        bench.coordinator.reassign()
        leads[0] = True
        with monkeypatch.context() as patched:
            patched.setattr(type(manager.bucket), "catch_up", _unanswered)
            bench.coordinator.reassign()
        assert deleted(bench) is LOADING
        bench.home.advance(READ_AGAIN_MS)
        assert deleted(bench) is ErrorCode.non_empty_group
        assert heartbeat(bench) is ErrorCode.none


def _unanswered(log: object) -> None:
    raise StorageError("no answer")


def test_a_gateway_reads_again_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "READ_AGAIN_MS", 100)
    with serving(tmp_path / "log", offsets_topic_num_partitions=1) as gateway, WireClient(gateway) as client:
        create_topic(client, "t")
        joining: Any = {"group_id": G, "member_id": "m", "member_epoch": 0, "rebalance_timeout": 60_000}
        joining |= {"subscribed_topic_names": ["t"], "topic_partitions": []}
        assert not client.ask(68, 0, **joining).error_code
    failing_once(monkeypatch, StorageError("x"))
    with serving(tmp_path / "log") as gateway, WireClient(gateway) as client:
        answers = [LOADING]

        def is_answered() -> bool:
            answers.append(ErrorCode(client.ask(42, 2, groups_names=[G]).results[0].error_code))
            return answers[-1] is not LOADING

        soon(is_answered)
        assert answers[-1] is ErrorCode.non_empty_group
