"""Requests about groups on the wire: every version that is served, and what its bytes have room for."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.gateway.groups.member import SyncResult
from pyspark_commitlog.gateway.groups.membership import Membership
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.protocol.apis import APIS, ApiKey
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.storage import SINK_PREFIX, CommittedOffset, GroupOffsets, LogManager, TopicPartition
from tests.support.gateway import WireClient, serving
from tests.support.waiting import soon

NUMBERS = count()
IN_LOG = 1  # the first version of OffsetCommit and OffsetFetch whose offsets are in the log, not in the registry
PROTOCOLS = [{"name": "range", "metadata": b"m"}]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with serving(tmp_path_factory.mktemp("gateway") / "log", group_initial_rebalance_delay_ms=0) as started:
        await_groups(started)
        yield started


def await_groups(gateway: Gateway) -> None:
    """Waits until the groups are loaded, as a client does by trying again."""
    with WireClient(gateway) as client:
        while client.ask(ApiKey.DESCRIBE_GROUPS, 0, groups=["g"]).groups[0].error_code:
            pass


@pytest.fixture
def group() -> str:
    return f"group-{next(NUMBERS)}"


def versions(key: ApiKey) -> range:
    return range(APIS[key].lowest, APIS[key].highest + 1)


def join(client: WireClient, version: int, group: str, **changes: Any) -> Any:
    fields = {
        "group_id": group,
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "protocol_type": "consumer",
        "protocols": PROTOCOLS,
        **changes,
    }
    answer = client.ask(ApiKey.JOIN_GROUP, version, **fields)
    if answer.error_code is ErrorCode.member_id_required:
        answer = client.ask(ApiKey.JOIN_GROUP, version, **{**fields, "member_id": answer.member_id})
    return answer


def sync(client: WireClient, version: int, group: str, joined: Any, **changes: Any) -> Any:
    assignments = [{"member_id": joined.member_id, "assignment": b"mine"}]
    fields = {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": assignments,
    }
    return client.ask(ApiKey.SYNC_GROUP, version, **{**fields, **changes})


def stable(client: WireClient, group: str) -> Any:
    joined = join(client, 9, group)
    assert not sync(client, 5, group, joined).error_code
    return joined


def commit(
    client: WireClient, version: int, group: str, topic: str, offset: int, partition: int = 0, **more: Any
) -> Any:
    place = {"partition_index": partition, "committed_offset": offset, "committed_metadata": "m"}
    place["committed_leader_epoch"] = 3
    topics = [{"name": topic, "partitions": [place]}]
    fields = {"group_id": group, "generation_id_or_member_epoch": -1, "topics": topics}
    answer = client.ask(ApiKey.OFFSET_COMMIT, version, **fields)
    return answer.topics[0].partitions[0].error_code


def fetch(client: WireClient, version: int, group: str, topics: Any, **more: Any) -> Any:
    named = None if topics is None else [{"name": each, "partition_indexes": [0]} for each in topics]
    if version >= 8:
        fields: dict[str, Any] = {"groups": [{"group_id": group, "topics": named}], **more}
        return client.ask(ApiKey.OFFSET_FETCH, version, **fields).groups[0]
    return client.ask(ApiKey.OFFSET_FETCH, version, group_id=group, topics=named, **more)


# --- members


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
def test_a_member_joins_in_every_version(client: WireClient, group: str, version: int) -> None:
    answer = join(client, version, group)
    assert answer.error_code is ErrorCode.none
    assert (answer.generation_id, answer.protocol_name, answer.leader) == (1, "range", answer.member_id)
    assert [(each.member_id, each.metadata) for each in answer.members] == [(answer.member_id, b"m")]
    assert answer.member_id.startswith("test-")
    assert getattr(answer, "protocol_type", "consumer") == "consumer"


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
def test_a_join_that_is_refused_has_a_body_in_every_version(client: WireClient, group: str, version: int) -> None:
    answer = join(client, version, group, session_timeout=1)
    assert (answer.error_code, answer.generation_id) == (ErrorCode.invalid_session_timeout, -1)
    assert answer.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("version", versions(ApiKey.SYNC_GROUP))
def test_a_leader_assigns_in_every_version(client: WireClient, group: str, version: int) -> None:
    answer = sync(client, version, group, join(client, 9, group))
    assert (answer.error_code, answer.assignment) == (ErrorCode.none, b"mine")


def test_a_sync_of_version_5_must_name_its_protocol(client: WireClient, group: str) -> None:
    answer = sync(client, 5, group, join(client, 9, group), protocol_name=None)
    assert answer.error_code is ErrorCode.inconsistent_group_protocol


def test_the_consumer_protocol_can_be_off_and_the_log_says_what_to_set(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    classic = frozenset({"classic"})
    with serving(tmp_path / "log", group_coordinator_rebalance_protocols=classic) as off, WireClient(off) as client:
        caplog.clear()
        for _ in range(3):
            answer = client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group_id="g", member_id="", member_epoch=0)
            assert answer.error_code is ErrorCode.unsupported_version
        described = client.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["g"])
        assert described.groups[0].error_code is ErrorCode.unsupported_version
        assert caplog.messages == [
            "127.0.0.1: the client 'test' cannot join the group 'g': the consumer protocol of KIP-848 is off "
            "(group.coordinator.rebalance.protocols): set group.protocol=classic"
        ]


def test_a_refused_join_says_why(client: WireClient, group: str, caplog: pytest.LogCaptureFixture) -> None:
    fields = {"group_id": group, "member_id": "", "protocol_type": "consumer", "session_timeout": 1000}
    for _ in range(3):
        answer = client.ask(ApiKey.JOIN_GROUP, 1, protocols=[{"name": "range", "metadata": b""}], **fields)
        assert answer.error_code is ErrorCode.invalid_session_timeout
    (line,) = caplog.messages
    assert line.startswith(f"127.0.0.1: the client 'test' may not join the group {group!r}: its session.timeout.ms")


@pytest.mark.parametrize("version", versions(ApiKey.HEARTBEAT))
def test_heartbeats_in_every_version(client: WireClient, group: str, version: int) -> None:
    joined = stable(client, group)
    fields = {"group_id": group, "member_id": joined.member_id}
    assert client.ask(ApiKey.HEARTBEAT, version, generation_id=1, **fields).error_code is ErrorCode.none
    assert client.ask(ApiKey.HEARTBEAT, version, generation_id=2, **fields).error_code is ErrorCode.illegal_generation


@pytest.mark.parametrize("version", versions(ApiKey.LEAVE_GROUP))
def test_a_member_leaves_in_every_version(client: WireClient, group: str, version: int) -> None:
    joined = stable(client, group)
    for expected in (ErrorCode.none, ErrorCode.unknown_member_id):
        if version < 3:
            answer = client.ask(ApiKey.LEAVE_GROUP, version, group_id=group, member_id=joined.member_id)
            assert answer.error_code is expected
        else:
            answer = client.ask(ApiKey.LEAVE_GROUP, version, group_id=group, members=[{"member_id": joined.member_id}])
            assert (answer.error_code, answer.members[0].error_code) == (ErrorCode.none, expected)


def test_a_join_waits_on_its_connection_and_no_other(client: WireClient, gateway: Gateway, group: str) -> None:
    joined = stable(client, group)
    with WireClient(gateway) as second:
        sent = second.send(
            ApiKey.JOIN_GROUP,
            3,
            group_id=group,
            session_timeout=10_000,
            rebalance_timeout=10_000,
            protocol_type="consumer",
            protocols=PROTOCOLS,
            member_id="",
        )
        fields = {"group_id": group, "member_id": joined.member_id, "generation_id": 1}
        while (code := client.ask(ApiKey.HEARTBEAT, 4, **fields).error_code) is ErrorCode.none:
            pass
        assert code is ErrorCode.rebalance_in_progress
        assert join(client, 9, group, member_id=joined.member_id).generation_id == 2
        assert second.answer(ApiKey.JOIN_GROUP, 3, sent).generation_id == 2


def test_members_that_wait_with_large_requests_take_no_memory_from_others(tmp_path: Path) -> None:
    large = {"session_timeout": 600_000, "rebalance_timeout": 600_000}
    large["protocols"] = [{"name": "range", "metadata": bytes(100_000)}]
    settings = {"group_initial_rebalance_delay_ms": 0, "queued_max_request_bytes": 1}
    with serving(tmp_path / "log", **settings) as gateway, ExitStack() as stack:
        await_groups(gateway)
        leader, *others, another = [stack.enter_context(WireClient(gateway)) for _ in range(5)]

        def ask_much() -> None:
            assert another.ask(ApiKey.DESCRIBE_GROUPS, 0, groups=["g" * 200] * 500).groups

        first = join(leader, 3, "g", **large)
        fields = {"group_id": "g", "protocol_type": "consumer", **large}
        joining = [each.send(ApiKey.JOIN_GROUP, 3, **fields) for each in others]
        soon(lambda: len(another.ask(ApiKey.DESCRIBE_GROUPS, 0, groups=["g"]).groups[0].members) == 4)
        ask_much()
        join(leader, 3, "g", **large, member_id=first.member_id)
        joined = [each.answer(ApiKey.JOIN_GROUP, 3, sent) for each, sent in zip(others, joining, strict=True)]
        assert {each.generation_id for each in joined} == {2}
        assigned = [{"member_id": each.member_id, "assignment": bytes(100_000)} for each in joined]
        syncing = [
            each.send(
                ApiKey.SYNC_GROUP, 3, group_id="g", generation_id=2, member_id=own.member_id, assignments=assigned
            )
            for each, own in zip(others, joined, strict=True)
        ]
        ask_much()
        fields = {"group_id": "g", "generation_id": 2, "member_id": first.member_id, "assignments": assigned}
        assert not leader.ask(ApiKey.SYNC_GROUP, 3, **fields).error_code
        for each, sent in zip(others, syncing, strict=True):
            assert len(each.answer(ApiKey.SYNC_GROUP, 3, sent).assignment) == 100_000


def test_a_member_that_waits_for_its_assignment_keeps_nothing_of_its_request(
    client: WireClient, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[Callable[[SyncResult], None]] = []
    monkeypatch.setattr(Membership, "sync", lambda _, sync, done: waiting.append(done))
    assigned = [{"member_id": "m", "assignment": bytes(100_000)}]
    fields = {"group_id": group, "generation_id": 1, "member_id": "m", "assignments": assigned}
    sent = client.send(ApiKey.SYNC_GROUP, 3, **fields)

    def is_kept() -> bool:
        return any(type(each).__name__ == "SyncGroupRequest" for each in gc.get_objects())

    soon(lambda: bool(waiting) and not is_kept())
    waiting.pop()(SyncResult(ErrorCode.none, assignment=b"mine"))
    assert client.answer(ApiKey.SYNC_GROUP, 3, sent).assignment == b"mine"


def test_a_gateway_that_stops_answers_members_that_wait(tmp_path: Path) -> None:
    with serving(tmp_path, group_initial_rebalance_delay_ms=60_000) as gateway, WireClient(gateway) as client:
        await_groups(gateway)
        fields = {
            "group_id": "g",
            "session_timeout": 10_000,
            "protocol_type": "consumer",
            "protocols": PROTOCOLS,
            "member_id": "",
        }
        sent = client.send(ApiKey.JOIN_GROUP, 3, rebalance_timeout=100_000, **fields)
        with WireClient(gateway) as other:
            while not other.ask(ApiKey.DESCRIBE_GROUPS, 0, groups=["g"]).groups[0].members:
                pass
        gateway.stop()
        assert client.answer(ApiKey.JOIN_GROUP, 3, sent).error_code is ErrorCode.not_coordinator


# --- offsets


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT)[IN_LOG:])
def test_offsets_are_committed_in_every_version(client: WireClient, group: str, topic: str, version: int) -> None:
    assert commit(client, version, group, topic, 7) is ErrorCode.none
    found = fetch(client, 7, group, [topic]).topics[0].partitions[0]
    assert (found.committed_offset, found.metadata) == (7, "m")
    assert found.committed_leader_epoch == (3 if version >= 6 else -1)


def test_offsets_of_what_does_not_exist_are_refused_and_the_rest_committed(
    client: WireClient, group: str, topic: str
) -> None:
    assert commit(client, 7, group, "no-such-topic", 7) is ErrorCode.unknown_topic_or_partition
    assert commit(client, 7, group, topic, 7, partition=9) is ErrorCode.unknown_topic_or_partition
    assert commit(client, 7, group, f"{SINK_PREFIX}{topic}", 7) is ErrorCode.invalid_topic_exception
    places = [{"partition_index": each, "committed_offset": 1, "committed_metadata": None} for each in (1, 9)]
    topics = [{"name": topic, "partitions": places}]
    answer = client.ask(ApiKey.OFFSET_COMMIT, 7, group_id=group, generation_id_or_member_epoch=-1, topics=topics)
    codes = {each.partition_index: each.error_code for each in answer.topics[0].partitions}
    assert codes == {1: ErrorCode.none, 9: ErrorCode.unknown_topic_or_partition}
    assert client.ask(ApiKey.OFFSET_COMMIT, 7, group_id=group, topics=[]).topics == ()


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH)[IN_LOG:])
def test_offsets_are_fetched_in_every_version(client: WireClient, group: str, topic: str, version: int) -> None:
    commit(client, 9, group, topic, 7)
    found = fetch(client, version, group, [topic, "never"])
    assert [(each.name, each.partitions[0].committed_offset) for each in found.topics] == [(topic, 7), ("never", -1)]
    assert found.topics[1].partitions[0].error_code is ErrorCode.none
    if version >= 2:
        assert [each.name for each in fetch(client, version, group, None).topics] == [topic]


@pytest.mark.parametrize("version", [1, 7, 8])
def test_a_topic_of_which_no_partition_is_asked_for_is_answered(client: WireClient, topic: str, version: int) -> None:
    asked = [{"name": topic, "partition_indexes": []}]
    answer = client.ask(9, version, group_id="g", topics=asked, groups=[{"group_id": "g", "topics": asked}])
    (found,) = (answer.groups[0] if version >= 8 else answer).topics
    assert (found.name, found.partitions) == (topic, ())


def test_offsets_of_several_groups_are_fetched_in_one_request(client: WireClient, topic: str) -> None:
    names = [f"one-of-{number}-{next(NUMBERS)}" for number in range(3)]
    for number, name in enumerate(names):
        commit(client, 9, name, topic, number)
    asked = [{"group_id": name, "topics": None} for name in names]
    answer = client.ask(ApiKey.OFFSET_FETCH, 9, groups=asked, require_stable=True)
    assert [each.group_id for each in answer.groups] == names
    assert [each.topics[0].partitions[0].committed_offset for each in answer.groups] == [0, 1, 2]
    assert client.ask(ApiKey.OFFSET_FETCH, 9, groups=[]).groups == ()


def test_a_client_sees_what_a_query_committed(client: WireClient, group: str, topic: str, log_dir: Path) -> None:
    commit(client, 9, group, topic, 1)
    with LogManager.open(str(log_dir)) as manager:
        GroupOffsets(manager).commit(group, {TopicPartition(topic, 0): CommittedOffset(5)})
    assert fetch(client, 8, group, [topic]).topics[0].partitions[0].committed_offset == 5


def test_offsets_end_with_their_topic(client: WireClient, group: str) -> None:
    name = f"short-lived-{group}"
    client.ask(ApiKey.CREATE_TOPICS, 4, topics=[{"name": name, "num_partitions": 1, "replication_factor": 1}])
    commit(client, 9, group, name, 1)
    client.ask(ApiKey.DELETE_TOPICS, 4, topic_names=[name])
    assert fetch(client, 8, group, [name]).topics[0].partitions[0].committed_offset == -1


# --- administrators


@pytest.mark.parametrize("version", versions(ApiKey.LIST_GROUPS))
def test_groups_are_listed_in_every_version(client: WireClient, group: str, version: int) -> None:
    stable(client, group)
    answer = client.ask(ApiKey.LIST_GROUPS, version)
    (found,) = [each for each in answer.groups if each.group_id == group]
    assert found.protocol_type == "consumer"
    assert getattr(found, "group_state", "Stable") == "Stable"
    assert getattr(found, "group_type", "classic") == "classic"
    if version >= 4:
        names = {each.group_id for each in client.ask(ApiKey.LIST_GROUPS, version, states_filter=["Empty"]).groups}
        assert group not in names


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS))
def test_groups_are_described_in_every_version(client: WireClient, group: str, version: int) -> None:
    joined = stable(client, group)
    more = {"include_authorized_operations": True} if version >= 3 else {}
    found, none = client.ask(ApiKey.DESCRIBE_GROUPS, version, groups=[group, "no-such-group"], **more).groups
    assert (found.group_state, found.protocol_type, found.protocol_data) == ("Stable", "consumer", "range")
    (member,) = found.members
    assert (member.member_id, member.client_id, member.client_host) == (joined.member_id, "test", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (b"m", b"mine")
    assert getattr(found, "authorized_operations", 328) == 328
    assert (none.error_code, none.group_state, none.members) == (ErrorCode.none, "Dead", ())


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_GROUPS))
def test_groups_are_deleted_in_every_version(client: WireClient, group: str, topic: str, version: int) -> None:
    commit(client, 9, group, topic, 1)
    used = f"used-{group}"
    stable(client, used)
    answer = client.ask(ApiKey.DELETE_GROUPS, version, groups_names=[group, used, "no-such-group"])
    assert [each.error_code for each in answer.results] == [
        ErrorCode.none,
        ErrorCode.non_empty_group,
        ErrorCode.group_id_not_found,
    ]


def test_offsets_are_deleted_but_not_those_of_a_sink(client: WireClient, group: str, topic: str, log_dir: Path) -> None:
    commit(client, 9, group, topic, 1)
    sink = f"{SINK_PREFIX}{topic}"
    with LogManager.open(str(log_dir)) as manager:
        GroupOffsets(manager).commit(group, {TopicPartition(sink, 0): CommittedOffset(5)})
    topics = [{"name": each, "partitions": [{"partition_index": 0}]} for each in (topic, sink, "never")]
    answer = client.ask(ApiKey.OFFSET_DELETE, 0, group_id=group, topics=topics)
    assert answer.error_code is ErrorCode.none
    assert {each.name: each.partitions[0].error_code for each in answer.topics} == {
        topic: ErrorCode.none,
        sink: ErrorCode.group_subscribed_to_topic,
        "never": ErrorCode.unknown_topic_or_partition,
    }
    assert [each.name for each in fetch(client, 8, group, None).topics] == [sink]
    answer = client.ask(ApiKey.DELETE_GROUPS, 2, groups_names=[group])
    assert answer.results[0].error_code is ErrorCode.non_empty_group


def test_the_topic_of_offsets_gets_the_partitions_that_the_settings_name(tmp_path: Path) -> None:
    settings = {"offsets_topic_num_partitions": 3, "group_initial_rebalance_delay_ms": 0}
    with serving(tmp_path, **settings) as gateway, WireClient(gateway) as client:
        await_groups(gateway)
        stable(client, "g")
    with LogManager.open(str(tmp_path)) as manager:
        assert len(manager.topic("__consumer_offsets").partitions) == 3
