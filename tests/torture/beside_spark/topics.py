"""The topics of a run, on a broker: those of the tests, and some that the seed draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from kafka import KafkaConsumer, TopicPartition  # type: ignore[import-untyped]

from tests.support.kafka.broker import Action, Broker, ProducerRecord, Step, Topic, create_topics, java_produce
from tests.support.spark.kafka_source import FIRST_MS, delete_records, fill

DRAWN = 4
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TRANSACTIONAL = {"txn"}  # besides those that are drawn so
WITH_HOLES = {"gap", "compacted"}
OF_TESTS = {"plain": 3, "plain.too": 1, "append-time": 1, "txn": 2, "gap": 2, "compacted": 1, "empty": 1}


@dataclass(frozen=True)
class Content:
    """A topic as its broker describes it."""

    starts: tuple[int, ...]  # the log start offset of each partition
    ends: tuple[int, ...]  # the offset after the last record or marker
    is_plain: bool  # no transactions, nothing deleted: Kafka finds times as we do

    @property
    def partitions(self) -> range:
        return range(len(self.starts))


def fill_for(broker: Broker, seed: int) -> dict[str, Content]:
    """Writes the topics of ``seed``, and returns what the broker says of them."""
    fill(broker)
    counts, odd = dict(OF_TESTS), TRANSACTIONAL | WITH_HOLES
    for number in range(DRAWN):
        chance, name = Random(f"{seed}/topic/{number}"), f"drawn.{number}"
        counts[name], is_plain = _write(broker, name, chance)
        odd |= set() if is_plain else {name}
    return described(broker, counts, odd)


def described(broker: Broker, counts: dict[str, int], odd: set[str]) -> dict[str, Content]:
    """Asks the broker for the ends of the topics, given with their numbers of partitions."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    try:
        found = {}
        for name, count in counts.items():
            partitions = [TopicPartition(name, number) for number in range(count)]
            starts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
            found[name] = Content(
                tuple(starts[each] for each in partitions), tuple(ends[each] for each in partitions), name not in odd
            )
        return found
    finally:
        consumer.close()


def _write(broker: Broker, name: str, chance: Random) -> tuple[int, bool]:
    """Returns the number of partitions, and whether the topic has neither transactions nor deleted records."""
    partitions, is_transactional = chance.randint(1, 4), chance.random() < 0.4
    small = chance.random() < 0.5
    configs = {"retention.ms": "-1"} | ({"segment.bytes": "2000"} if small else {})
    create_topics(broker.bootstrap, {name: Topic(partitions, configs)})
    given = {"compression.type": chance.choice(CODECS)} | ({"batch.size": "1000"} if small else {})
    if is_transactional:
        steps = [step for _ in range(chance.randint(1, 4)) for step in _transaction(chance, partitions)]
        java_produce(broker.bootstrap, name, steps, given | {"transactional.id": name})
    else:
        java_produce(broker.bootstrap, name, _records(chance, partitions), given)
    is_cut = chance.random() < 0.4
    if is_cut:
        _cut(broker, name, chance)
    return partitions, not (is_transactional or is_cut)


def _transaction(chance: Random, partitions: int) -> Iterator[Action]:
    yield Step.BEGIN
    yield from _records(chance, partitions, most=25)
    yield chance.choice((Step.COMMIT, Step.COMMIT, Step.ABORT))


def _records(chance: Random, partitions: int, most: int = 80) -> Iterator[Action]:
    """Records of each partition, whose times run on, jump back and forth, or stay the same."""
    for partition in range(partitions):
        spread_ms = chance.choice((0, 0, 5_000, 60_000))
        step_ms = chance.choice((0, 1, 1000))
        for i in range(chance.choice((0, chance.randint(1, most), most))):
            time_ms = FIRST_MS + i * step_ms + chance.randint(0, spread_ms)
            key = None if chance.random() < 0.2 else b"key %d" % chance.randrange(9)
            value = None if chance.random() < 0.1 else chance.randbytes(chance.choice((0, 5, 200)))
            headers = (("h", b"%d" % i), ("null", None)) if chance.random() < 0.2 else ()
            yield ProducerRecord(value, key, partition, time_ms, headers)
            if chance.random() < 0.1:
                yield Step.FLUSH


def _cut(broker: Broker, name: str, chance: Random) -> None:
    """Deletes the first records of a partition that has some."""
    found = described(broker, {name: 1}, set())[name]
    if found.ends[0] > 1:
        delete_records(broker, name, 0, before=chance.randrange(1, found.ends[0]))
