"""The wires of Kafka 0.7 and 0.8 against our gateways: what is sent is there, and a dead broker is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from pyspark_commitlog.classic.errors import BrokerUnreachableError, InvalidMessageError, NotSentError
from pyspark_commitlog.classic.gateway_0_7.config import PositionGatewayConfig
from pyspark_commitlog.classic.gateway_0_7.server import PositionGateway
from pyspark_commitlog.classic.log_0_7.entries import messages_in
from pyspark_commitlog.classic.log_0_7.settings import PositionLogSettings
from pyspark_commitlog.classic.producer import Producer, ProducerData, Record
from pyspark_commitlog.classic.requests_0_7 import Fetch
from pyspark_commitlog.classic.wire.connection import Address, Connection
from pyspark_commitlog.classic.wire.kafka_0_7 import PositionBroker
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import InvalidConfigError
from tests.classic.producer.reading import records_in, values_in
from tests.support.gateway import WireClient, create_topic, serving
from tests.support.ports import free_port
from tests.support.waiting import soon

TOPICS = count()


@pytest.fixture
def topic() -> str:
    return f"t{next(TOPICS)}"


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PositionGateway]:
    with position_gateway(tmp_path_factory.mktemp("old")) as server:
        yield server


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with serving(tmp_path_factory.mktemp("newer") / "log") as server:
        yield server


def position_gateway(directory: Path, port: int = 0) -> PositionGateway:
    logs = PositionLogSettings(num_partitions=1, flush_interval=1)
    return PositionGateway(str(directory), PositionGatewayConfig(port=port, threads=1, logs=logs))


def listed(*servers: PositionGateway) -> str:
    return ",".join(f"{broker}:127.0.0.1:{server.address[1]}" for broker, server in enumerate(servers))


def fetched(server: PositionGateway, topic: str, partition: int = 0) -> list[bytes]:
    """What a consumer of 0.7 gets."""
    with closing(Connection(Address(*server.address))) as connection:
        answer = PositionBroker(connection).fetch(Fetch(topic, partition, 0, 1 << 20))
    return [one.payload for one in messages_in(answer.message_set)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy"])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_broker_of_0_7_gets_messages_in_their_order(old: PositionGateway, topic: str, codec: str, kind: str) -> None:
    settings = {"broker.list": listed(old), "producer.type": kind, "compression.codec": codec}
    with Producer(settings) as producer:
        producer.send([ProducerData(topic, "a key", [b"1", b"2"]), ProducerData(f"{topic}-other", None, b"3")])
        producer.send(ProducerData(topic, None, b"4"))
    soon(lambda: fetched(old, topic) == [b"1", b"2", b"4"])
    soon(lambda: fetched(old, f"{topic}-other") == [b"3"])


@pytest.mark.parametrize(
    "data", [None, Record(b"v", b"k"), Record(b"v", None, (("h", None),)), Record(b"v", None, (), 1)]
)
def test_what_0_7_cannot_hold_is_refused(old: PositionGateway, topic: str, data: object) -> None:
    with Producer({"broker.list": listed(old)}) as producer:
        with pytest.raises(InvalidMessageError, match=r"Kafka 0\.7 have only a value"):
            producer.send(ProducerData(topic, None, data))
        producer.send(ProducerData(topic, None, b"1"))
    soon(lambda: fetched(old, topic) == [b"1"])


def test_with_a_list_requests_go_to_its_brokers_at_random(old: PositionGateway, topic: str, tmp_path: Path) -> None:
    with position_gateway(tmp_path) as other, Producer({"broker.list": listed(old, other)}) as producer:
        for number in range(40):
            producer.send(ProducerData(topic, "the same key", b"%d" % number))
        soon(lambda: len(fetched(old, topic) + fetched(other, topic)) == 40)
        assert fetched(old, topic)
        assert fetched(other, topic)


def test_with_a_list_a_dead_broker_fails_its_requests_and_only_those(
    old: PositionGateway, topic: str, tmp_path: Path
) -> None:
    other = position_gateway(tmp_path)
    with other:
        brokers = listed(old, other)
        producer = Producer({"broker.list": brokers})
        producer.send([ProducerData(topic, None, b"before") for _ in range(20)])
    sent = failed = 0
    with producer:
        for number in range(40):
            try:
                producer.send(ProducerData(topic, None, b"%d" % number))
                sent += 1
            except BrokerUnreachableError:
                failed += 1
    assert sent
    assert failed
    soon(lambda: len([each for each in fetched(old, topic) if each != b"before"]) == sent)


def test_a_broker_that_was_started_again_is_used_again(topic: str, tmp_path: Path) -> None:
    port = free_port()
    with position_gateway(tmp_path, port) as server:
        producer = Producer({"broker.list": listed(server)})
        producer.send(ProducerData(topic, None, b"1"))
        soon(lambda: fetched(server, topic) == [b"1"])
    with producer, pytest.raises(BrokerUnreachableError):
        producer.send(ProducerData(topic, None, b"2"))
    with (
        position_gateway(tmp_path, port) as server,
        Producer({"broker.list": listed(server), "reconnect.interval": 2}) as producer,
    ):
        for number in range(3, 10):
            producer.send(ProducerData(topic, None, b"%d" % number))
        # Nothing answers, so what is sent by a later connection may be there first.
        soon(lambda: sorted(fetched(server, topic)) == [b"1"] + [b"%d" % number for number in range(3, 10)])


@pytest.mark.parametrize("text", ["", "h:9092", "0:h", "0:h:x", "0:h:1,", "x:h:1"])
def test_a_list_names_id_host_and_port(text: str) -> None:
    with pytest.raises(InvalidConfigError, match=r"broker\.list"):
        Producer({"broker.list": text})


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy"])
def test_a_cluster_on_the_wire_of_0_8_gets_keys_and_values(newer: Gateway, topic: str, acks: int, codec: str) -> None:
    with WireClient(newer) as client:
        create_topic(client, topic, 3)
    settings = {
        "metadata.broker.list": newer.bootstrap_servers,
        "request.required.acks": acks,
        "compression.codec": codec,
        "serializer.class": "kafka.serializer.StringEncoder",
    }
    directory = Path(newer.context.log_dir)
    with Producer(settings) as producer:
        producer.send([ProducerData(topic, key, [key, "more"]) for key in ("a", "b", "c")])
        expected = [[b"c", b"more"], [b"a", b"more"], [b"b", b"more"]]  # the hashes of a, b, c are 97, 98, 99
        soon(lambda: [values_in(directory, topic, each) for each in range(3)] == expected)
    (table,) = records_in(directory, topic, 0)
    assert table.keys is not None
    assert table.keys.to_list() == [b"c", b"c"]


def test_a_topic_that_is_missing_is_made_by_the_first_send(newer: Gateway, topic: str) -> None:
    with Producer({"metadata.broker.list": newer.bootstrap_servers, "request.required.acks": 1}) as producer:
        producer.send(ProducerData(topic, None, [b"1", None]))
    assert values_in(Path(newer.context.log_dir), topic) == [b"1", None]


def test_what_0_8_cannot_hold_is_refused(newer: Gateway, topic: str) -> None:
    data = [ProducerData(topic, None, Record(b"1", timestamp_ms=5)), ProducerData("other", None, b"2")]
    with (
        Producer({"metadata.broker.list": newer.bootstrap_servers}) as producer,
        pytest.raises(NotSentError, match=r"1 of 2 .* Kafka 0\.8 have no headers or timestamps"),
    ):
        producer.send(data)


def test_the_first_broker_of_the_list_that_answers_tells_the_others(newer: Gateway, topic: str) -> None:
    brokers = f"127.0.0.1:{free_port()},{newer.bootstrap_servers}"
    with Producer({"metadata.broker.list": brokers, "request.required.acks": 1}) as producer:
        for _ in range(4):
            producer.send(ProducerData(topic, None, b"1"))
    assert values_in(Path(newer.context.log_dir), topic) == [b"1"] * 4


def test_a_cluster_that_nobody_answers_for_is_an_error(topic: str) -> None:
    settings = {"metadata.broker.list": f"127.0.0.1:{free_port()}", "retry.backoff.ms": 1}
    with Producer(settings) as producer, pytest.raises(BrokerUnreachableError, match=r"no broker of metadata\.broker"):
        producer.send(ProducerData(topic, None, b"1"))
