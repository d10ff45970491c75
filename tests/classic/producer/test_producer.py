"""Producer over a log directory: what a program sends is there, as it was sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pyspark_commitlog.classic.errors import InvalidMessageError, NotSentError, QueueClosedError
from pyspark_commitlog.classic.producer import Encoder, Producer, ProducerData, QueueItem, Record, Sender
from pyspark_commitlog.storage import InvalidConfigError, LogManager
from tests.classic.producer.reading import records_in, values_in

STRINGS = {"serializer.class": "kafka.serializer.StringEncoder"}


class ReversingEncoder:
    """An encoder of a user's own, which makes a record."""

    def to_message(self, data: str) -> Record:
        return Record(data[::-1].encode(), b"key", (("from", data.encode()),), 1_600_000_000_000)


class FirstOnlyHandler:
    """An event handler of a user's own."""

    def init(self, props: Mapping[str, str]) -> None:
        self.topic = props["topic"]

    def handle(self, events: Sequence[QueueItem], sync_producer: Sender, encoder: Encoder) -> None:
        sync_producer.send(self.topic, 0, [encoder.to_message(events[0].data)])

    def close(self) -> None: ...


class LastPartitioner:
    """A partitioner of a user's own."""

    def partition(self, key: object, num_partitions: int) -> int:
        return num_partitions - 1


def test_one_and_many_are_sent_in_their_order(tmp_path: Path) -> None:
    with Producer({"log.dir": str(tmp_path)}) as producer:
        producer.send(ProducerData("t", None, b"1"))
        producer.send(ProducerData("t", None, [b"2", b"3"]))
        producer.send([ProducerData("t", None, b"4"), ProducerData("u", None, [b"5"]), ProducerData("t", None, [b"6"])])
        assert values_in(tmp_path) == [b"1", b"2", b"3", b"4", b"6"]
        assert values_in(tmp_path, "u") == [b"5"]
        assert producer.figures[4:6] == (6, 3)


def test_an_encoder_of_ones_own_makes_whole_records(tmp_path: Path) -> None:
    settings = {"log.dir": str(tmp_path), "serializer.class": f"{__name__}:ReversingEncoder"}
    with Producer({**settings, "compression.codec": "snappy"}) as producer:
        producer.send(ProducerData("t", None, ["abc", "def"]))
    (table,) = records_in(tmp_path)
    assert table.keys is not None
    assert table.headers is not None
    assert values_in(tmp_path) == [b"cba", b"fed"]
    assert table.keys.to_list() == [b"key", b"key"]
    assert table.timestamps.tolist() == [1_600_000_000_000] * 2
    assert table.headers.to_list() == [[(b"from", b"abc")], [(b"from", b"def")]]


def test_keys_are_encoded_and_choose_the_partition_as_kafka_does_today(tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path), create=True) as manager:
        manager.create_topic("t", partitions=4)
    keys = ["21", "foobar", "a-little-bit-long-string", "a-little-bit-longer-string", "abc"]
    with Producer({"log.dir": str(tmp_path), **STRINGS}) as producer:
        producer.send([ProducerData("t", key, key) for key in keys])
    hashes = [-973932308, -790332482, -985981536, -1486304829, 479470107]  # of Kafka's own UtilsTest
    expected: list[list[bytes | None]] = [[] for _ in range(4)]
    for key, hashed in zip(keys, hashes, strict=True):
        expected[(hashed & 0x7FFFFFFF) % 4].append(key.encode())
    assert [values_in(tmp_path, "t", each) for each in range(4)] == expected
    (table,) = records_in(tmp_path, "t", 2)
    assert table.keys is not None
    assert table.keys.to_list() == [b"foobar"]


def test_a_partitioner_of_ones_own_chooses(tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path), create=True) as manager:
        manager.create_topic("t", partitions=3)
    with Producer({"log.dir": str(tmp_path), "partitioner.class": f"{__name__}:LastPartitioner"}) as producer:
        producer.send(ProducerData("t", b"k", b"1"))
    assert values_in(tmp_path, "t", 2) == [b"1"]


def test_an_event_handler_of_ones_own_sends(tmp_path: Path) -> None:
    settings = {
        "log.dir": str(tmp_path),
        "producer.type": "async",
        "event.handler": f"{__name__}:FirstOnlyHandler",
        "event.handler.props": "topic=u",
        **STRINGS,
    }
    with Producer(settings) as producer:
        producer.send(ProducerData("t", None, ["1", "2"]))
    assert values_in(tmp_path, "u") == [b"1"]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_message_that_cannot_be_encoded_loses_no_other(tmp_path: Path, kind: str) -> None:
    with Producer({"log.dir": str(tmp_path), "producer.type": kind, **STRINGS}) as producer:
        if kind == "sync":
            with pytest.raises(NotSentError, match=r"1 of 3 .* takes text, not int"):
                producer.send(ProducerData("t", None, ["1", 2, "3"]))
            with pytest.raises(InvalidMessageError):
                producer.send(ProducerData("t", None, 4))
        else:
            producer.send(ProducerData("t", None, ["1", 2, "3"]))
    assert values_in(tmp_path) == [b"1", b"3"]
    assert producer.figures.lost_events == (kind == "async")


def test_a_closed_producer_sends_nothing(tmp_path: Path) -> None:
    producer = Producer({"log.dir": str(tmp_path)})
    producer.close()
    producer.close()
    with pytest.raises(QueueClosedError):
        producer.send(ProducerData("t", None, b"1"))


def test_handlers_need_a_queue(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match=r"need producer\.type = async"):
        Producer({"log.dir": str(tmp_path)}, event_handler=FirstOnlyHandler())


def test_the_queue_is_written_to_the_log_in_order_and_close_waits_for_it(tmp_path: Path) -> None:
    settings = {"log.dir": str(tmp_path), "producer.type": "async", "batch.size": 50, "queue.size": 60}
    with Producer(settings) as producer:
        for number in range(500):
            producer.send(ProducerData("t", None, b"%d" % number))
    assert values_in(tmp_path) == [b"%d" % number for number in range(500)]
    assert producer.figures[:6] == (500, 0, 0, 0, 500, 10)
