"""Streams over the group protocol of brokers, against our gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, islice
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from pyspark_commitlog.classic.errors import BrokerUnreachableError, ClientError, ConsumerTimeoutError
from pyspark_commitlog.classic.streams import ConsumerConnector
from pyspark_commitlog.classic.topic_filters import Whitelist
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import InvalidConfigError, LogManager, OffsetOutOfRangeError
from tests.support.classic.streams import Collected
from tests.support.gateway import WireClient, create_topic, produce_fields, serving
from tests.support.logs.building import batch
from tests.support.waiting import soon

NUMBERS = count()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    settings = {"offsets_topic_num_partitions": 1, "group_initial_rebalance_delay_ms": 0}
    with serving(tmp_path_factory.mktemp("log"), **settings) as gateway:
        yield gateway


@pytest.fixture
def topic(gateway: Gateway) -> str:
    name = f"t{next(NUMBERS)}"
    with WireClient(gateway) as client:
        create_topic(client, name, 2)
    return name


def produce(gateway: Gateway, topic: str, first: int, last: int, partition: int = 0) -> None:
    values = [b"%d" % each for each in range(first, last)]
    with WireClient(gateway) as client:
        answer = client.ask(0, 8, **produce_fields(topic, batch(*values).tobytes(), partition=partition))
        assert not answer.responses[0].partition_responses[0].error_code


def connect(gateway: Gateway, group: str, start_offsets: Any = None, **settings: object) -> ConsumerConnector:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    defaults = {"auto.offset.reset": "smallest", "consumer.timeout.ms": 30_000}
    address = {"bootstrap.servers": "{}:{}".format(*gateway.address), "group.id": group}
    return ConsumerConnector.create({**defaults, **address, **given}, start_offsets=start_offsets)


def numbers(stream: Any, upto: int) -> list[int]:
    return [int(each.message) for each in islice(stream, upto)]


def test_messages_come_in_order_and_are_committed_at_the_shutdown(gateway: Gateway, topic: str) -> None:
    produce(gateway, topic, 0, 10)
    with connect(gateway, topic) as connector:
        (stream,) = connector.create_message_streams({topic: 1}, value_decoder=int)[topic]
        found = list(islice(stream, 4))
        assert [(each.topic, each.partition, each.offset, each.message) for each in found] == [
            (topic, 0, number, number) for number in range(4)
        ]
        assert [(each.next_offset, each.key, each.headers) for each in found][-1] == (4, None, ())
        assert found[0].timestamp > 0
        assert connector.positions()[(topic, 0, None)] == 4  # type: ignore[index]
    with connect(gateway, topic) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        assert numbers(stream, 6) == list(range(4, 10))


def test_a_commit_by_hand_is_where_the_next_consumer_begins(gateway: Gateway, topic: str) -> None:
    produce(gateway, topic, 0, 10)
    with connect(gateway, topic, auto_commit_enable=False) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        assert numbers(stream, 3) == [0, 1, 2]
        connector.commit_offsets()
        connector.commit_offsets()  # nothing is left to commit
        assert numbers(stream, 3) == [3, 4, 5]
    with connect(gateway, topic) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        assert numbers(stream, 7) == list(range(3, 10))


def test_streams_of_two_consumers_share_a_topic(gateway: Gateway, topic: str) -> None:
    one, other = connect(gateway, topic), connect(gateway, topic)
    first = Collected(one.create_message_streams({topic: 1})[topic][0])
    second = Collected(other.create_message_streams({topic: 1})[topic][0])
    soon(lambda: shares(one) == shares(other) == 1)
    for partition in (0, 1):
        produce(gateway, topic, 0, 50, partition)
    soon(lambda: len(first.messages) + len(second.messages) == 100)
    one.shutdown()
    first.thread.join(20)
    for partition in (0, 1):
        produce(gateway, topic, 50, 60, partition)
    soon(lambda: len(first.messages) + len(second.messages) == 120)
    other.shutdown()
    everything = [(each.partition, int(each.message)) for read in (first, second) for each in read.messages]
    assert sorted(everything) == [(partition, number) for partition in (0, 1) for number in range(60)]


def shares(connector: ConsumerConnector) -> int:
    """How many partitions it has."""
    return sum(len(each.progress.owned()) for each in connector._wire._streams.values())  # type: ignore[attr-defined]


def test_a_filter_follows_topics_that_come_later(gateway: Gateway) -> None:
    with connect(gateway, "filter") as connector:
        (stream,) = connector.create_message_streams_by_filter(Whitelist("later-.*"))
        reading = Collected(stream)
        for name in ("later-1", "other", "later-2"):
            with WireClient(gateway) as client:
                create_topic(client, name)
            produce(gateway, name, 0, 1)
        soon(lambda: {each.topic for each in reading.messages} == {"later-1", "later-2"})


def test_a_stream_times_out_and_can_be_used_again(gateway: Gateway, topic: str) -> None:
    with connect(gateway, topic, consumer_timeout_ms=50) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        with pytest.raises(ConsumerTimeoutError):
            next(stream)
        produce(gateway, topic, 0, 1)
        soon(lambda: numbers(stream, 1) == [0], ConsumerTimeoutError)


def test_a_timeout_of_zero_takes_what_is_there(gateway: Gateway, topic: str) -> None:
    produce(gateway, topic, 0, 1)
    with connect(gateway, topic, consumer_timeout_ms=0) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        soon(lambda: numbers(stream, 1) == [0], ConsumerTimeoutError)


def test_a_program_that_keeps_its_offsets_begins_and_rewinds_where_it_says(gateway: Gateway, topic: str) -> None:
    produce(gateway, topic, 0, 10)
    with connect(gateway, topic, {(topic, 0): 4}) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        assert numbers(stream, 6) == list(range(4, 10))
        connector.rewind({(topic, 0): 2})
        assert numbers(stream, 8) == list(range(2, 10))
        connector.rewind({(topic, 0): 7})
        assert numbers(stream, 2) == [7, 8]
        connector.rewind({(topic, 0): 1})  # while more of it is at hand
        assert numbers(stream, 9) == list(range(1, 10))
        with pytest.raises(ClientError, match="not read by this consumer"):
            connector.rewind({("nowhere", 0): 0})


def test_what_was_on_its_way_at_a_rewind_is_not_handed_out(gateway: Gateway, topic: str) -> None:
    produce(gateway, topic, 0, 10)
    for begin, rewound in ((4, 2), (2, 6)):
        with connect(gateway, f"{topic}-{begin}", {(topic, 0): begin}) as connector:
            (stream,) = connector.create_message_streams({topic: 1})[topic]
            source = connector._wire._streams[topic, 0]  # type: ignore[attr-defined]
            source._consumer = Interrupted(source._consumer, partial(connector.rewind, {(topic, 0): rewound}))
            assert numbers(stream, 10 - rewound) == list(range(rewound, 10))


class Interrupted:
    """A consumer of the library that makes a call when it has the first messages, before it returns them."""

    def __init__(self, consumer: Any, call: Callable[[], None]) -> None:
        self._consumer, self._calls = consumer, [call]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def consume(self, *given: float) -> list[Any]:
        found: list[Any] = self._consumer.consume(*given)
        if found and self._calls:
            self._calls.pop()()
        return found


def test_a_log_that_lost_its_end_is_read_where_the_settings_say(gateway: Gateway, topic: str) -> None:
    produce(gateway, topic, 0, 10)
    with connect(gateway, topic) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        assert numbers(stream, 10) == list(range(10))
        with LogManager.open(gateway.context.log_dir) as manager:
            manager.open_log(topic, 0).truncate_to(0)
        produce(gateway, topic, 20, 23)
        assert numbers(stream, 3) == [20, 21, 22]
        assert connector.positions()[(topic, 0, None)] == 3  # type: ignore[index]


def test_an_offset_outside_the_log_is_raised_if_the_settings_say_so(gateway: Gateway, topic: str) -> None:
    with connect(gateway, topic, {(topic, 0): 100}, auto_offset_reset="fail") as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        with pytest.raises(OffsetOutOfRangeError):
            next(stream)


def test_settings_that_do_not_go_together_are_refused(gateway: Gateway) -> None:
    with pytest.raises(InvalidConfigError, match=r"offsets\.storage = zookeeper"):
        connect(gateway, "g", offsets_storage="zookeeper")
    with pytest.raises(InvalidConfigError, match="librdkafka refuses"):
        connect(gateway, "g", security_protocol="nonsense").create_message_streams({"t": 1})
    with pytest.raises(InvalidConfigError, match="no registry"):
        ConsumerConnector.create({"bootstrap.servers": "h:1", "group.id": "g"}, registry=object())  # type: ignore[arg-type]


def test_a_commit_that_no_broker_takes_says_so(topic: str, gateway: Gateway) -> None:
    produce(gateway, topic, 0, 1)
    connector = connect(gateway, topic, offsets_commit_max_retries=0, auto_commit_enable=False, socket_timeout_ms=1000)
    (stream,) = connector.create_message_streams({topic: 1})[topic]
    assert numbers(stream, 1) == [0]
    source = connector._wire._streams[topic, 0]  # type: ignore[attr-defined]
    source._consumer = Refusing(source._consumer)
    with pytest.raises(BrokerUnreachableError, match="the commit of group"):
        connector.commit_offsets()
    connector.shutdown()


class Refusing:
    """A consumer of the library whose commits fail."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def commit(self, **_: object) -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))
