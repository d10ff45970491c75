"""A gateway over a broker's directory and its tier, beside what the broker's consumers read."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyspark_commitlog.storage import Isolation, format as formats
from pyspark_commitlog.storage.format.tables import BatchHeaders
from tests.support.gateway import WireClient, fetch_fields, serving
from tests.support.kafka.broker_dirs import Row, rows_of
from tests.support.tiers import GOLDEN, TOPICS, Broker, broker

PATIENT_MS = 30_000
EARLIEST, EARLIEST_LOCAL, LATEST_TIERED = -2, -4, -5
OFFSET_OUT_OF_RANGE, UNSUPPORTED_VERSION, STORAGE_ERROR = 1, 35, 56
ENCRYPTED_END = 213  # of t-txn in the encrypted tier
ABORT = b"\0\0"  # of the type in a marker's key


@pytest.fixture(scope="module", params=["kafka", "aiven", pytest.param("aiven-zstd", marks=pytest.mark.only_all)])
def of_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Broker:
    return broker(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def client(of_broker: Broker) -> Iterator[WireClient]:
    with (
        serving(of_broker.log, commitlog_tier_url=str(of_broker.tier), remote_fetch_max_wait_ms=PATIENT_MS) as gateway,
        WireClient(gateway) as connected,
    ):
        yield connected


def only(answer: Any) -> Any:
    (topic,) = answer.responses
    (partition,) = topic.partitions
    return partition


def fetched(client: WireClient, topic: str, offset: int, isolation: Isolation, **more: Any) -> Any:
    level = int(isolation is Isolation.READ_COMMITTED)
    found = only(client.ask(1, 11, **fetch_fields(topic, offset, isolation_level=level, **more)))
    assert found.error_code == 0
    return found


def shown(answer: Any, offset: int) -> tuple[list[Row], int]:
    """The records from ``offset`` on that a consumer shows, and the next offset."""
    buffer = np.frombuffer(answer.records, np.uint8)
    headers = formats.scan(buffer).headers
    wanted = visible(buffer, headers, answer.aborted_transactions or ())
    records = formats.decode(buffer, headers[np.array(wanted, dtype=np.int64)]).records
    return [row for row in rows_of(records) if row[0] >= offset], headers.next_offset


def visible(buffer: Any, headers: BatchHeaders, aborted: Sequence[Any]) -> list[int]:
    """The batches that a consumer of Kafka shows: each aborted transaction hides those up to its marker."""
    waiting, hidden, found = sorted(aborted, key=lambda each: each.first_offset), set[int](), list[int]()
    for row in range(len(headers)):
        last, producer_id = (int(headers.table[name][row]) for name in ("last_offset", "producer_id"))
        while waiting and waiting[0].first_offset <= last:
            hidden.add(waiting.pop(0).producer_id)
        if headers.is_control[row]:
            (key,) = formats.decode(buffer, headers[row : row + 1]).records.keys.to_list()
            if key[2:4] == ABORT:
                hidden.discard(producer_id)
        elif not headers.is_transactional[row] or producer_id not in hidden:
            found.append(row)
    return found


def consumed(client: WireClient, topic: str, start: int, isolation: Isolation, **more: Any) -> list[Row]:
    """What a consumer of the gateway reads from ``start`` on."""
    found, offset = list[Row](), start
    while True:
        answer = fetched(client, topic, offset, isolation, **more)
        if offset >= answer.high_watermark:
            return found
        records, offset = shown(answer, offset)
        found += records


def list_offset(client: WireClient, topic: str, time: int, version: int = 9) -> tuple[int, int]:
    """Error and offset of partition 0."""
    partitions = [{"partition_index": 0, "timestamp": time, "current_leader_epoch": -1}]
    asked = [{"name": topic, "partitions": partitions}]
    found = client.ask(2, version, replica_id=-1, isolation_level=0, topics=asked).topics[0].partitions[0]
    return found.error_code, found.offset


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("topic", TOPICS)
def test_a_consumer_reads_what_one_of_the_broker_read(
    client: WireClient, of_broker: Broker, topic: str, isolation: Isolation
) -> None:
    start = of_broker.log_start(topic)
    assert list_offset(client, topic, EARLIEST) == (0, start)
    assert consumed(client, topic, start, isolation) == of_broker.rows(topic, isolation)


def first_local(of_broker: Broker, topic: str) -> int:
    return min(int(path.stem) for path in (of_broker.log / f"{topic}-0").glob("*.log"))


@pytest.mark.parametrize("topic", TOPICS)
def test_offsets_are_those_of_the_log_of_its_local_part_and_of_the_tier(
    client: WireClient, of_broker: Broker, topic: str
) -> None:
    local = first_local(of_broker, topic)
    answer = fetched(client, topic, of_broker.log_start(topic), Isolation.READ_UNCOMMITTED)
    assert answer.log_start_offset == of_broker.log_start(topic)
    assert list_offset(client, topic, EARLIEST_LOCAL) == (0, local)
    error, tiered = list_offset(client, topic, LATEST_TIERED)
    assert error == 0
    assert local - 1 <= tiered < answer.high_watermark
    assert list_offset(client, topic, LATEST_TIERED, version=8) == (UNSUPPORTED_VERSION, -1)


def test_times_are_found_in_the_tier_and_after_it(client: WireClient, of_broker: Broker) -> None:
    expected = of_broker.rows("t-plain", Isolation.READ_UNCOMMITTED)
    for at in (0, 300, len(expected) - 1):
        first = next(row for row in expected if row[1] >= expected[at][1])
        assert list_offset(client, "t-plain", expected[at][1]) == (0, first[0])
    assert list_offset(client, "t-plain", expected[-1][1] + 1) == (0, -1)


def test_an_answer_has_no_more_bytes_than_asked_for_but_one_batch(client: WireClient, of_broker: Broker) -> None:
    for limits in ({"max_bytes": 2000}, {"partition_max_bytes": 2000}):
        answer = fetched(client, "t-plain", 0, Isolation.READ_UNCOMMITTED, **limits)
        assert 0 < len(answer.records) <= 2000
    answer = fetched(client, "t-plain", 0, Isolation.READ_UNCOMMITTED, max_bytes=1, partition_max_bytes=1)
    assert len(formats.scan(np.frombuffer(answer.records, np.uint8)).headers) == 1


@pytest.mark.parametrize("version", [4, 7, 10, 12, 13, 17])
def test_every_version_gets_the_batches_of_the_tier(client: WireClient, version: int) -> None:
    fields = fetch_fields("t-plain", 100)
    fields["topics"][0]["topic_id"] = client.ask(3, 10, topics=[{"name": "t-plain"}]).topics[0].topic_id
    found = only(client.ask(1, version, **fields))
    assert (found.error_code, shown(found, 100)[0][0][0]) == (0, 100)


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("topic", ["t-plain", "t-txn", "t-epochs"])
def test_old_clients_get_all_messages_of_the_tier(
    client: WireClient, of_broker: Broker, topic: str, version: int
) -> None:
    expected = [row[0] for row in of_broker.rows(topic, Isolation.READ_UNCOMMITTED)]
    found, offset = list[int](), of_broker.log_start(topic)
    while True:
        answer = only(client.ask(1, version, **fetch_fields(topic, offset)))
        assert answer.error_code == 0
        buffer = np.frombuffer(answer.records or b"", np.uint8)
        if not len(buffer):
            break
        offsets = formats.decode(buffer, formats.scan(buffer).headers).records.offsets.tolist()
        found += [each for each in offsets if each >= offset]
        offset = found[-1] + 1
    assert found == expected


def test_old_clients_begin_where_the_whole_log_does(client: WireClient, of_broker: Broker) -> None:
    partitions = [{"partition_index": 0, "timestamp": EARLIEST, "max_num_offsets": 1}]
    asked = [{"name": "t-delrec", "partitions": partitions}]
    found = client.ask(2, 0, replica_id=-1, topics=asked).topics[0].partitions[0]
    assert (found.error_code, found.old_style_offsets) == (0, (of_broker.log_start("t-delrec"),))


def test_several_partitions_are_answered_together(client: WireClient) -> None:
    topics = [
        {"topic": topic, "partitions": [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}]}
        for topic, offset in (("t-plain", 0), ("t-codec", 0), ("t-txn", 0), ("t-epochs", 0), ("t-plain-none", 0))
    ]
    answer = client.ask(1, 11, **fetch_fields("", 0, topics=topics))
    found = {each.topic: each.partitions[0] for each in answer.responses}
    assert found.pop("t-plain-none").error_code == 3
    assert all(each.error_code == 0 and each.records for each in found.values())


def test_encrypted_segments_are_served_with_the_key(tmp_path: Path) -> None:
    of_broker = broker("aiven", tmp_path)
    shutil.rmtree(of_broker.tier)
    with tarfile.open(GOLDEN / "aiven-encrypted.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    tier = {"commitlog_tier_url": str(of_broker.tier), "remote_fetch_max_wait_ms": PATIENT_MS}
    key = frozenset({str(tmp_path / "private.pem")})
    with serving(of_broker.log, commitlog_tier_keys=key, **tier) as gateway, WireClient(gateway) as client:
        found, offset = list[Row](), 0
        while offset < ENCRYPTED_END:
            records, offset = shown(fetched(client, "t-txn", offset, Isolation.READ_UNCOMMITTED), offset)
            found += records
    expected = of_broker.rows("t-txn", Isolation.READ_UNCOMMITTED)
    assert found == [row for row in expected if row[0] < ENCRYPTED_END]
    with serving(of_broker.log, **tier) as gateway, WireClient(gateway) as client:
        assert only(client.ask(1, 11, **fetch_fields("t-txn", 0))).error_code == STORAGE_ERROR


def test_an_offset_below_the_log_start_is_out_of_range(client: WireClient, of_broker: Broker) -> None:
    start = of_broker.log_start("t-delrec")
    assert start > 0
    found = only(client.ask(1, 11, **fetch_fields("t-delrec", start - 1)))
    assert found.error_code == OFFSET_OUT_OF_RANGE


def test_without_the_setting_offsets_below_the_local_segments_are_out_of_range(tmp_path: Path) -> None:
    of_broker = broker("kafka", tmp_path)
    local = first_local(of_broker, "t-plain")
    with serving(of_broker.log) as gateway, WireClient(gateway) as plain:
        assert only(plain.ask(1, 11, **fetch_fields("t-plain", local - 1))).error_code == OFFSET_OUT_OF_RANGE
        assert list_offset(plain, "t-plain", EARLIEST) == (0, local)
        assert list_offset(plain, "t-plain", EARLIEST_LOCAL) == (0, local)
        assert list_offset(plain, "t-plain", LATEST_TIERED) == (0, -1)
