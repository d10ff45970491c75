"""SimpleConsumer against our gateways: of 0.7 over a recorded log, and today's in each wire that it speaks."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from pyspark_commitlog.classic.consumer import (
    EARLIEST_TIME,
    LATEST_TIME,
    BatchMessageSet,
    FetchRequest,
    PositionMessageSet,
    SimpleConsumer,
)
from pyspark_commitlog.classic.errors import ClientError, ConnectionClosedError, MessageTooLargeError
from pyspark_commitlog.classic.gateway_0_7.config import PositionGatewayConfig
from pyspark_commitlog.classic.gateway_0_7.server import PositionGateway
from pyspark_commitlog.classic.log_0_7.entries import encode
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import (
    CorruptRecordError,
    InvalidConfigError,
    LogStoreError,
    OffsetOutOfRangeError,
    TopicPartition,
    UnknownTopicOrPartitionError,
)
from tests.support.classic.kafka_0_7 import (
    RECORDED_AT_MS,
    consumed_as_recorded,
    recorded,
    settings_of,
    unpacked,
    write_segments,
)
from tests.support.clock import ManualClock
from tests.support.gateway import WireClient, create_topic, produce_fields, serving
from tests.support.logs.building import batch

WIRES = ["0.8", "today"]
NUMBERS = count()


# Kafka 0.7


@pytest.fixture(scope="module")
def recorded_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log_dir = unpacked("main", tmp_path_factory.mktemp("main")) / "log"
    write_segments(log_dir / "large-0", encode(b"x" * 900_000) + encode(b"small"))
    return log_dir


@pytest.fixture(scope="module")
def position_gateway(recorded_log: Path) -> Iterator[PositionGateway]:
    config = PositionGatewayConfig(port=0, threads=2, logs=settings_of("main"))
    with PositionGateway(str(recorded_log), config, clock=ManualClock(RECORDED_AT_MS)) as server:
        yield server


def as_recorded(found: PositionMessageSet) -> dict[str, object]:
    """What iterating a set gives, in the form of the recording."""
    messages: list[list[object]] = []
    shown: dict[str, object] = {"messages": messages}
    try:
        for each in found:
            messages.append([each.next_offset, each.magic, base64.b64encode(each.value or b"").decode()])
    except LogStoreError:
        shown["fails"] = True
    return shown


def test_fetches_of_0_7_give_what_a_real_consumer_got(position_gateway: PositionGateway, recorded_log: Path) -> None:
    with SimpleConsumer(*position_gateway.address, wire="0.7", max_message_bytes=0) as consumer:
        for one in recorded("main/fetch.json.xz"):
            if "errorCode" not in one:
                continue  # a negative size, which the broker closed the connection for
            found = consumer.fetch(FetchRequest(one["topic"], one["partition"], one["offset"], one["size"]))
            assert isinstance(found, PositionMessageSet)
            assert (found.error_code, found.size_in_bytes + 2) == (one["errorCode"], one["sizeInBytes"])
            assert as_recorded(found) == consumed_as_recorded(one)
            if "validBytes" in one:
                assert found.valid_bytes == one["validBytes"]
                assert found.next_offset == one["offset"] + one["validBytes"]
        for one in recorded("main/multifetch.json.xz"):
            sets = consumer.multifetch([FetchRequest(*each) for each in one["requests"]])
            for each, wanted in zip(sets, one["sets"], strict=True):
                assert (each.error_code, each.size_in_bytes) == (wanted["errorCode"], wanted["sizeInBytes"])
                assert as_recorded(each) == consumed_as_recorded(wanted)
        for one in recorded("main/offsets.json.xz")["asked"]:
            if "offsets" in one:
                asked = consumer.get_offsets_before(one["topic"], one["partition"], one["time"], one["max"])
                assert asked == one["offsets"]


def test_a_set_of_0_7_has_the_bytes_of_the_file(position_gateway: PositionGateway, recorded_log: Path) -> None:
    with SimpleConsumer(*position_gateway.address, wire="0.7") as consumer:
        target = io.BytesIO()
        consumer.fetch(FetchRequest("alpha", 0, 0, 1 << 20)).write_to(target)
    assert target.getvalue() == (recorded_log / "alpha-0" / f"{0:020}.kafka").read_bytes()


def test_a_large_message_of_0_7_is_fetched_by_doubling(position_gateway: PositionGateway) -> None:
    with SimpleConsumer(*position_gateway.address, wire="0.7") as consumer:
        one, *_ = consumer.fetch(FetchRequest("large", 0, 0, 1024))
        assert one.value == b"x" * 900_000
        (small,) = consumer.fetch(FetchRequest("large", 0, one.next_offset, 1024))
        assert small.value == b"small"
    with SimpleConsumer(*position_gateway.address, wire="0.7", max_message_bytes=800_000) as consumer:
        found = consumer.fetch(FetchRequest("large", 0, 0, 1024))
        assert found.size_in_bytes == 800_000
        with pytest.raises(CorruptRecordError, match="larger than what was read"):
            list(found)


def test_0_7_has_no_offsets_of_groups(position_gateway: PositionGateway) -> None:
    with SimpleConsumer(*position_gateway.address, wire="0.7") as consumer:
        for call in (
            lambda: consumer.commit_offsets("g", {TopicPartition("alpha", 0): 1}),
            lambda: consumer.fetch_offsets("g", [TopicPartition("alpha", 0)]),
            lambda: consumer.find_coordinator("g"),
        ):
            with pytest.raises(ClientError, match="ZooKeeper"):
                call()


# Later ones


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with serving(tmp_path_factory.mktemp("log"), offsets_topic_num_partitions=1) as gateway:
        yield gateway


@pytest.fixture(params=WIRES)
def consumer(gateway: Gateway, request: pytest.FixtureRequest) -> Iterator[SimpleConsumer]:
    with SimpleConsumer(*gateway.address, wire=request.param) as consumer:
        yield consumer


@pytest.fixture
def topic(gateway: Gateway) -> str:
    name = f"t{next(NUMBERS)}"
    with WireClient(gateway) as client:
        create_topic(client, name, 2)
    return name


def produce(gateway: Gateway, topic: str, data: bytes, partition: int = 0) -> None:
    with WireClient(gateway) as client:
        answer = client.ask(0, 8, **produce_fields(topic, data, partition=partition))
        assert not answer.responses[0].partition_responses[0].error_code


def test_messages_are_fetched_from_the_offset_that_was_asked_for(
    gateway: Gateway, consumer: SimpleConsumer, topic: str
) -> None:
    produce(gateway, topic, batch(b"a", b"b", b"c").tobytes())
    found = consumer.fetch(FetchRequest(topic, 0, 1, 1 << 20))
    assert isinstance(found, BatchMessageSet)
    assert [(each.offset, each.value) for each in found] == [(1, b"b"), (2, b"c")]
    assert (found.next_offset, found.high_watermark) == (3, 3)
    assert list(consumer.fetch(FetchRequest(topic, 0, 3, 1 << 20))) == []


def test_several_partitions_are_answered_in_the_order_of_the_requests(
    gateway: Gateway, consumer: SimpleConsumer, topic: str
) -> None:
    produce(gateway, topic, batch(b"a", b"b").tobytes())
    produce(gateway, topic, batch(b"c").tobytes(), 1)
    places = [(1, 0), (0, 1), (0, 0), (1, 0), (5, 0), (0, 9)]
    sets = consumer.multifetch([FetchRequest(topic, *each, 1 << 20) for each in places])
    assert [[each.value for each in found] for found in sets[:4]] == [[b"c"], [b"b"], [b"a", b"b"], [b"c"]]
    with pytest.raises(UnknownTopicOrPartitionError, match="-5 from offset 0"):
        list(sets[4])
    with pytest.raises(OffsetOutOfRangeError, match="-0 from offset 9"):
        list(sets[5])
    assert consumer.multifetch([]) == []


def test_a_large_message_is_fetched_whole(gateway: Gateway, consumer: SimpleConsumer, topic: str) -> None:
    value = os.urandom(900_000)
    produce(gateway, topic, batch(value).tobytes())
    one, (other,) = consumer.fetch(FetchRequest(topic, 0, 0, 1024)), consumer.multifetch([FetchRequest(topic, 0, 0, 1)])
    assert [each.value for each in one] == [each.value for each in other] == [value]


def test_a_message_above_the_limit_is_an_error(gateway: Gateway, topic: str) -> None:
    produce(gateway, topic, batch(os.urandom(100_000)).tobytes())
    with SimpleConsumer(*gateway.address, max_message_bytes=50_000) as consumer:
        found = consumer.fetch(FetchRequest(topic, 0, 0, 1024))
        with pytest.raises(MessageTooLargeError, match="larger than what was fetched"):
            list(found)


def test_offsets_before_a_time_over_ten_segments_are_the_list_by_hand(gateway: Gateway) -> None:
    name = f"t{next(NUMBERS)}"
    with WireClient(gateway) as client:
        create_topic(client, name, 1, segment_bytes="140")
    for number in range(10):
        produce(gateway, name, batch(b"x" * 60, timestamps=1_000_000 * number).tobytes())
    with SimpleConsumer(*gateway.address) as consumer:
        bases = list(range(9, -1, -1))
        assert consumer.get_offsets_before(name, 0, LATEST_TIME, 100) == [10, *bases]
        assert consumer.get_offsets_before(name, 0, LATEST_TIME, 3) == [10, 9, 8]
        assert consumer.get_offsets_before(name, 0, EARLIEST_TIME, 100) == [0]
        assert consumer.get_offsets_before(name, 0, 2**62, 4) == [10, 9, 8, 7]
        assert consumer.get_offsets_before(name, 0, 0, 100) == []
    with SimpleConsumer(*gateway.address, wire="today") as consumer:
        assert consumer.get_offsets_before(name, 0, LATEST_TIME, 100) == [10]
        assert consumer.get_offsets_before(name, 0, EARLIEST_TIME, 100) == [0]
        assert consumer.get_offsets_before(name, 0, 2_500_000, 100) == [3]
        assert consumer.get_offsets_before(name, 0, 2_500_000, 0) == []
        assert consumer.get_offsets_before(name, 0, 2**62, 100) == []
        with pytest.raises(UnknownTopicOrPartitionError):
            consumer.get_offsets_before("nowhere", 0, LATEST_TIME, 1)


def test_offsets_are_committed_and_fetched_by_hand_in_both_stores(
    gateway: Gateway, consumer: SimpleConsumer, topic: str
) -> None:
    one, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    group = f"g-{topic}"
    assert str(consumer.find_coordinator(group)) == "{}:{}".format(*gateway.address)
    consumer.commit_offsets(group, {one: 1}, "zookeeper")
    consumer.commit_offsets(group, {one: 2, other: 3}, "kafka")
    assert consumer.fetch_offsets(group, [one, other], "zookeeper") == {one: 1, other: None}
    assert consumer.fetch_offsets(group, [one, other], "kafka") == {one: 2, other: 3}
    with pytest.raises(UnknownTopicOrPartitionError, match=rf"{group} for nowhere-0"):
        consumer.commit_offsets(group, {TopicPartition("nowhere", 0): 1})


def test_a_closed_consumer_says_so(gateway: Gateway) -> None:
    consumer = SimpleConsumer(*gateway.address)
    consumer.close()
    with pytest.raises(ConnectionClosedError):
        consumer.fetch(FetchRequest("t", 0, 0, 1))


def test_an_unknown_wire_names_those_that_there_are() -> None:
    with pytest.raises(InvalidConfigError, match=r"known are 0\.7, 0\.8, today"):
        SimpleConsumer("h", 1, wire="0.6")
