"""A gateway over a log on an object store: what clients read and write, beside others that commit."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.commits.commit import GroupOffset, OffsetsChange
from pyspark_commitlog.storage.bucket.topics import delete_topic
from pyspark_commitlog.storage.errors import OutcomeUnknownError
from tests.support.gateway import (
    WireClient,
    create_topic,
    fetch_fields,
    produce_fields,
    serving,
    serving_apart,
    set_config,
)
from tests.support.logs.building import batch, records
from tests.support.stores.filled import read_rows
from tests.support.stores.filling import make_topic, write
from tests.support.stores.served import ServedStores
from tests.support.waiting import soon

URL = "s3://memory/logs"


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> ServedStores:
    return ServedStores(monkeypatch)


@pytest.fixture
def log(stores: ServedStores) -> CommitLog:
    """The log as another process has it open; with topic ``t`` of two partitions."""
    log = stores.create(URL)
    make_topic(log, "t", 2)
    return log


@pytest.fixture
def gateway(log: CommitLog) -> Iterator[Gateway]:
    with serving(URL, commitlog_bucket_poll_interval_ms=10, group_initial_rebalance_delay_ms=0) as started:
        yield started


@pytest.fixture
def client(gateway: Gateway) -> Iterator[WireClient]:
    with WireClient(gateway) as connected:
        yield connected


def put(log: CommitLog, *values: bytes, topic: str = "t", partition: int = 0) -> None:
    """Commits a batch, as Spark does."""
    log.catch_up()
    write(log, topic, {partition: [records(values)]})


def fetched(client: WireClient, offset: int = 0, topic: str = "t", **more: Any) -> list[tuple[int, bytes | None]]:
    """Offsets and values in the answer for partition 0."""
    answer = client.ask(1, 11, **fetch_fields(topic, offset, **more)).responses[0].partitions[0]
    assert not answer.error_code
    return values_of(answer.records)


def values_of(data: bytes | None) -> list[tuple[int, bytes | None]]:
    buffer = np.frombuffer(data or b"", np.uint8)
    if not len(buffer):
        return []
    found = formats.decode(buffer, formats.scan(buffer).headers).records
    return list(zip(found.offsets.tolist(), found.values.to_list(), strict=True))


def list_offset(client: WireClient, time: int, topic: str = "t") -> tuple[int, int]:
    """Error and offset of partition 0."""
    partitions = [{"partition_index": 0, "timestamp": time, "current_leader_epoch": -1}]
    asked = [{"name": topic, "partitions": partitions}]
    found = client.ask(2, 5, replica_id=-1, isolation_level=1, topics=asked).topics[0].partitions[0]
    return found.error_code, found.offset


def test_a_topics_size_of_batches_holds_up_to_what_a_put_takes(client: WireClient) -> None:
    create_topic(client, "large", max_message_bytes="60000000")
    sent = batch(bytes(40_000_000)).data
    produced = client.ask(0, 9, **produce_fields("large", sent)).responses[0].partition_responses[0]
    assert (produced.error_code, produced.base_offset) == (0, 0)
    assert fetched(client, topic="large") == [(0, bytes(40_000_000))]


@pytest.mark.parametrize("is_dry", [False, True])
def test_a_size_of_batches_that_no_put_takes_is_refused_as_a_setting(client: WireClient, is_dry: bool) -> None:
    config = {"name": "max.message.bytes", "value": "200000000"}
    asked = {"name": "large", "num_partitions": 1, "replication_factor": 1, "configs": [config]}
    answers = [client.ask(19, 4, topics=[asked], timeout=1000, validate_only=is_dry).topics[0]]
    resource = {"resource_type": 2, "resource_name": "t", "configs": [config]}
    answers += client.ask(33, 1, resources=[resource], validate_only=is_dry).responses
    resource["configs"] = [{**config, "config_operation": 0}]
    answers += client.ask(44, 0, resources=[resource], validate_only=is_dry).responses
    assert [each.error_code for each in answers] == [40] * 3  # INVALID_CONFIG
    assert all("at most 134152192 on an object store" in each.error_message for each in answers)


@pytest.mark.parametrize("is_dry", [True, False])
def test_an_internal_topic_whose_content_commits_have_is_refused(client: WireClient, is_dry: bool) -> None:
    asked = {"name": "__consumer_offsets", "num_partitions": 1, "replication_factor": 1}
    answer = client.ask(19, 4, topics=[asked], timeout=1000, validate_only=is_dry).topics[0]
    assert (answer.error_code, "commits have its content" in answer.error_message) == (44, True)


def test_what_others_committed_is_read(log: CommitLog, client: WireClient) -> None:
    put(log, b"a", b"b")
    put(log, b"c")
    assert fetched(client, 2, max_wait=30_000) == [(2, b"c")]  # the first commit may be seen before the second
    assert fetched(client) == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert fetched(client, 1)[-1] == (2, b"c")
    assert list_offset(client, -1) == (0, 3)
    assert list_offset(client, -2) == (0, 0)


def test_a_fetch_waits_for_the_next_commit_of_others(log: CommitLog, client: WireClient) -> None:
    put(log, b"a")
    assert fetched(client, max_wait=30_000) == [(0, b"a")]
    waiting = client.send(1, 11, **fetch_fields("t", 1, max_wait=30_000))
    put(log, b"b")
    answer = client.answer(1, 11, waiting).responses[0].partitions[0]
    assert values_of(answer.records) == [(1, b"b")]
    assert (answer.high_watermark, answer.last_stable_offset) == (2, 2)


def test_an_offset_that_only_others_know_is_looked_for_before_it_is_refused(log: CommitLog, client: WireClient) -> None:
    assert list_offset(client, -1) == (0, 0)
    put(log, b"a", b"b")
    assert fetched(client, 2) == []
    answer = client.ask(1, 11, **fetch_fields("t", 3)).responses[0].partitions[0]
    assert answer.error_code == 1  # OFFSET_OUT_OF_RANGE


def test_offsets_are_found_by_time(log: CommitLog, client: WireClient) -> None:
    log.catch_up()
    write(log, "t", {0: [records([b"a", b"b"], timestamps=[1000, 2000])]})
    assert list_offset(client, 1500) == (0, 1)
    assert list_offset(client, 3000) == (0, -1)


def test_no_epoch_ends_before_the_end_of_the_log(log: CommitLog, client: WireClient) -> None:
    put(log, b"a", b"b")
    partitions = [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]
    answer = client.ask(23, 3, replica_id=-1, topics=[{"topic": "t", "partitions": partitions}])
    found = answer.topics[0].partitions[0]
    assert (found.error_code, found.leader_epoch, found.end_offset) == (0, 0, 2)


def test_the_cluster_is_the_log_and_internal_topics_are_not_shown(log: CommitLog, client: WireClient) -> None:
    log.catch_up()
    log.commit(lambda _: OffsetsChange({"g": {"t-0": GroupOffset(1, "")}}))
    answer = client.ask(3, 9, topics=None, allow_auto_topic_creation=False)
    assert [each.name for each in answer.topics] == ["t"]
    assert [each.leader_id for each in answer.topics[0].partitions] == [1, 1]
    assert len(answer.cluster_id) == 22


def test_the_size_of_the_store_is_unknown(log: CommitLog, client: WireClient) -> None:
    put(log, b"a")
    assert fetched(client, max_wait=30_000)
    found = client.ask(35, 4, topics=None).results[0]
    assert (found.log_dir, found.total_bytes, found.usable_bytes) == (URL, -1, -1)
    assert found.topics[0].partitions[0].partition_size > 0


def test_a_topic_that_others_delete_is_unknown_to_a_fetch_that_waits(log: CommitLog, client: WireClient) -> None:
    assert fetched(client) == []
    waiting = client.send(1, 11, **fetch_fields("t", 0, max_wait=30_000))
    log.catch_up()
    log.commit(lambda state: delete_topic(state, "t"))
    assert client.answer(1, 11, waiting).responses[0].partitions[0].error_code == 3


def test_a_topic_that_others_make_again_is_read_from_its_begin(log: CommitLog, client: WireClient) -> None:
    put(log, b"a")
    assert fetched(client, max_wait=30_000) == [(0, b"a")]
    log.commit(lambda state: delete_topic(state, "t"))
    make_topic(log, "t")
    put(log, b"b")
    soon(lambda: list_offset(client, -1) == (0, 1))  # unknown at first, which clients try again
    assert fetched(client) == [(0, b"b")]


# Topics, settings and records


def test_topics_are_created_altered_and_deleted_by_commits(log: CommitLog, client: WireClient) -> None:
    create_topic(client, "made", 3, retention_ms="1000")
    set_config(client, "made", "retention.bytes", "5")
    topic = log.catch_up().topics[log.state.topic_ids["made"]]
    assert (topic.partitions, topic.configs) == (3, {"retention.ms": "1000", "retention.bytes": "5"})
    answer = client.ask(20, 5, topic_names=["made"], timeout=1000)
    assert not answer.responses[0].error_code
    assert "made" not in log.catch_up().topic_ids
    partitions = [{"name": "t", "count": 4, "assignments": None}]
    assert not client.ask(37, 2, topics=partitions, timeout=1000, validate_only=False).results[0].error_code
    assert log.catch_up().topics[log.state.topic_ids["t"]].partitions == 4


def test_records_are_deleted_by_a_commit(log: CommitLog, client: WireClient) -> None:
    put(log, b"a", b"b", b"c")
    partitions = [{"partition_index": 0, "offset": 2}]
    asked = [{"name": "t", "partitions": partitions}]
    found = client.ask(21, 2, topics=asked, timeout=1000).topics[0].partitions[0]
    assert (found.error_code, found.low_watermark) == (0, 2)
    assert list_offset(client, -2) == (0, 2)
    assert log.catch_up().partitions[log.state.topic_ids["t"], 0].log_start == 2


def test_settings_of_all_topics_are_refused(client: WireClient) -> None:
    change = {"name": "log.retention.ms", "config_operation": 0, "value": "5"}
    resource = {"resource_type": 4, "resource_name": "", "configs": [change]}
    answer = client.ask(44, 0, resources=[resource], validate_only=False).responses[0]
    assert (answer.error_code, "object store" in answer.error_message) == (44, True)


# Producing


def produced(client: WireClient, records: bytes | memoryview, partition: int = 0, version: int = 8) -> tuple[int, int]:
    """Error and first offset."""
    answer = client.ask(0, version, **produce_fields("t", bytes(records), partition=partition))
    found = answer.responses[0].partition_responses[0]
    return found.error_code, found.base_offset


def new_producer(client: WireClient) -> int:
    answer = client.ask(22, 1, transactional_id=None, transaction_timeout=1000)
    assert not answer.error_code
    found: int = answer.producer_id
    return found


def rows(log: CommitLog, partition: int = 0) -> list[tuple[int, bytes | None]]:
    return [(offset, value) for offset, _, value in read_rows(log, partition=partition)]


def test_records_are_in_the_log_when_they_are_answered(log: CommitLog, client: WireClient) -> None:
    put(log, b"a")
    assert produced(client, batch(b"b", b"c").data) == (0, 1)
    assert rows(log) == [(0, b"a"), (1, b"b"), (2, b"c")]
    put(log, b"d")
    assert produced(client, batch(b"e").data) == (0, 4)
    assert fetched(client, 3) == [(3, b"d"), (4, b"e")]


def test_an_old_message_set_is_rewritten(log: CommitLog, client: WireClient) -> None:
    assert produced(client, message_set(b"old"), version=2) == (0, 0)
    assert rows(log) == [(0, b"old")]


def message_set(value: bytes) -> bytes:
    message = struct.pack(">bbi", 0, 0, -1) + struct.pack(">i", len(value)) + value
    message = struct.pack(">I", zlib.crc32(message)) + message
    return struct.pack(">qi", 0, len(message)) + message


def test_a_fetch_that_waits_is_answered_by_a_produce(client: WireClient, gateway: Gateway) -> None:
    assert fetched(client) == []
    waiting = client.send(1, 11, **fetch_fields("t", 0, max_wait=30_000))
    with WireClient(gateway) as other:
        assert produced(other, batch(b"a").data) == (0, 0)
    assert values_of(client.answer(1, 11, waiting).responses[0].partitions[0].records) == [(0, b"a")]


def test_a_repeated_batch_gets_its_first_offset_also_after_a_restart(log: CommitLog) -> None:
    with serving(URL) as gateway, WireClient(gateway) as client:
        producer = new_producer(client)
        first = batch(b"a", producer_id=producer, base_sequence=0).tobytes()
        assert produced(client, first) == produced(client, first) == (0, 0)
    with serving(URL) as gateway, WireClient(gateway) as client:
        assert new_producer(client) != producer
        assert produced(client, first) == (0, 0)
        assert produced(client, batch(b"b", producer_id=producer, base_sequence=1).data) == (0, 1)
        gap = batch(b"d", producer_id=producer, base_sequence=3).data
        assert produced(client, gap)[0] == 45  # OUT_OF_ORDER_SEQUENCE_NUMBER
        topics = [{"name": "t", "partition_indexes": [0]}]
        found = client.ask(61, 0, topics=topics).topics[0].partitions[0].active_producers
        assert [(each.producer_id, each.last_sequence) for each in found] == [(producer, 1)]
    assert rows(log) == [(0, b"a"), (1, b"b")]


def test_two_gateways_and_another_writer_share_a_log(log: CommitLog) -> None:
    """A producer that goes from one to the other sends nothing twice; offsets have no gap."""
    with serving_apart(URL) as one, serving_apart(URL) as two, WireClient(one) as first, WireClient(two) as second:
        producer = new_producer(first)
        assert new_producer(second) != producer
        for sequence in range(6):
            sent = batch(b"%d" % sequence, producer_id=producer, base_sequence=sequence).tobytes()
            clients = [first, second] if sequence % 2 else [second, first]
            offsets = [produced(each, sent) for each in clients]
            assert offsets[0] == offsets[1]
            put(log, b"s")
    found = rows(log)
    assert [offset for offset, _ in found] == list(range(12))
    assert [value for _, value in found if value != b"s"] == [b"%d" % each for each in range(6)]


def test_a_store_that_fails_is_an_error_that_clients_try_again(
    log: CommitLog, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OutcomeUnknownError("the store did not answer")

    assert fetched(client) == []
    with monkeypatch.context() as patch:
        patch.setattr(CommitLog, "commit", fail)
        assert produced(client, batch(b"a").data)[0] == 7  # REQUEST_TIMED_OUT
    assert produced(client, batch(b"a").data) == (0, 0)


def test_transactional_batches_are_refused(log: CommitLog, client: WireClient) -> None:
    sent = batch(b"a", producer_id=1, base_sequence=0, transactional=True).tobytes()
    fields = {**produce_fields("t", sent), "transactional_id": "x"}
    assert client.ask(0, 8, **fields).responses[0].partition_responses[0].error_code
    assert produced(client, sent)[0]
    assert rows(log) == []


# Groups


def committed(client: WireClient, group: str, topic: str = "t") -> int:
    topics = [{"name": topic, "partition_indexes": [0]}]
    found = client.ask(9, 5, group_id=group, topics=topics)
    assert not found.error_code
    offset: int = found.topics[0].partitions[0].committed_offset
    return offset


def commit(client: WireClient, group: str, offset: int, version: int = 5) -> int:
    partitions = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": "m"}]
    more = {"generation_id_or_member_epoch": -1, "member_id": ""} if version else {}
    topics = [{"name": "t", "partitions": partitions}]
    code: int = client.ask(8, version, group_id=group, topics=topics, **more).topics[0].partitions[0].error_code
    return code


def test_offsets_that_a_query_committed_are_fetched(log: CommitLog, client: WireClient) -> None:
    log.catch_up()
    log.commit(lambda _: OffsetsChange({"g": {"t-0": GroupOffset(7, "")}}))
    assert committed(client, "g") == 7
    log.commit(lambda _: OffsetsChange({"g": {"t-0": GroupOffset(8, "")}}))
    assert committed(client, "g") == 8


@pytest.mark.parametrize("version", [0, 1, 5])
def test_offsets_that_a_client_commits_are_in_the_log(log: CommitLog, client: WireClient, version: int) -> None:
    assert commit(client, "g", 5, version) == 0
    assert log.catch_up().groups == {"g": {"t-0": GroupOffset(5, "m")}}
    assert committed(client, "g") == 5
    assert client.ask(42, 1, groups_names=["g"]).results[0].error_code == 0
    assert log.catch_up().groups == {}


def test_a_negative_offset_is_refused_and_others_are_committed(log: CommitLog, client: WireClient) -> None:
    assert commit(client, "g", -5) == 1
    assert commit(client, "h", 5) == 0
    assert list(log.catch_up().groups) == ["h"]


def test_a_group_has_members_and_offsets(log: CommitLog, client: WireClient) -> None:
    protocols = [{"name": "range", "metadata": b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"}]
    member: dict[str, Any] = {"session_timeout": 30_000, "rebalance_timeout": 30_000, "protocol_type": "consumer"}
    joined = client.ask(11, 3, group_id="g", member_id="", protocols=protocols, **member)
    assert not joined.error_code
    who = {"group_id": "g", "generation_id": joined.generation_id, "member_id": joined.member_id}
    assigned = [{"member_id": joined.member_id, "assignment": b"x"}]
    assert client.ask(14, 2, assignments=assigned, **who).assignment == b"x"
    partitions = [{"partition_index": 0, "committed_offset": 3, "committed_metadata": ""}]
    topics = [{"name": "t", "partitions": partitions}]
    generation = joined.generation_id
    answer = client.ask(
        8, 5, group_id="g", generation_id_or_member_epoch=generation, member_id=joined.member_id, topics=topics
    )
    assert not answer.topics[0].partitions[0].error_code
    assert client.ask(15, 3, groups=["g"]).groups[0].group_state == "Stable"
    assert [each.group_id for each in client.ask(16, 3).groups] == ["g"]
    assert log.catch_up().groups == {"g": {"t-0": GroupOffset(3, "")}}


# What is refused


def test_a_registry_in_zookeeper_is_refused(log: CommitLog) -> None:
    with pytest.raises(Exception, match="need no registry"), serving(URL, zookeeper_connect="localhost:1"):
        pass
