"""Topics on a broker that have something for each option of Spark's Kafka source."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from kafka import TopicPartition  # type: ignore[import-untyped]
from kafka.admin import KafkaAdminClient  # type: ignore[import-untyped]

from tests.support.kafka.broker import Action, Broker, ProducerRecord, Step, Topic, create_topics, java_produce

FIRST_MS = 1_700_000_000_000
_HOUR_MS = 3_600_000
# A broker compacts when it looks, and writes to its directory where logs begin from time to time (15 s, 60 s).
PROMPT = {"log.cleaner.backoff.ms": "100", "log.flush.start.offset.checkpoint.interval.ms": "100"}


def fill(broker: Broker) -> None:
    """Write these topics; ``broker`` was started with ``PROMPT``.

    | topic | partitions: records | what is special |
    | --- | --- | --- |
    | plain | 60, 40, 5 | small batches, times that go back and forth within 10 s, headers, null keys and values |
    | plain.too | 30 | a second each from FIRST_MS on |
    | append-time | 10 | LogAppendTime |
    | txn | 20 committed, 15 aborted, 20 committed; 10, none | a transaction is open at the end of partition 0 |
    | gap | 50, 20 | the first 25 of partition 0 are deleted |
    | compacted | 200, the older ones with holes | every third has a key of its own, the others share ten |
    | empty | none | |
    """
    create_topics(broker.bootstrap, _TOPICS)
    java_produce(broker.bootstrap, "compacted", _updates())
    java_produce(broker.bootstrap, "plain", _plain())
    java_produce(broker.bootstrap, "plain.too", _values(30))
    java_produce(broker.bootstrap, "append-time", _values(10))
    java_produce(broker.bootstrap, "gap", [*_values(50), *_values(20, partition=1)])
    _write_transactions(broker.bootstrap)
    delete_records(broker, "gap", 0, before=25)
    active = max(int(path.stem) for path in (broker.log_dir / "compacted-0").glob("*.log"))
    _await_line(broker.log_dir / "cleaner-offset-checkpoint", f"compacted 0 {active}")


_KEEP = {"retention.ms": "-1"}  # the records say that they are old
_TOPICS = {
    "plain": Topic(3, _KEEP),
    "plain.too": Topic(1, _KEEP),
    "append-time": Topic(1, {"message.timestamp.type": "LogAppendTime"}),
    "txn": Topic(2, _KEEP),
    "gap": Topic(2, _KEEP),
    "compacted": Topic(1, {"cleanup.policy": "compact", "segment.bytes": "1000", "min.cleanable.dirty.ratio": "0.01"}),
    "empty": Topic(1),
}


def _plain() -> Iterator[Action]:
    for partition, count in enumerate((60, 40, 5)):
        for i in range(count):
            yield ProducerRecord(
                None if i % 11 == 3 else b"" if i % 11 == 4 else b"value %d" % i,
                None if i % 7 == 2 else b"key %d" % (i % 5),
                partition,
                FIRST_MS + partition * _HOUR_MS + (i + (-1) ** i * 10) * 1000,
                (("trace", b"%d" % i), ("empty", b""), ("null", None)) if i % 4 == 1 else (),
            )
            if i % 8 == 7:
                yield Step.FLUSH


def _values(count: int, *, partition: int = 0) -> Iterator[Action]:
    for i in range(count):
        yield ProducerRecord(b"%d" % i, b"key %d" % (i % 7), partition, FIRST_MS + i * 1000)
        if i % 10 == 9:
            yield Step.FLUSH


def _updates() -> Iterator[Action]:
    for i in range(200):
        yield ProducerRecord(b"%d" % i, b"key %d" % (i if i % 3 == 0 else i % 10), 0, FIRST_MS + i * 1000)
        if i % 20 == 19:
            yield Step.FLUSH


def _write_transactions(bootstrap: str) -> None:
    """The one left open outlives the tests: the coordinator would end it after its timeout."""
    ended = [(20, Step.COMMIT), (15, Step.ABORT), (20, Step.COMMIT)]
    steps = [step for count, end in ended for step in (Step.BEGIN, *_values(count), end)]
    java_produce(bootstrap, "txn", steps, {"transactional.id": "ended"})
    last = {"transactional.id": "open", "transaction.timeout.ms": "900000"}
    java_produce(bootstrap, "txn", [Step.BEGIN, *_values(10), Step.VANISH], last)


def delete_records(broker: Broker, topic: str, partition: int, *, before: int) -> None:
    """Move the log start offset to ``before``, as retention would; returns when the directory says so."""
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        admin.delete_records({TopicPartition(topic, partition): before})
    finally:
        admin.close()
    _await_line(broker.log_dir / "log-start-offset-checkpoint", f"{topic} {partition} {before}")


def _await_line(checkpoint: Path, line: str) -> None:
    deadline = time.monotonic() + 60
    while not checkpoint.exists() or line not in checkpoint.read_text().splitlines():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the broker did not write {line!r} to {checkpoint} within 60 s")
        time.sleep(0.05)
