"""Kafka's dump tool, and its Java producer and consumer, new ones a call; the programs are in ``java/``.

A JVM costs a second, so the first call starts one and later calls use it again; calls of several threads get one each.
"""

from __future__ import annotations

import atexit
import base64
import json
import os
import subprocess
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from tests.support.kafka import kafka_jvm
from tests.support.kafka.kafka_jvm import JavaError

# Batches end where a test says so (a flush, a commit, batch.size), not where the sender thread happened to look.
_PRODUCER = {"acks": "all", "linger.ms": "60000", "delivery.timeout.ms": "120000"}
# By default a fetch that the broker answers only after 500 ms is under way at the end, and closing waits for it.
_CONSUMER = {"auto.offset.reset": "none", "fetch.max.wait.ms": "5"}

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
    VANISH = "vanish"  # sends what is buffered and is gone, as after a crash: an open transaction stays open


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


@dataclass(frozen=True)
class FileDump:
    """What the dump tool printed about one file, and the exception it ended with, if any, as Java prints it."""

    stdout: str
    stderr: str
    failure: str | None


@dataclass(frozen=True)
class DumpOutput:
    """What the dump tool printed, by file, in the order asked for."""

    files: Mapping[Path, FileDump]

    @property
    def stdout(self) -> str:
        return "".join(file.stdout for file in self.files.values())

    @property
    def stderr(self) -> str:
        return "".join(file.stderr for file in self.files.values())


def dump_log(files: Iterable[Path], *flags: str, check: bool = True) -> DumpOutput:
    """``kafka.tools.DumpLogSegments`` on each of ``files``, as if the command were called a file at a time.

    ``files`` are .log, .index, .timeindex, .txnindex or .snapshot; ``flags`` as ``--print-data-log``. The first line of
    each text is ``Dumping <path>``. For an index file the tool also reads its .log, for a .timeindex its .index too,
    and fails where that is missing (leaving an empty one behind).

    Raises:
        JavaError: the tool threw at a file, and ``check`` is set; without, the failure stands beside that file.
        ValueError: a path with a comma, at which the tool would split it.
    """
    paths = list(files)
    if split := [str(path) for path in paths if "," in str(path)]:
        raise ValueError(f"need paths without commas, got {split}")
    request = {"do": "dump", "files": list(map(str, paths)), "flags": flags}
    rows = ask(request, timeout_s=600)
    dumps = {path: FileDump(**row) for path, row in zip(paths, rows, strict=True)}
    for path, dump in dumps.items():
        if check and dump.failure:
            raise JavaError(f"DumpLogSegments {path}", dump.failure, dump.stdout, dump.stderr)
    return DumpOutput(dumps)


def console_consume(bootstrap: str, topic: str, group: str, count: int) -> list[bytes]:
    """The values of the next records for a group of Kafka's console consumer, which commits behind the last of them."""
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--from-beginning"]
    limits = ["--max-messages", str(count), "--timeout-ms", "60000"]
    shown = kafka_jvm.run_main("org.apache.kafka.tools.consumer.ConsoleConsumer", [*arguments, *limits])
    return [line.encode() for line in shown.split()]


def java_produce(
    bootstrap: str,
    topic: str,
    steps: Iterable[Action],
    props: Mapping[str, str] | None = None,
    *,
    timeout_s: float = 120,
) -> list[Sent]:
    """Send records to ``topic``, in order, with one Java producer; returns where each went, in order.

    ``props`` are the producer's. It is idempotent unless ``enable.idempotence`` is "false"; ``transactional.id`` makes
    it transactional, and then ``steps`` must hold Step.BEGIN, and Step.COMMIT or Step.ABORT. ``linger.ms`` is 60000:
    records between two steps that flush go to a partition as one batch, if ``batch.size`` (16384 bytes) holds them.

    Returns when the markers of the last transaction are written, too.

    Raises:
        JavaError: any error of the producer, with Java's class and message in it, or ``timeout_s`` is over.
    """
    request = {
        "do": "produce",
        "props": _PRODUCER | {"bootstrap.servers": bootstrap} | dict(props or {}),
        "steps": [_step(step, topic) for step in steps],
    }
    return [Sent(**row) for row in ask(request, timeout_s)]


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
    request = {
        "do": "consume",
        "topic": topic,
        "props": _CONSUMER | {"bootstrap.servers": bootstrap, "isolation.level": isolation} | dict(props or {}),
        "start": dict(start or {}),
        "timeout_ms": round(timeout_s * 1000),
    }
    rows = ask(request, timeout_s=timeout_s + 30)
    return sorted(map(_consumed, rows), key=lambda record: record.partition)


_idle: list[subprocess.Popen[str]] = []
os.register_at_fork(after_in_child=_idle.clear)  # two processes on one pair of pipes would read each other's answers


@atexit.register
def _end_idle() -> None:
    while _idle:
        with _idle.pop() as process:
            process.kill()


def ask(request: Mapping[str, Any], timeout_s: float) -> list[dict[str, Any]]:
    """The rows a JVM running ``Clients`` answers ``request`` with."""
    process = _idle_or_new()
    watch = threading.Timer(timeout_s, process.kill)
    watch.start()
    try:
        rows = _answer(process, request)
    except BrokenPipeError:
        rows = []
    finally:
        watch.cancel()
    if not rows or "end" not in rows[-1]:
        with process:
            process.kill()
        raise JavaError("Clients", f"ended, or was ended after {timeout_s} s, within its answer", str(rows), "")
    _idle.append(process)
    if failure := rows.pop()["end"]:
        raise JavaError(str(request["do"]), "failed", str(rows), failure)
    return rows


def _idle_or_new() -> subprocess.Popen[str]:
    while _idle:
        process = _idle.pop()
        if process.poll() is None:
            return process
        process.communicate()
    command = [*kafka_jvm.jvm(), "Clients"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)


def _answer(process: subprocess.Popen[str], request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows up to the one that says "end"; without that one if the process ended before."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    rows: list[dict[str, Any]] = []
    for line in process.stdout:
        rows.append(json.loads(line))
        if "end" in rows[-1]:
            break
    return rows


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


def _consumed(fields: Mapping[str, Any]) -> Consumed:
    headers = tuple((name, _decoded(value)) for name, value in fields["headers"])
    return Consumed(
        **{**fields, "key": _decoded(fields["key"]), "value": _decoded(fields["value"]), "headers": headers}
    )


def _encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
