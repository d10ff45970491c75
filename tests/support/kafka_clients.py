"""Kafka's Java producer and consumer, a JVM a call (about a second); the programs are in ``tests/support/java``."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from tests.support import kafka_jvm

# Batches end where a test says so (a flush, a commit, batch.size), not where the sender thread happened to look.
_PRODUCER = {"acks": "all", "linger.ms": "60000", "delivery.timeout.ms": "120000"}

Headers = tuple[tuple[str, bytes | None], ...]
Isolation = Literal["read_committed", "read_uncommitted"]


@dataclass(frozen=True)
class ProducerRecord:
    """A record to send. Kafka's partitioner and clock fill a ``partition`` and ``timestamp_ms`` of None."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Headers = ()
    topic: str | None = None  # another than the call's


class Step(StrEnum):
    """What a producer does between two records."""

    BEGIN = "begin"
    COMMIT = "commit"
    ABORT = "abort"  # sends what is buffered first, so that the log holds the aborted records
    FLUSH = "flush"
    HALT = "halt"  # sends what is buffered and dies: an open transaction stays open; later steps are not done


@dataclass(frozen=True)
class SendOffsets:
    """Commit consumer offsets inside the transaction: (topic, partition) -> offset."""

    group: str
    offsets: Mapping[tuple[str, int], int]


Action = ProducerRecord | Step | SendOffsets


@dataclass(frozen=True)
class Sent:
    """Where a record went. ``timestamp_ms`` is -1 for a producer without acks."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


@dataclass(frozen=True)
class Consumed:
    """A record as the Java consumer saw it. ``timestamp_type``: CreateTime, LogAppendTime or NoTimestampType."""

    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    leader_epoch: int | None


def java_produce(
    bootstrap: str,
    topic: str,
    steps: Iterable[Action],
    props: Mapping[str, str] | None = None,
) -> list[Sent]:
    """Send records to ``topic``, in order, with one Java producer; returns where each went, in order.

    ``props`` are the producer's. It is idempotent unless ``enable.idempotence`` is "false"; ``transactional.id`` makes
    it transactional, and then ``steps`` must hold Step.BEGIN, and Step.COMMIT or Step.ABORT. ``linger.ms`` is 60000:
    records between two steps that flush go to a partition as one batch, if ``batch.size`` (16384 bytes) holds them.

    Raises:
        JavaError: any error of the producer, with Java's class and message in it.
    """
    lines = [_PRODUCER | {"bootstrap.servers": bootstrap} | dict(props or {}), *(_step(step, topic) for step in steps)]
    done = kafka_jvm.run_main("Produce", [], stdin="".join(json.dumps(line) + "\n" for line in lines))
    return [Sent(**json.loads(line)) for line in done.stdout.splitlines()]


def java_consume(
    bootstrap: str,
    topic: str,
    isolation: Isolation = "read_committed",
    *,
    start: Mapping[int, int] | None = None,
    props: Mapping[str, str] | None = None,
    timeout_s: float = 60,
) -> list[Consumed]:
    """All records of ``topic``, by partition, within one in the order the Java consumer handed them out.

    Reads from the beginning, or in the partitions named in ``start`` from the offset given there, to the end offsets:
    the last stable offset for read_committed, the high watermark for read_uncommitted. Checksums are checked.

    Raises:
        JavaError: any error of the consumer, with Java's class and message in it, or ``timeout_s`` is over.
    """
    defaults = {"bootstrap.servers": bootstrap, "isolation.level": isolation, "auto.offset.reset": "none"}
    request = {
        "topic": topic,
        "props": defaults | dict(props or {}),
        "start": dict(start or {}),
        "timeout_ms": round(timeout_s * 1000),
    }
    done = kafka_jvm.run_main("Consume", [], stdin=json.dumps(request), timeout_s=timeout_s + 30)
    return sorted(map(_consumed, done.stdout.splitlines()), key=lambda record: record.partition)


def _step(step: Action, topic: str) -> dict[str, Any]:
    match step:
        case Step():
            return {"do": step.value}
        case SendOffsets(group, offsets):
            return {"do": "offsets", "group": group, "offsets": [[*where, offset] for where, offset in offsets.items()]}
    return {
        "do": "send",
        "topic": step.topic or topic,
        "partition": step.partition,
        "timestamp_ms": step.timestamp_ms,
        "key": _encoded(step.key),
        "value": _encoded(step.value),
        "headers": [[name, _encoded(value)] for name, value in step.headers],
    }


def _consumed(line: str) -> Consumed:
    fields = json.loads(line)
    headers = tuple((name, _decoded(value)) for name, value in fields["headers"])
    return Consumed(**fields | {"key": _decoded(fields["key"]), "value": _decoded(fields["value"]), "headers": headers})


def _encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
