"""Requests that name much, or one thing often: bounded, answered in order, and nobody else waits for them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from threading import Event
from typing import Any

import pytest

from pyspark_commitlog.gateway.handlers.access.asking import parted
from pyspark_commitlog.gateway.server import ENTRIES_HERE, Gateway
from tests.support.gateway import WireClient, create_topic, fetch_fields, serving

POLICY_VIOLATION, UNKNOWN_TOPIC = 44, 3
ENTRIES_MAX, ANSWER_BYTES, GROUPS = 3_000, 90_000, 30
NAMES = [f"n-{number}" for number in range(ENTRIES_HERE + 1)]
OFFSET = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": "m" * 4000}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    limits = {"commitlog_request_max_entries": ENTRIES_MAX, "commitlog_answer_max_bytes": ANSWER_BYTES}
    with serving(tmp_path_factory.mktemp("large") / "log", queued_max_requests=2, **limits) as started:
        with WireClient(started) as client:
            create_topic(client, "t", 2)
            for group in ("g", "h", *(f"g-{number}" for number in range(GROUPS))):
                commit(client, group)
        yield started


def commit(client: WireClient, group: str) -> None:
    topics = [{"name": "t", "partitions": [OFFSET]}]
    for _ in range(50):
        answer = client.ask(8, 7, group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics)
        if not answer.topics[0].partitions[0].error_code:
            return
    raise AssertionError(answer)


def topics(names: Sequence[str], **partition: int) -> list[dict[str, Any]]:
    return [{"name": name, "partitions": [{"partition_index": 0, **partition}]} for name in names]


@pytest.fixture
def stopped(gateway: Gateway) -> Iterator[Event]:
    """The threads for large requests do nothing until the event is set."""
    go_on = Event()
    for _ in range(8):
        gateway.context.large.submit(go_on.wait, 30)
    yield go_on
    go_on.set()


LARGE: list[tuple[str, int, int, dict[str, Any], Callable[[Any], int]]] = [
    (
        "Metadata",
        3,
        9,
        {"topics": [{"name": name} for name in NAMES], "allow_auto_topic_creation": False},
        lambda answer: len(answer.topics),
    ),
    (
        "ListOffsets",
        2,
        7,
        {"replica_id": -1, "isolation_level": 0, "topics": topics(NAMES, timestamp=-1)},
        lambda answer: len(answer.topics),
    ),
    (
        "OffsetForLeaderEpoch",
        23,
        4,
        {"replica_id": -1, "topics": [{"topic": name, "partitions": [{"partition": 0}]} for name in NAMES]},
        lambda answer: len(answer.topics),
    ),
    (
        "FindCoordinator",
        10,
        4,
        {"key_type": 0, "coordinator_keys": tuple(NAMES)},
        lambda answer: len(answer.coordinators),
    ),
    ("DescribeGroups", 15, 5, {"groups": tuple(NAMES)}, lambda answer: len(answer.groups)),
    ("DeleteGroups", 42, 2, {"groups_names": tuple(NAMES)}, lambda answer: len(answer.results)),
    (
        "OffsetFetch",
        9,
        8,
        {"groups": [{"group_id": "g", "topics": [{"name": name, "partition_indexes": (0,)} for name in NAMES]}]},
        lambda answer: len(answer.groups[0].topics),
    ),
    ("DescribeTransactions", 65, 0, {"transactional_ids": tuple(NAMES)}, lambda answer: len(answer.transaction_states)),
    (
        "DescribeProducers",
        61,
        0,
        {"topics": [{"name": name, "partition_indexes": (0,)} for name in NAMES[:900]]},
        lambda answer: 101 + len(answer.topics),
    ),
]


@pytest.mark.parametrize(
    ("key", "version", "fields", "count"), [each[1:] for each in LARGE], ids=[each[0] for each in LARGE]
)
def test_a_large_request_is_served_aside_and_before_what_its_connection_sends_next(
    gateway: Gateway, stopped: Event, key: int, version: int, fields: dict[str, Any], count: Callable[[Any], int]
) -> None:
    with WireClient(gateway) as hostile, WireClient(gateway) as other:
        sent = hostile.send(key, version, **fields)
        after = hostile.send(18, 2)
        assert other.ask(18, 2).error_code == 0  # while the large one has not begun
        stopped.set()
        assert count(hostile.answer(key, version, sent)) == len(NAMES)
        assert hostile.answer(18, 2, after).error_code == 0


def test_a_fetch_of_many_partitions_is_read_aside(gateway: Gateway) -> None:
    one = fetch_fields("t", 0)["topics"][0]["partitions"][0]
    asked = [{"topic": name, "partitions": [one]} for name in NAMES]
    with WireClient(gateway) as client:
        answer = client.ask(1, 12, **{**fetch_fields("t", 0), "topics": asked})
        assert {each.partitions[0].error_code for each in answer.responses} == {UNKNOWN_TOPIC}
        assert len(answer.responses) == len(NAMES)


def test_a_produce_of_many_partitions_is_checked_aside(gateway: Gateway) -> None:
    data = [{"name": name, "partition_data": [{"index": 0, "records": None}]} for name in NAMES]
    with WireClient(gateway) as client:
        answer = client.ask(0, 9, acks=-1, timeout=1000, topic_data=data)
        assert {each.partition_responses[0].error_code for each in answer.responses} == {UNKNOWN_TOPIC}


MANY = [f"n-{number}" for number in range(ENTRIES_MAX + 1)]


@pytest.mark.parametrize(
    ("key", "version", "fields"),
    [
        (3, 1, {"topics": [{"name": name} for name in MANY]}),
        (3, 9, {"topics": [{"name": name} for name in MANY]}),
        (15, 0, {"groups": tuple(MANY)}),
        (15, 5, {"groups": tuple(MANY)}),
        (9, 7, {"group_id": "g", "topics": [{"name": "t", "partition_indexes": tuple(range(len(MANY)))}]}),
        (
            11,
            5,
            {
                "group_id": "g",
                "member_id": "",
                "group_instance_id": None,
                "protocols": [{"name": name, "metadata": b""} for name in MANY],
            },
        ),
        (0, 9, {"acks": -1, "topic_data": [{"name": name, "partition_data": []} for name in MANY]}),
        (1, 12, {**fetch_fields("t", 0), "topics": [{"topic": name, "partitions": []} for name in MANY]}),
    ],
)
def test_a_request_with_too_many_entries_closes_its_connection(
    gateway: Gateway, key: int, version: int, fields: dict[str, Any]
) -> None:
    with WireClient(gateway) as hostile, WireClient(gateway) as other:
        hostile.send(key, version, **fields)
        assert hostile.is_closed()
        assert other.ask(18, 2).error_code == 0


@pytest.mark.parametrize("tags_at", ["header", "body"])
def test_a_request_with_too_many_tagged_fields_closes_its_connection(gateway: Gateway, tags_at: str) -> None:
    count = ENTRIES_MAX + 1
    tags = struct.pack(">BB", count & 0x7F | 0x80, count >> 7) + b"\1\0" * count
    head = struct.pack(">hhih", 60, 0, 1, 0)
    frame = head + (tags if tags_at == "header" else b"\0") + b"\0" + (tags if tags_at == "body" else b"\0")
    with WireClient(gateway) as hostile:
        hostile.send_frame(frame)
        assert hostile.is_closed()


def twice(item: Any) -> tuple[Any, Any]:
    return item, item


NAMED_TWICE: list[tuple[str, int, int, dict[str, Any], Callable[[Any], Sequence[Any]]]] = [
    ("OffsetFetch, a group", 9, 8, {"groups": twice({"group_id": "g", "topics": None})}, lambda a: a.groups),
    (
        "OffsetFetch, a partition",
        9,
        8,
        {"groups": [{"group_id": "g", "topics": twice({"name": "t", "partition_indexes": (0, 0)})}]},
        lambda a: a.groups[0].topics[0].partitions,
    ),
    (
        "OffsetFetch before 8, a partition",
        9,
        5,
        {"group_id": "g", "topics": twice({"name": "t", "partition_indexes": (0, 0)})},
        lambda a: a.topics[0].partitions,
    ),
    ("DescribeGroups", 15, 5, {"groups": ("g", "g")}, lambda a: a.groups),
    ("DeleteGroups", 42, 2, {"groups_names": ("none", "none")}, lambda a: a.results),
    ("FindCoordinator", 10, 4, {"key_type": 0, "coordinator_keys": ("g", "g")}, lambda a: a.coordinators),
    ("DescribeTransactions", 65, 0, {"transactional_ids": ("x", "x")}, lambda a: a.transaction_states),
    (
        "DescribeProducers",
        61,
        0,
        {"topics": twice({"name": "t", "partition_indexes": (0, 0)})},
        lambda a: a.topics[0].partitions,
    ),
    (
        "DescribeConfigs",
        32,
        4,
        {
            "resources": twice(
                {"resource_type": 2, "resource_name": "t", "configuration_keys": ("flush.ms", "flush.ms")}
            )
        },
        lambda a: a.results,
    ),
    ("DescribeLogDirs", 35, 4, {"topics": twice({"topic": "t", "partitions": (0, 0)})}, lambda a: a.results[0].topics),
    ("Metadata", 3, 9, {"topics": twice({"name": "t"})}, lambda a: a.topics),
    (
        "ListOffsets 0",
        2,
        0,
        {
            "replica_id": -1,
            "topics": twice(
                {"name": "t", "partitions": twice({"partition_index": 0, "timestamp": -1, "max_num_offsets": 9})}
            ),
        },
        lambda a: a.topics[0].partitions,
    ),
    (
        "DeleteRecords",
        21,
        2,
        {"topics": twice({"name": "t", "partitions": twice({"partition_index": 0, "offset": 0})})},
        lambda a: a.topics[0].partitions,
    ),
]


@pytest.mark.parametrize(
    ("key", "version", "fields", "items"), [each[1:] for each in NAMED_TWICE], ids=[each[0] for each in NAMED_TWICE]
)
def test_what_is_named_twice_is_answered_once(
    gateway: Gateway, key: int, version: int, fields: dict[str, Any], items: Callable[[Any], Sequence[Any]]
) -> None:
    with WireClient(gateway) as client:
        assert len(items(client.ask(key, version, **fields))) == 1


def test_a_group_that_is_named_with_different_topics_is_answered_with_all_of_them(gateway: Gateway) -> None:
    asked = [{"group_id": "g", "topics": [{"name": name, "partition_indexes": (0,)}]} for name in ("t", "u")]
    with WireClient(gateway) as client:
        [group] = client.ask(9, 8, groups=asked, require_stable=False).groups
    assert [each.name for each in group.topics] == ["t", "u"]


def test_an_answer_that_would_be_too_large_is_refused_where_it_becomes_so(gateway: Gateway) -> None:
    groups = [{"group_id": f"g-{number}", "topics": None} for number in range(GROUPS)]
    fits = ANSWER_BYTES // 4020
    with WireClient(gateway) as client:
        codes = [each.error_code for each in client.ask(9, 8, groups=groups, require_stable=False).groups]
        assert codes == [0] * fits + [POLICY_VIOLATION] * (GROUPS - fits)
        node = {"resource_type": 2, "resource_name": "t", "configuration_keys": None}
        described = client.ask(32, 4, resources=[node], include_documentation=True, include_synonyms=True).results
        assert not described[0].error_code


@pytest.mark.parametrize(("key", "version", "is_answered"), [(60, 0, True), (3, 5, False)])
def test_an_answer_that_is_too_large_once_it_is_written_is_an_error_or_closes_the_connection(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, key: int, version: int, is_answered: bool
) -> None:
    monkeypatch.setattr(gateway.context, "cluster_id", "c" * (ANSWER_BYTES + 1))
    for _ in range(4):  # more than there are places
        with WireClient(gateway) as client:
            sent = client.send(key, version)
            if is_answered:
                assert client.answer(key, version, sent).error_code == POLICY_VIOLATION
            else:
                assert client.is_closed()


def _wait(event: Event) -> None:
    event.wait(30)


def test_producers_do_not_wait_for_administrators(gateway: Gateway) -> None:
    go_on = Event()
    for worker in (gateway.context.workers.admin, gateway.context.workers.configs, gateway.context.workers.creations):
        worker.run(partial(_wait, go_on))
    try:
        with WireClient(gateway) as client:
            assert client.ask(22, 4, transactional_id=None, producer_id=-1, producer_epoch=-1).error_code == 0
    finally:
        go_on.set()


def test_names_are_parted_without_being_compared() -> None:
    class Name:
        def __init__(self, number: int) -> None:
            self.number = number

        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            raise AssertionError

    names = [Name(number) for number in range(10)]
    allowed, denied = parted(names, lambda name: name.number % 2 == 0)
    assert [each.number for each in allowed] == [0, 2, 4, 6, 8]
    assert [each.number for each in denied] == [1, 3, 5, 7, 9]
