"""ListOffsets, OffsetForLeaderEpoch, InitProducerId, DescribeProducers, DescribeCluster and DescribeLogDirs."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from pyspark_commitlog.gateway.partitions.file_partition import FilePartition
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import LogManager, Producer, StorageError
from tests.support.gateway import WireClient, fetch_fields, produce_fields, serving
from tests.support.logs.building import NOW_MS, batch, records

STORAGE_ERROR = 56


def listed(client: WireClient, topic: str, timestamp: int, version: int = 9, isolation: int = 0, **more: Any) -> Any:
    part = {"partition_index": 0, "timestamp": timestamp, **more}
    asked = [{"name": topic, "partitions": [part]}]
    answer = client.ask(2, version, replica_id=-1, isolation_level=isolation, topics=asked)
    return answer.topics[0].partitions[0]


@pytest.fixture
def filled(client: WireClient, topic: str) -> str:
    """Five records at one-second steps, the third the latest; the first is deleted."""
    times = [NOW_MS + step * 1000 for step in (0, 1, 9, 3, 4)]
    client.ask(0, 8, **produce_fields(topic, batch(*[b"v"] * 5, timestamps=times).tobytes()))
    cut = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 1}]}]
    client.ask(21, 1, topics=cut, timeout=1)
    return topic


TIMES = [(-1, 5, -1), (-2, 1, -1), (-3, 2, NOW_MS + 9000), (-4, 1, -1), (-5, -1, -1), (0, 1, NOW_MS + 1000)]
TIMES += [(NOW_MS + 2000, 2, NOW_MS + 9000), (NOW_MS + 10_000, -1, -1)]


@pytest.mark.parametrize(("timestamp", "offset", "found_ms"), TIMES)
def test_offsets_are_found_by_time(client: WireClient, filled: str, timestamp: int, offset: int, found_ms: int) -> None:
    found = listed(client, filled, timestamp)
    assert (found.error_code, found.offset, found.timestamp) == (0, offset, found_ms)


@pytest.mark.parametrize("version", range(1, 10))
def test_every_version_finds_the_ends(client: WireClient, filled: str, version: int) -> None:
    assert [listed(client, filled, each, version).offset for each in (-1, -2)] == [5, 1]


def test_times_that_older_versions_do_not_have_are_refused(client: WireClient, filled: str) -> None:
    codes = [listed(client, filled, at, version).error_code for at, version in ((-3, 6), (-4, 7), (-5, 8), (-9, 9))]
    assert codes == [35, 35, 35, 35]


def test_an_open_transaction_ends_what_readers_of_committed_records_see(
    client: WireClient, topic: str, log_dir: Path
) -> None:
    client.ask(0, 8, **produce_fields(topic, batch(b"v").tobytes()))
    with LogManager.open(str(log_dir)) as manager:
        manager.open_log(topic, 0).append(batch(b"open", producer_id=4, base_sequence=0, transactional=True))
        assert [listed(client, topic, -1, isolation=level).offset for level in (0, 1)] == [2, 1]


def test_a_search_by_time_finds_aborted_records_like_a_brokers(client: WireClient, topic: str, log_dir: Path) -> None:
    with LogManager.open(str(log_dir)) as manager:
        log = manager.open_log(topic, 0)
        log.append(batch(b"aborted", producer_id=4, base_sequence=0, transactional=True))
        log.end_transaction(Producer(4, 0), commit=False)
        log.append(batch(b"open", producer_id=5, base_sequence=0, transactional=True))
    assert [listed(client, topic, 0, isolation=level).offset for level in (0, 1)] == [0, 0]
    assert listed(client, topic, NOW_MS + 1, isolation=1).offset == -1


def test_a_search_by_time_ends_where_readers_of_committed_records_do(
    client: WireClient, topic: str, log_dir: Path
) -> None:
    with LogManager.open(str(log_dir)) as manager:
        manager.open_log(topic, 0).append(batch(b"open", producer_id=5, base_sequence=0, transactional=True))
    assert [listed(client, topic, 0, isolation=level).offset for level in (0, 1)] == [0, -1]


def test_a_partition_without_records_ends_its_leader_epoch(client: WireClient, topic: str) -> None:
    """Else a consumer that knows the epoch takes the log for truncated."""
    assert listed(client, topic, -2).leader_epoch == listed(client, topic, -1).leader_epoch == 0
    asked = [{"topic": topic, "partitions": [{"partition": 0, "leader_epoch": 0, "current_leader_epoch": 0}]}]
    found = client.ask(23, 4, replica_id=-1, topics=asked).topics[0].partitions[0]
    assert (found.error_code, found.leader_epoch, found.end_offset) == (0, 0, 0)


@pytest.mark.parametrize("version", range(5))
def test_the_end_of_an_epoch_in_an_unknown_partition_is_none(client: WireClient, version: int) -> None:
    asked = [{"topic": "nowhere", "partitions": [{"partition": 0, "leader_epoch": 0}]}]
    found = client.ask(23, version, replica_id=-1, topics=asked).topics[0].partitions[0]
    assert (found.error_code, found.end_offset) == (3, -1)


def test_a_partition_that_is_asked_for_twice_is_refused(client: WireClient, topic: str) -> None:
    parts = [{"partition_index": each, "timestamp": -1} for each in (0, 0, 1)]
    answer = client.ask(2, 5, replica_id=-1, isolation_level=0, topics=[{"name": topic, "partitions": parts}])
    assert [each.error_code for each in answer.topics[0].partitions] == [42, 42, 0]


def test_what_another_process_appended_is_seen_at_once(client: WireClient, topic: str, log_dir: Path) -> None:
    assert listed(client, topic, -1).offset == 0
    with LogManager.open(str(log_dir)) as manager:
        for end in range(1, 6):
            manager.open_log(topic, 0).append_records(records([b"v"]))
            assert listed(client, topic, -1).offset == end


def test_an_unknown_partition_and_other_epochs_are_errors(client: WireClient, topic: str) -> None:
    assert listed(client, "nowhere", -1).error_code == 3
    assert [listed(client, topic, -1, current_leader_epoch=each).error_code for each in (-1, 0, 1)] == [0, 0, 75]


@pytest.mark.parametrize("version", [2, 3, 4])
def test_leader_epochs_have_their_ends(client: WireClient, filled: str, version: int) -> None:
    def end(epoch: int, known: int = -1) -> tuple[int, int, int]:
        part = {"partition": 0, "current_leader_epoch": known, "leader_epoch": epoch}
        asked = [{"topic": filled, "partitions": [part]}]
        found = client.ask(23, version, replica_id=-1, topics=asked).topics[0].partitions[0]
        return int(found.error_code), found.leader_epoch, found.end_offset

    assert [end(0), end(5), end(0, known=7)] == [(0, 0, 5), (0, -1, -1), (75, -1, -1)]


def test_producer_ids_are_handed_out_once(client: WireClient) -> None:
    def init(version: int, **fields: Any) -> Any:
        return client.ask(22, version, transaction_timeout=1000, **{"transactional_id": None, **fields})

    found = [init(version) for version in range(6)]
    assert len({each.producer_id for each in found}) == 6
    assert {(int(each.error_code), each.producer_epoch) for each in found} == {(0, 0)}
    assert init(4, producer_id=-1, producer_epoch=-1, transactional_id="").error_code == 42


def test_the_producers_of_a_partition_are_described(client: WireClient, topic: str) -> None:
    now_ms = time.time_ns() // 1_000_000  # producers of old records have expired
    written = batch(b"a", b"b", producer_id=6, base_sequence=0, timestamps=now_ms)
    client.ask(0, 8, **produce_fields(topic, written.tobytes()))
    asked = [{"name": topic, "partition_indexes": (0, 9)}]
    here, missing = client.ask(61, 0, topics=asked).topics[0].partitions
    (one,) = here.active_producers
    assert (one.producer_id, one.producer_epoch, one.last_sequence, one.current_txn_start_offset) == (6, 0, 1, -1)
    assert missing.error_code == 3


@pytest.mark.parametrize("name", ["a b", "", ".", "x" * 250])
def test_the_producers_of_a_name_that_no_topic_may_have_are_refused(client: WireClient, name: str) -> None:
    (found,) = client.ask(61, 0, topics=[{"name": name, "partition_indexes": (0,)}]).topics[0].partitions
    assert found.error_code.name == "invalid_topic_exception"
    assert len(found.error_message) < 100  # there is one for each of thousands of partitions


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_the_sizes_of_partitions_are_described(client: WireClient, filled: str, version: int) -> None:
    asked = [{"topic": filled, "partitions": (0, 1)}]
    (found,) = client.ask(35, version, topics=asked).results
    (topic,) = found.topics
    sizes = {each.partition_index: each.partition_size for each in topic.partitions}
    assert sizes[0] > sizes[1] == 0


def test_the_cluster_is_the_one_node(client: WireClient) -> None:
    found = client.ask(60, 1, include_cluster_authorized_operations=False, endpoint_type=1)
    assert (found.error_code, found.controller_id, [each.broker_id for each in found.brokers]) == (0, 1, [1])
    assert found.cluster_id == client.ask(3, 8, topics=()).cluster_id
    assert client.ask(60, 1, endpoint_type=2).error_code == 114


def test_a_brokers_directory_keeps_its_cluster_id(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("#\nversion=1\nnode.id=1\ncluster.id=4L6g3nShT-eMCtK--X86sw\n")
    with serving(tmp_path) as gateway, WireClient(gateway) as client:
        assert client.ask(3, 8, topics=()).cluster_id == "4L6g3nShT-eMCtK--X86sw"


# What an earlier leader has shown


def ended(answer: Any) -> tuple[int, int]:
    (part,) = answer.topics[0].partitions
    return int(part.error_code), int(part.end_offset)


def epoch_fields(topic: str) -> dict[str, Any]:
    part = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    return {"replica_id": -1, "topics": [{"topic": topic, "partitions": [part]}]}


def test_no_answer_is_short_of_what_others_appended_while_it_is_being_synced(
    gateway: Gateway, client: WireClient, topic: str, log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer that has read those records from an earlier leader would take them for cut off."""
    assert listed(client, topic, -1).offset == 0
    syncing, may_sync, sync = Event(), Event(), FilePartition.sync

    def slow(led: FilePartition) -> None:
        if led.topic == topic:
            syncing.set()
            assert may_sync.wait(30)
        sync(led)

    monkeypatch.setattr(FilePartition, "sync", slow)
    with LogManager.open(str(log_dir)) as manager, WireClient(gateway) as first:
        manager.open_log(topic, 0).append_records(records([b"v"] * 3))
        asked = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
        first.send(2, 1, replica_id=-1, topics=asked)
        assert syncing.wait(30)
        sent = client.send(23, 3, **epoch_fields(topic))
        client.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.receive()
        client.socket.settimeout(30)
        may_sync.set()
        assert ended(client.answer(23, 3, sent)) == (0, 3)


def test_what_others_appended_and_cannot_be_read_is_an_error_and_not_missing(
    client: WireClient, topic: str, log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert listed(client, topic, -1).offset == 0

    def fail(*_: object) -> None:
        raise StorageError("the disk fails")

    monkeypatch.setattr(FilePartition, "change", fail)
    with LogManager.open(str(log_dir)) as manager:
        manager.open_log(topic, 0).append_records(records([b"v"] * 3))
        fetched = client.ask(1, 11, **fetch_fields(topic, 2)).responses[0].partitions[0]
        codes = [
            fetched.error_code,
            listed(client, topic, -1).error_code,
            listed(client, topic, -1, 0, max_num_offsets=1).error_code,
        ]
        assert codes == [STORAGE_ERROR] * 3
        assert ended(client.ask(23, 3, **epoch_fields(topic))) == (STORAGE_ERROR, -1)
    monkeypatch.undo()
    assert listed(client, topic, -1).offset == 3
