"""Our clients beside kafka-python's, on today's wire to one broker of Kafka 3.9.1; producers to a log directory too.

Records have 100 bytes; batches have 200 records, by ``batch.size`` of ours and by the bytes of kafka-python's, where
librdkafka, below ours, joins batches that wait for the broker. Both are idempotent, with ``acks`` = all. A round ends
when all records are acknowledged: our producer is closed then, and kafka-python's flushed and closed. A stream and
kafka-python's consumer read all records from their first to their last, each in a group of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, islice
from typing import NamedTuple

from kafka import KafkaConsumer, KafkaProducer  # type: ignore[import-untyped]

from benchmarks.comparison import Comparison, Setting
from benchmarks.gateway_servers import Kafka
from benchmarks.timing import Timing
from pyspark_commitlog.classic.producer import Producer, ProducerData
from pyspark_commitlog.classic.streams import ConsumerConnector

AGAINST = "kafka-python"
RECORDS = 200_000
VALUE = b"x" * 100
BATCH = 200
WAIT_MS = 5  # for a batch to fill
PARTITIONS = 4
TOPICS = count()
GROUPS = count()
PRODUCER_RATIO = 5.0  # what is required of the producer on today's wire
STREAM_RATIO = 2.0  # and of streams


class Used(NamedTuple):
    """What a round took."""

    seconds: float
    cpu_s: float  # of this process, with the threads of the library


def measure(setting: Setting) -> Iterator[Comparison]:
    with Kafka(setting.directory / "kafka") as kafka:
        yield from _producers(setting, kafka)
        yield from _consumers(setting, kafka)


def _producers(setting: Setting, kafka: Kafka) -> Iterator[Comparison]:
    records = setting.sized(RECORDS)
    directory: dict[str, object] = {"log.dir": str(setting.directory / "log")}
    peers: dict[str, Callable[[], Used]] = {
        "theirs": partial(_to_kafka, kafka, partial(_kafka_python, records)),
        "ours": partial(_to_kafka, kafka, partial(_ours, records)),
        "directory": partial(_used, partial(_ours, records, directory, "t")),
    }
    rounds = [{name: run() for name, run in peers.items()} for _ in range(1 + setting.rounds)][1:]
    seconds, cpu_s = ({name: Timing.of(each[name][figure] for each in rounds) for name in peers} for figure in range(2))
    told = f"async producer, {records:,} records of 100 B, batches of {BATCH}"
    yield Comparison(told, AGAINST, seconds["ours"], seconds["theirs"], PRODUCER_RATIO)
    yield Comparison(f"CPU of the client: {told}", AGAINST, cpu_s["ours"], cpu_s["theirs"])
    told = f"{told}, to a log directory, synced"
    yield Comparison(told, AGAINST, seconds["directory"], seconds["theirs"])
    yield Comparison(f"CPU of the client: {told}", AGAINST, cpu_s["directory"], cpu_s["theirs"])


def _consumers(setting: Setting, kafka: Kafka) -> Iterator[Comparison]:
    records = setting.sized(RECORDS)
    kafka.create("read", PARTITIONS)
    _ours(records, {"bootstrap.servers": kafka.bootstrap}, "read")
    peers = {"theirs": _read_by_kafka_python, "ours": _read_by_a_stream}
    rounds = [{name: read(kafka, records) for name, read in peers.items()} for _ in range(1 + setting.rounds)][1:]
    seconds, cpu_s = ({name: Timing.of(each[name][figure] for each in rounds) for name in peers} for figure in range(2))
    told = f"stream, {records:,} records of 100 B"
    yield Comparison(told, AGAINST, seconds["ours"], seconds["theirs"], STREAM_RATIO)
    yield Comparison(f"CPU of the client: {told}", AGAINST, cpu_s["ours"], cpu_s["theirs"])


def _read_by_kafka_python(kafka: Kafka, records: int) -> Used:
    consumer = KafkaConsumer(
        "read",
        bootstrap_servers=kafka.bootstrap,
        group_id=f"group-{next(GROUPS)}",
        auto_offset_reset="earliest",
    )
    next(consumer)  # the group has settled
    used = _used(lambda: sum(len(each.value) for each in islice(consumer, records - 1)))
    consumer.close()
    return used


def _read_by_a_stream(kafka: Kafka, records: int) -> Used:
    settings = {
        "bootstrap.servers": kafka.bootstrap,
        "group.id": f"group-{next(GROUPS)}",
        "auto.offset.reset": "smallest",
    }
    with ConsumerConnector.create(settings) as connector:
        (stream,) = connector.create_message_streams({"read": 1})["read"]
        next(stream)
        return _used(lambda: sum(len(each.message or b"") for each in islice(stream, records - 1)))


def _to_kafka(kafka: Kafka, send: Callable[[dict[str, object], str], object]) -> Used:
    """What sending to a new topic takes."""
    topic = f"t{next(TOPICS)}"
    kafka.create(topic, PARTITIONS)
    return _used(partial(send, {"bootstrap.servers": kafka.bootstrap}, topic))


def _used(run: Callable[[], object]) -> Used:
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    run()
    return Used(time.perf_counter() - began_s, time.process_time() - began_cpu_s)


def _kafka_python(records: int, target: dict[str, object], topic: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=target["bootstrap.servers"],
        acks="all",
        linger_ms=WAIT_MS,
        batch_size=BATCH * (len(VALUE) + 10),
    )
    for _ in range(records):
        producer.send(topic, VALUE)
    producer.flush()
    producer.close()


def _ours(records: int, target: dict[str, object], topic: str) -> None:
    settings = {**target, "producer.type": "async", "batch.size": BATCH, "queue.time": WAIT_MS}
    with Producer(settings) as producer:
        for _ in range(records):
            producer.send(ProducerData(topic, None, VALUE))
    if producer.figures.lost_events:
        raise RuntimeError(f"{producer.figures.lost_events} records were lost")
