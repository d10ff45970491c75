"""Real Kafka for tests: a dump tool, brokers, Java clients, and our directories mounted into a broker.

All of it is 3.9.1; a broker can also be 4.3.1.

Everything binary is ``bytes``; everything that a JVM is told goes through its standard input as JSON, binary in base64.
Java and the jars: :mod:`tests.support.kafka.kafka_jvm`. Why so: docs/decisions/real_kafka_in_tests.md.
"""

from __future__ import annotations

import functools
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from kafka.admin import KafkaAdminClient  # type: ignore[import-untyped]

from tests.support.kafka import kafka_jvm
from tests.support.kafka.clients import (
    Action,
    Consumed,
    DumpOutput,
    FileDump,
    Isolation,
    ProducerRecord,
    SendOffsets,
    Sent,
    Step,
    dump_log,
    java_consume,
    java_produce,
)
from tests.support.kafka.kafka_jvm import JavaError, JavaMissingError
from tests.support.ports import free_port

__all__ = [
    "CHECKPOINTS",
    "CLEAN_SHUTDOWN",
    "Action",
    "Broker",
    "BrokerError",
    "Consumed",
    "DumpOutput",
    "FileDump",
    "Isolation",
    "JavaError",
    "JavaMissingError",
    "ProducerRecord",
    "SendOffsets",
    "Sent",
    "Step",
    "Topic",
    "create_topics",
    "dump_log",
    "java_consume",
    "java_produce",
    "mount",
    "move_in",
]

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)

_CLUSTER_ID = "spark-commitlog-testsA"  # 16 bytes in URL-safe base64
_START_TIMEOUT_S = 90
_ARCHIVE = "broker.jsa"

# Kafka's defaults but for what one node needs, what makes it start and answer sooner, and what hides a test's mistakes.
_PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "log.cleaner.dedupe.buffer.size": str(4 << 20),
    "controller.quorum.election.timeout.ms": "100",
    "controller.quorum.election.backoff.max.ms": "100",
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "3000",  # a killed broker's next start waits for the end of the old session
}

_PROPERTIES_OF = {
    kafka_jvm.KAFKA_VERSION: _PROPERTIES,
    kafka_jvm.KAFKA_4: {
        **_PROPERTIES,
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
    },
}


# What prints of the quorum and of heartbeats to it; log entries end with the logger in brackets.
CONTROLLER_LOGGERS = (
    "org.apache.kafka.controller.",
    "org.apache.kafka.raft.",
    "kafka.server.BrokerLifecycleManager",
    "org.apache.kafka.server.BrokerLifecycleManager",  # of 4.3.1
    "kafka.server.ControllerApis",
)


class BrokerError(RuntimeError):
    """The broker did not start or stop as asked; the message ends with its last log lines."""


class Broker:
    """One KRaft node, broker and controller, on loopback.

    ``home`` holds its configuration, its metadata log and the text it printed; topics lie in the ``log_dir`` of
    :meth:`start`. A context manager: leaving it kills the process if it still runs. The process also dies with the
    thread that started it, so start it from the main one.
    """

    def __init__(self, home: Path, release: str = kafka_jvm.KAFKA_VERSION, more_jars: Sequence[Path] = ()) -> None:
        self.home = home
        self._more_jars = more_jars
        self.release = release
        self.log_dir = home / "log"
        self.port, self._controller_port = free_port(), free_port()
        self._props: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0

    @property
    def bootstrap(self) -> str:
        """``host:port``; stays the same over restarts."""
        return f"127.0.0.1:{self.port}"

    @property
    def own_listeners(self) -> str:
        """Those that it needs: for clients without a login, and of its controller; more can be in ``listeners``."""
        return f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{self._controller_port}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, log_dir: Path | None = None, props: Mapping[str, str] | None = None) -> Broker:
        """Start on ``log_dir`` with ``props`` over the defaults; what is left out is as it was at the last start.

        Returns self, once Kafka says that it has started: loaded all logs and unfenced.

        Raises:
            BrokerError: it runs already, or ended or was not ready in time.
        """
        if self.running:
            raise BrokerError(f"the broker in {self.home} runs already")
        self.log_dir = log_dir or self.log_dir
        self._props = dict(self._props if props is None else props)
        self.home.mkdir(parents=True, exist_ok=True)
        self._format()
        self._starts += 1
        options = ["-Dcommitlog.level=INFO", f"-Dkafka.logs.dir={self.home}", *self._jvm_options()]
        command = [
            *kafka_jvm.broker_jvm(*options, release=self.release, more=self._more_jars),
            "kafka.Kafka",
            str(self._write_config()),
        ]
        with self._log_path.open("wb") as log:
            # A session of its own: Ctrl-C reaches the tests, and they stop the broker.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        self._await_started(self._process)
        return self

    def stop(self) -> None:
        """SIGTERM, and wait: a clean shutdown, which writes ``.kafka_cleanshutdown``.

        Raises:
            BrokerError: it had ended by itself before, or did not end in time and was killed.
        """
        process = self._require_running()
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired as late:
            self.kill()
            raise self._error("did not stop within 60 s") from late

    def kill(self) -> None:
        """SIGKILL, and wait: what a crash of the process leaves.

        Raises:
            BrokerError: it had ended by itself before.
        """
        process = self._require_running()
        process.kill()
        process.wait()

    def copy_log_dir(self, target: Path) -> Path:
        """Copy the ``log_dir``, while the broker runs too; returns ``target``, which must not be there.

        Without its lock, and without what a checkpoint is written to before it gets its name, at any moment.
        """
        return Path(shutil.copytree(self.log_dir, target, ignore=shutil.ignore_patterns(".lock", "*.tmp")))

    def log_text(self) -> str:
        """What the broker printed since its last start, level INFO and above."""
        return self._log_path.read_text(errors="replace")

    def problems(self) -> list[str]:
        """The entries of :meth:`log_text` at WARN, ERROR or FATAL, each with its stack trace.

        Left out is what the controller and its heartbeats say: every start warns that the controller is activated, and
        on a busy machine requests time out. Neither ever speaks of files.
        """
        entries = re.split(r"^(?=\[\d{4}-\d\d-\d\d )", self.log_text(), flags=re.MULTILINE)
        warned = [entry.rstrip() for entry in entries if re.match(r"\[[^]]+\] (WARN|ERROR|FATAL) ", entry)]
        return [entry for entry in warned if not any(f"({logger}" in entry for logger in CONTROLLER_LOGGERS)]

    def __enter__(self) -> Broker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.running:
            self.kill()

    @property
    def _log_path(self) -> Path:
        return self.home / f"broker-{self._starts}.txt"

    def _format(self) -> None:
        """Put what ``kafka-storage format`` writes into the directories that lack it."""
        template = _formatted_storage(self.release)
        for name, directory in (("metadata", self.home / "metadata"), ("log", self.log_dir)):
            directory.mkdir(parents=True, exist_ok=True)
            if not (directory / "meta.properties").exists():
                shutil.copytree(template / name, directory, dirs_exist_ok=True)

    def _jvm_options(self) -> Sequence[str]:
        """Over those of a JVM that is soon over."""
        return [f"-XX:SharedArchiveFile={_class_archive(self.release)}"]

    def _write_config(self) -> Path:
        properties = _PROPERTIES_OF[self.release] | {
            "listeners": self.own_listeners,
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "metadata.log.dir": str(self.home / "metadata"),
            "log.dirs": str(self.log_dir),
        }
        path = self.home / "server.properties"
        path.write_text(_java_properties(properties | self._props))
        return path

    def _await_started(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while "Kafka Server started" not in self.log_text():
            if process.poll() is not None:
                raise self._error(f"ended with status {process.returncode} before it was ready")
            if time.monotonic() > deadline:
                self.kill()
                raise self._error(f"was not ready within {_START_TIMEOUT_S} s")
            time.sleep(0.02)

    def _require_running(self) -> subprocess.Popen[bytes]:
        if self._process is None or not self.running:
            raise self._error("does not run")
        return self._process

    def _error(self, what: str) -> BrokerError:
        tail = "\n".join(self.log_text().splitlines()[-40:]) if self._starts else "(never started)"
        return BrokerError(f"the broker in {self.home} {what}; its last lines:\n{tail}")


def _java_properties(properties: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n".replace("\\", "\\\\") for key, value in properties.items())


def _formatted_storage(release: str = kafka_jvm.KAFKA_VERSION) -> Path:
    """Directories ``metadata`` and ``log`` as ``kafka-storage format`` leaves them; made once a user, then copied."""

    def run_format(target: Path) -> None:
        config = target / "server.properties"
        directories = {"metadata.log.dir": str(target / "metadata"), "log.dirs": str(target / "log")}
        listeners = {
            "listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2",
            "controller.quorum.voters": "1@127.0.0.1:2",
        }
        config.write_text(_java_properties(_PROPERTIES | directories | listeners))
        for directory in directories.values():
            Path(directory).mkdir()
        arguments = ["format", "-t", _CLUSTER_ID, "-c", str(config)]
        kafka_jvm.run_main("kafka.tools.StorageTool", arguments, release=release)

    name = "formatted" if release == kafka_jvm.KAFKA_VERSION else f"formatted-{release}"
    return kafka_jvm.cached(name, _CLUSTER_ID + _PROPERTIES["node.id"], run_format)


def prepare() -> None:
    """Make what a broker's first start would: formatted storage, and an archive of its classes."""
    _formatted_storage()
    _class_archive()


class _ArchivedBroker(Broker):
    """One whose classes go into an archive when it stops."""

    def _jvm_options(self) -> Sequence[str]:
        return [f"-XX:ArchiveClassesAtExit={self.home / _ARCHIVE}"]


@functools.cache
def _class_archive(release: str = kafka_jvm.KAFKA_VERSION) -> Path:
    """The classes of a broker as they lie in memory: to load them is near half of a start. Made once a user."""

    def run_once(target: Path) -> None:
        with tempfile.TemporaryDirectory() as home, _ArchivedBroker(Path(home), release) as broker:
            broker.start()
            broker.stop()
            shutil.copy(broker.home / _ARCHIVE, target)

    recipe = kafka_jvm.java_version() + " ".join(kafka_jvm.broker_jvm(release=release)[-2:])
    name = "archive" if release == kafka_jvm.KAFKA_VERSION else f"archive-{release}"
    return kafka_jvm.cached(name, recipe, run_once) / _ARCHIVE


@dataclass(frozen=True)
class Topic:
    """What a topic is created with: number of partitions and Kafka's topic configs."""

    partitions: int = 1
    configs: Mapping[str, str] = field(default_factory=dict)


def create_topics(bootstrap: str, topics: Mapping[str, Topic]) -> None:
    """Create ``topics`` by name and wait until each partition has a leader; errors are kafka-python's."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        wanted = {
            name: {"num_partitions": topic.partitions, "replication_factor": 1, "configs": dict(topic.configs)}
            for name, topic in topics.items()
        }
        admin.create_topics(wanted)
        admin.wait_for_topics(list(topics))
    finally:
        admin.close()


def mount(broker: Broker, source: Path, topics: Mapping[str, Mapping[str, str]], *, clean: bool = True) -> None:
    """Restart a running ``broker`` over the partition directories of ``topics``: see :func:`move_in`.

    With ``clean`` the broker finds ``.kafka_cleanshutdown`` and trusts the files; without, it recovers them from the
    recovery points on. The coordinators of internal topics load after the start: ask until they answer.
    """
    move_in(broker, source, topics)
    if not clean:
        (broker.log_dir / CLEAN_SHUTDOWN).unlink()
    broker.start()


def move_in(broker: Broker, source: Path, topics: Mapping[str, Mapping[str, str]]) -> None:
    """Stop a running ``broker`` and give it the partitions of ``topics`` (name -> topic configs) in ``source``.

    A KRaft broker sets aside (``-stray``) every directory whose topic id it does not know, so the topics are created
    first; then, while it is stopped, everything in their directories but ``partition.metadata`` makes room for a copy
    of what lies in ``source``, which stays as it is. The entries of these topics in the four checkpoint files become
    those of ``source``, or vanish where it has none.

    Internal topics go the same way; the broker must have been started with their partition counts
    (``offsets.topic.num.partitions``, ``transaction.state.log.num.partitions``, both 2 unless said otherwise).

    Raises:
        BrokerError: the broker does not run, or does not stop.
        ValueError: the partitions of a topic in ``source`` are not 0, 1, 2, ...
    """
    partitions = {name: _partition_count(source, name) for name in topics}
    create_topics(broker.bootstrap, {name: Topic(partitions[name], configs) for name, configs in topics.items()})
    directories = [f"{name}-{number}" for name, count in partitions.items() for number in range(count)]
    _await_files([broker.log_dir / directory / "partition.metadata" for directory in directories])
    broker.stop()
    for directory in directories:
        _replace_partition(source / directory, broker.log_dir / directory)
    for checkpoint in CHECKPOINTS:
        _replace_entries(source / checkpoint, broker.log_dir / checkpoint, set(topics))


def _await_files(paths: list[Path]) -> None:
    """A broker names itself leader of a new partition a moment before it makes the directory."""
    deadline = time.monotonic() + 30
    while missing := [str(path) for path in paths if not path.exists()]:
        if time.monotonic() > deadline:
            raise BrokerError(f"the broker did not make {missing} within 30 s")
        time.sleep(0.02)


def _partition_count(source: Path, topic: str) -> int:
    numbers = sorted(
        int(match[1]) for path in source.iterdir() if (match := re.fullmatch(rf"{re.escape(topic)}-(\d+)", path.name))
    )
    if not numbers or numbers != list(range(len(numbers))):
        raise ValueError(f"partitions of topic {topic!r} in {source} must be 0, 1, 2, ..., found {numbers}")
    return len(numbers)


def _replace_partition(source: Path, target: Path) -> None:
    metadata = (target / "partition.metadata").read_bytes()
    shutil.rmtree(target)
    shutil.copytree(source, target)
    (target / "partition.metadata").write_bytes(metadata)


def _replace_entries(source: Path, target: Path, topics: set[str]) -> None:
    """Checkpoint files are a version, a count, and lines ``topic partition offset``."""
    kept = [line for line in _entries(target) if line.split()[0] not in topics]
    taken = [line for line in _entries(source) if line.split()[0] in topics]
    if kept or taken or target.exists():
        lines = ["0", str(len(kept + taken)), *kept, *taken]
        target.write_text("".join(f"{line}\n" for line in lines))


def _entries(checkpoint: Path) -> list[str]:
    return checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []
