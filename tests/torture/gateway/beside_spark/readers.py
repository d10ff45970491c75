"""Readers that follow the topic from its beginning: librdkafka on the wire, and the engine on the files."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Protocol

import confluent_kafka as rdkafka

from pyspark_commitlog.storage import Isolation, LogManager, LogReader
from tests.torture.gateway.beside_spark.histories import History
from tests.torture.gateway.beside_spark.spark_driver import TOPIC
from tests.torture.gateway.clients import PARTITIONS, QUIET

END = rdkafka.KafkaError._PARTITION_EOF
PASSING = (rdkafka.KafkaError._ALL_BROKERS_DOWN, rdkafka.KafkaError._TRANSPORT)  # while the gateway is down


class Seen(Protocol):
    """What a reader has seen so far."""

    reader: str
    isolation: Isolation

    def add(self, partition: int, offset: int, key: bytes | None, value: bytes | None) -> None: ...

    @property
    def position(self) -> dict[int, int]: ...


def follow_wire(address: str, history: Seen, ending: threading.Event, *, topic: str = TOPIC) -> None:
    """A consumer that is in no group; at last it reads to the end."""
    level = history.isolation.value
    settings = {"bootstrap.servers": address, "group.id": f"wire {level}", "isolation.level": level, **QUIET}
    more = {"enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "error"}
    consumer = rdkafka.Consumer({**settings, **more})
    consumer.assign([rdkafka.TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    while not ending.is_set():
        _take(consumer, history)
    positions = history.position
    consumer.assign([rdkafka.TopicPartition(topic, each, positions.get(each, 0)) for each in range(PARTITIONS)])
    ended: set[int] = set()
    while len(ended) < PARTITIONS:
        ended |= _take(consumer, history)
    consumer.close()


def _take(consumer: Any, history: Seen) -> set[int]:
    """Takes some records; returns the partitions that are at their ends."""
    ended = set()
    for each in consumer.consume(500, 0.2):
        error = each.error()
        if error is None:
            history.add(each.partition(), each.offset(), each.key(), each.value())
        elif error.code() == END:
            ended.add(each.partition())
        else:
            assert error.code() in PASSING, f"{history.reader}: {error}"
    return ended


def follow_files(directory: Path, history: History, ending: threading.Event) -> None:
    """A reader of the files; at last it reads to the end."""
    with LogManager.open(str(directory)) as manager:
        readers = {partition: manager.open_reader(TOPIC, partition) for partition in range(PARTITIONS)}
        positions = dict.fromkeys(readers, 0)
        is_last = False
        while not is_last:
            is_last = ending.wait(0.2)
            for partition, reader in readers.items():
                reader.refresh()
                positions[partition] = _read(reader, partition, positions[partition], history)
        for reader in readers.values():
            reader.close()


def _read(reader: LogReader, partition: int, start: int, history: History) -> int:
    end = max(start, reader.end_offset(history.isolation))
    for part in reader.records(start, end, isolation=history.isolation):
        assert part.keys is not None
        assert part.values is not None
        for row in zip(part.offsets.tolist(), part.keys.to_list(), part.values.to_list(), strict=True):
            history.add(partition, *row)
    return end


def whole_log(directory: Path, isolation: Isolation = Isolation.READ_COMMITTED) -> History:
    """The topic as it is."""
    history, ending = History("the log", isolation), threading.Event()
    ending.set()
    follow_files(directory, history, ending)
    return history
