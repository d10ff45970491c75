"""Sources and targets of mirrors in tests: gateways in this process, and what their logs have."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import NamedTuple, Self

import numpy as np
from kafka import KafkaAdminClient, TopicPartition as KafkasPartition

from pyspark_commitlog.classic.topic_filters import Whitelist
from pyspark_commitlog.mirror.errors import RetriableError
from pyspark_commitlog.mirror.run import Mirror
from pyspark_commitlog.mirror.settings import SourceSettings, TargetSettings
from pyspark_commitlog.mirror.targets.port import Batches, Progress, Taking, Targets, TargetWriter
from pyspark_commitlog.mirror.topics import TopicChoice
from pyspark_commitlog.storage import BatchFields, Codec, Isolation, LogManager, NotALogDirError, Records
from pyspark_commitlog.storage.format import scan
from pyspark_commitlog.storage.format.v2 import LAYOUT
from tests.support.gateway import serving

Pair = tuple[bytes | None, bytes | None]  # key and value


class Place(NamedTuple):
    """A log directory and the gateway that serves it."""

    directory: Path
    bootstrap: str

    def source(self, group: str, **more: str) -> SourceSettings:
        """A consumer.config; ``more`` by names with ``_`` in place of dots."""
        given = {"group.id": group, "bootstrap.servers": self.bootstrap, **_dotted(more)}
        return SourceSettings.parse(given)

    def target(self, **more: str) -> TargetSettings:
        """A producer.config."""
        return TargetSettings.parse({"bootstrap.servers": self.bootstrap, **_dotted(more)})


def _dotted(settings: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}


@contextmanager
def place(directory: Path) -> Iterator[Place]:
    with serving(directory) as gateway:
        host, port = gateway.address
        yield Place(directory, f"{host}:{port}")


def fill(
    directory: Path,
    topic: str,
    pairs: Sequence[Pair],
    *,
    partition: int = 0,
    partitions: int = 1,
    codec: Codec = Codec.NONE,
    **configs: str,
) -> None:
    """Appends one batch to a topic, which is created if it is missing."""
    with LogManager.open(str(directory), create=True) as manager:
        if manager.find_topic(topic) is None:
            manager.create_topic(topic, partitions=partitions, configs=_dotted(configs))
        batch = Records.to_append([key for key, _ in pairs], [value for _, value in pairs], int(time.time() * 1000))
        manager.open_log(topic, partition).append_records(batch, BatchFields(codec=codec))


def numbered(first: int, count: int, prefix: str = "") -> list[Pair]:
    """Records that say which they are."""
    return [(b"key %d" % (number % 5), f"{prefix}{number}".encode() + b"." * 50) for number in range(first, count)]


def contents(directory: Path, topic: str) -> dict[int, list[Pair]]:
    """The committed records of each partition, in order."""
    with LogManager.open(str(directory)) as manager:
        return {number: _pairs(manager, topic, number) for number in manager.topic(topic).partitions}


def _pairs(manager: LogManager, topic: str, number: int) -> list[Pair]:
    found: list[Pair] = []
    with manager.open_reader(topic, number) as reader:
        end = reader.end_offset(Isolation.READ_COMMITTED)
        for piece in reader.records(reader.log_start_offset, end, isolation=Isolation.READ_COMMITTED):
            assert piece.keys is not None
            assert piece.values is not None
            found += zip(piece.keys.to_list(), piece.values.to_list(), strict=True)
    return found


def topics(directory: Path) -> list[str]:
    try:
        with LogManager.open(str(directory)) as manager:
            return sorted(name for name in manager.topics() if not name.startswith("__"))
    except NotALogDirError:  # it is missing, or still empty
        return []


def encoded_records(directory: Path, topic: str, partition: int = 0) -> list[bytes]:
    """The records of each batch as they are encoded, perhaps compressed; without markers."""
    found = []
    for path in sorted((directory / f"{topic}-{partition}").glob("*.log")):
        data = path.read_bytes()
        headers = scan(np.frombuffer(data, dtype=np.uint8)).headers
        table = headers[~headers.is_control].table[["position", "size"]].tolist()
        found += [data[position + LAYOUT.itemsize : position + size] for position, size in table]
    return found


def mirrored(sources: Sequence[SourceSettings], target: TargetSettings, names: str = ".*", **more: object) -> Mirror:
    """Runs a mirror up to the ends of the topics; ``more``: fields of TopicChoice, and arguments of Mirror."""
    of_mirror = {name: more.pop(name) for name in ("streams", "queue_size", "report") if name in more}
    mirror = Mirror(sources, target, TopicChoice(Whitelist(names), **more), **of_mirror)  # type: ignore[arg-type]
    mirror.run()
    return mirror


class Following:
    """A mirror that goes on in a thread until the block ends."""

    def __init__(
        self, sources: Sequence[SourceSettings], target: TargetSettings, names: str = ".*", **more: int
    ) -> None:
        self._mirror = Mirror(sources, target, TopicChoice(Whitelist(names)), refresh_s=0.1, **more)
        self._thread = Thread(target=self._mirror.run)

    def wait_until(self, holds: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + 60
        while not holds():
            assert self._thread.is_alive()
            assert time.monotonic() < deadline_s
            time.sleep(0.05)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._mirror.stop()
        self._thread.join()


class Failing:
    """Targets whose writers fail now and then: before a transaction is written, and after it is committed."""

    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self.failures = 0

    def open(self, group: str) -> TargetWriter:
        return _FailingWriter(self._targets.open(group), self)


class _FailingWriter:
    def __init__(self, writer: TargetWriter, owner: Failing) -> None:
        self._writer, self._owner = writer, owner
        self.progress, self.close = writer.progress, writer.close

    def prepare(self, topic: str, partitions: int, configs: Mapping[str, str], *, grow: bool) -> Taking:
        return self._writer.prepare(topic, partitions, configs, grow=grow)

    def write(self, batches: Batches, progress: Progress) -> None:
        self._owner.failures += 1
        if self._owner.failures in (1, 3):
            raise RetriableError("no answer before the transaction")
        self._writer.write(batches, progress)
        if self._owner.failures in (2, 4):
            raise RetriableError("no answer after the transaction")
        self._owner.failures -= 1


def delete_before(served: Place, topic: str, partition: int, offset: int) -> None:
    """Lets the brokers of a place delete the records before an offset."""
    admin = KafkaAdminClient(bootstrap_servers=served.bootstrap)
    admin.delete_records({KafkasPartition(topic, partition): offset})
    admin.close()
