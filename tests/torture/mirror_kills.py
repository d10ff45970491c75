"""Kills of a mirror from three clusters, a real 0.8.2.2, a real 3.9.1 and ours, into one target of ours.

A case has a topic of its own in all three, and another one that is made in the middle. The mirror runs as a program and
is killed at random moments while records arrive. At the end each record of each source is in the target exactly once,
in the order of its partition, and each batch that was made with a codec has the bytes that it was made with.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pyspark_commitlog.classic.wire.broker import Broker as OldWire
from pyspark_commitlog.classic.wire.calls import Leader, cluster, produce
from pyspark_commitlog.classic.wire.connection import Address, Connection
from pyspark_commitlog.mirror.brokers.admin import Admin
from pyspark_commitlog.mirror.brokers.cluster import Cluster
from pyspark_commitlog.mirror.brokers.leader import PartitionLeader
from pyspark_commitlog.storage import (
    BatchFields,
    Codec,
    Isolation,
    LogManager,
    Records,
    TopicPartition,
    producer_batches,
)
from pyspark_commitlog.storage.format import scan
from pyspark_commitlog.storage.format.legacy import v0
from pyspark_commitlog.storage.format.v2 import LAYOUT
from tests.support.gateway import serving
from tests.support.kafka.broker import Broker
from tests.support.kafka.old_kafka import OldBroker
from tests.support.kafka.zookeeper import ZooKeeper
from tests.torture.suite import Case, Run, Suite

ROOT = Path(__file__).parents[2]
PARTITIONS = 2
KILLS_MAX = 4
SECONDS_MAX = 4  # from the last record to the kill
BATCHES_MAX = 6  # in a partition between two kills
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
Made = dict[tuple[str, int], list[bytes]]  # the values of a source's partition, in order


class TodaysSource:
    """A cluster on today's protocol."""

    def __init__(self, name: str, bootstrap: str) -> None:
        self.name = name
        self.settings = {"bootstrap.servers": bootstrap, "max.partition.fetch.bytes": "2000"}
        self._cluster = Cluster.parse(bootstrap, {})

    def create(self, topic: str) -> None:
        with Admin(self._cluster) as admin:
            admin.create(topic, PARTITIONS, {})

    def append(self, topic: str, partition: int, values: Sequence[bytes], codec: Codec) -> bytes | None:
        """Appends one batch, and returns its records as they are encoded."""
        with PartitionLeader(self._cluster, topic, partition) as leader:
            producer_id, epoch = leader.producer_id()
            fields = BatchFields(codec=codec, producer_id=producer_id, producer_epoch=epoch, base_sequence=0)
            ((batch, _),) = producer_batches(_records(values), fields, batch_bytes_max=1 << 20)
            leader.produce(batch)
            return batch[LAYOUT.itemsize :]


class OldSource:
    """A broker of Kafka 0.8.2.2, which creates the topics that it is asked for."""

    def __init__(self, name: str, connect: str, port: int) -> None:
        self.name = name
        self.settings = {"zookeeper.connect": connect, "fetch.message.max.bytes": "150"}
        self._broker = OldWire(Connection(Address("127.0.0.1", port)))

    def create(self, topic: str) -> None:
        wanted = {TopicPartition(topic, number) for number in range(PARTITIONS)}
        deadline_s = time.monotonic() + 30
        while {
            each for each, state in cluster(self._broker, [topic]).partitions.items() if state.leader >= 0
        } != wanted:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)

    def _known(self, topic: str) -> Iterable[tuple[TopicPartition, Leader]]:
        return cluster(self._broker, [topic]).partitions.items()

    def append(self, topic: str, partition: int, values: Sequence[bytes], codec: Codec) -> bytes | None:
        """Appends one message set; the target has it in another format."""
        known = codec if codec in (Codec.GZIP, Codec.SNAPPY) else Codec.NONE
        place = TopicPartition(topic, partition)
        answer = produce(self._broker, {place: v0.encode(_records(values), known).tobytes()})
        assert answer[place].error == 0
        return None


Source = TodaysSource | OldSource


def _records(values: Sequence[bytes]) -> Records:
    return Records.to_append(
        [b"key %d" % (number % 3) for number in range(len(values))], list(values), int(time.time() * 1000)
    )


@contextmanager
def three_sources(home: Path) -> Iterator[list[Source]]:
    """Starts the sources."""
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeper(home / "zookeeper"))
        settings = {"num.partitions": PARTITIONS}
        old = stack.enter_context(OldBroker(home / "old", zookeeper.connect, release="0.8.2.2", settings=settings))
        new = stack.enter_context(Broker(home / "new", release="3.9.1")).start()
        ours = stack.enter_context(serving(home / "ours"))
        host, port = ours.address
        yield [
            OldSource("old", zookeeper.connect, old.port),
            TodaysSource("new", new.bootstrap),
            TodaysSource("ours", f"{host}:{port}"),
        ]


class Target(NamedTuple):
    """Where a case mirrors to."""

    directory: Path
    settings: dict[str, str]


@contextmanager
def target(home: Path, *, is_served: bool) -> Iterator[Target]:
    """A log directory, or one with a gateway that serves it."""
    if not is_served:
        yield Target(home, {"log.dir": str(home)})
        return
    with serving(home) as gateway:
        host, port = gateway.address
        yield Target(home, {"bootstrap.servers": f"{host}:{port}"})


class Story:
    """One case: what was made, and the mirror that copies it."""

    def __init__(self, run: Run, case: Case, sources: Sequence[Source], to: Target) -> None:
        self._run, self._chance, self._sources, self._target = run, case.chance, sources, to
        self._topic = f"case-{run.seed}-{case.number}"
        self._home = run.directory / self._topic
        self._home.mkdir()
        self._made: dict[str, Made] = {}  # by topic
        self._encoded: list[bytes] = []

    def _command(self, refresh_s: float | None) -> list[str]:
        groups = {source.name: {"group.id": f"{self._topic}-{source.name}"} for source in self._sources}
        asked = {
            "sources": [source.settings | groups[source.name] for source in self._sources],
            "target": self._target.settings,
            "names": f"{self._topic}.*",
            "refresh_s": refresh_s,
        }
        return [sys.executable, "-m", "tests.torture.mirror_process", json.dumps(asked)]

    def tell(self) -> None:
        """Runs the case. Raises AssertionError if the target has anything else than the sources."""
        self._create(self._topic)
        self._append()
        kills = self._chance.randint(1, KILLS_MAX)
        for number in range(kills):
            with self._mirroring() as process:
                if number == kills // 2:
                    self._create(f"{self._topic}-later")
                self._append()
                time.sleep(self._chance.uniform(0, SECONDS_MAX))
                process.kill()
            self._run.note("kills")
        self._append()
        done = subprocess.run(self._command(None), capture_output=True, text=True, cwd=ROOT, timeout=240, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        self._check()

    @contextmanager
    def _mirroring(self) -> Iterator[subprocess.Popen[bytes]]:
        with (self._home / "output").open("ab") as output:
            process = subprocess.Popen(self._command(0.3), stdout=output, stderr=output, cwd=ROOT)
            try:
                yield process
            finally:
                process.kill()
                process.wait()

    def _create(self, topic: str) -> None:
        for source in self._sources:
            source.create(topic)
        self._made[topic] = {(source.name, number): [] for source in self._sources for number in range(PARTITIONS)}

    def _append(self) -> None:
        for topic, made in self._made.items():
            for source in self._sources:
                for partition in range(PARTITIONS):
                    for _ in range(self._chance.randrange(BATCHES_MAX)):
                        self._append_batch(topic, source, partition, made[source.name, partition])

    def _append_batch(self, topic: str, source: Source, partition: int, before: list[bytes]) -> None:
        first, count = len(before), self._chance.randint(1, 20)
        values = [f"{source.name}/{partition}/{number}".encode() for number in range(first, first + count)]
        encoded = source.append(topic, partition, values, self._chance.choice(CODECS))
        before += values
        if encoded is not None:
            self._encoded.append(encoded)

    def _check(self) -> None:
        there: list[bytes] = []
        with LogManager.open(str(self._target.directory)) as manager:
            for topic, made in self._made.items():
                for partition in range(PARTITIONS):
                    found, encoded = _committed(manager, topic, partition)
                    there += encoded
                    for source in self._sources:
                        own = [each for each in found if each.startswith(source.name.encode() + b"/")]
                        assert own == made[source.name, partition], f"{topic}-{partition} of {source.name}"
                    assert len(found) == sum(len(made[source.name, partition]) for source in self._sources)
                    self._run.passed(len(found))
        missing = set(self._encoded) - set(there)
        assert not missing, f"{len(missing)} batches were encoded again"


def _committed(manager: LogManager, topic: str, partition: int) -> tuple[list[bytes], list[bytes]]:
    """Returns the values of a partition, and the records of each batch as they are encoded."""
    values: list[bytes] = []
    with manager.open_reader(topic, partition) as reader:
        bounds = reader.log_start_offset, reader.end_offset(Isolation.READ_COMMITTED)
        for piece in reader.records(*bounds, isolation=Isolation.READ_COMMITTED):
            assert piece.values is not None
            values += [value or b"" for value in piece.values.to_list()]
    data = b"".join(path.read_bytes() for path in sorted(Path(manager.partition_path(topic, partition)).glob("*.log")))
    headers = scan(np.frombuffer(data, dtype=np.uint8)).headers
    places = headers.table[["position", "size"]].tolist()
    return values, [data[start + LAYOUT.itemsize : start + size] for start, size in places]


def run(run: Run) -> None:
    """Works through cases with the same sources."""
    with three_sources(run.directory / "sources") as sources:
        for case in run.cases():
            with (
                run.watching(case),
                target(run.directory / f"target-{case.number}", is_served=case.chance.random() < 0.5) as to,
            ):
                Story(run, case, sources, to).tell()


SUITE = Suite("records", 200_000, run)
