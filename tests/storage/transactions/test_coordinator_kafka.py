"""A broker takes over a directory with our transactions, ended or not; then this engine takes it over from the broker.

For each release, one broker and one life: ``mounted`` is what it shows after its start, ``went_on`` after its own
producers used the same transactional ids, ``returned`` what this engine makes of the directory afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pyspark_commitlog.storage.clock import SystemClock
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.directory.protected_topics import COORDINATOR_TOPICS
from pyspark_commitlog.storage.errors import StorageError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format.internal.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from pyspark_commitlog.storage.groups.offsets import CommittedOffset, GroupOffsets
from pyspark_commitlog.storage.transactions.abandoned import open_transactions, resolve_dead_transactions
from pyspark_commitlog.storage.transactions.coordinator import TransactionCoordinator
from pyspark_commitlog.storage.transactions.transaction import TransactionPart
from pyspark_commitlog.storage.transactions.writer import TransactionalWriter
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail
from tests.support.kafka.admin import committed_offsets
from tests.support.kafka.broker import (
    Action,
    Broker,
    ProducerRecord,
    SendOffsets,
    Step,
    dump_log,
    java_consume,
    java_produce,
    mount,
)
from tests.support.kafka.kafka_jvm import KAFKA_4, KAFKA_VERSION
from tests.support.logs.building import committed
from tests.support.logs.transactions import TOPIC, encoded

PARTITIONS = [(TOPIC, 0), (TOPIC, 1)]
SINK = ("__sink.t", 0)
NEVER = ["never 0", "never 1"]  # of transactions that nobody committed
Rows = dict[int, list[str]]  # values by partition


def managed(directory: Path) -> LogManager:
    return LogManager.open(str(directory), create=True)


class Query:
    """One transactional id and what it writes."""

    def __init__(self, manager: LogManager, name: str, timeout_ms: int = 600_000) -> None:
        self.manager = manager
        self.name = name
        self.coordinator = TransactionCoordinator.open(manager, name, timeout_ms=timeout_ms)
        self.transaction = self.coordinator.begin(PARTITIONS, groups=[name])

    def write(self, *values: str) -> list[TransactionPart]:
        writer = TransactionalWriter(self.manager, self.transaction)
        for partition in PARTITIONS:
            writer.append(*partition, encoded(*(value.encode() for value in values)))
        writer.sync()
        return [TransactionPart(*partition, len(values)) for partition in PARTITIONS]

    def commit(self, parts: list[TransactionPart], batch: int) -> None:
        offsets = {SINK: CommittedOffset(batch, '{"queryId": "q"}')}
        self.coordinator.commit(self.transaction, parts, {self.name: offsets})


def write_transactions(directory: Path) -> None:
    """Ended transactions, a decided one with missing markers, and an open one."""
    with managed(directory) as manager:
        manager.create_topic(TOPIC, partitions=2)
        for topic in COORDINATOR_TOPICS:
            manager.create_topic(topic, partitions=2)
        for batch in (1, 2):
            query = Query(manager, "going on")
            query.commit(query.write(f"batch {batch}", "second"), batch)
            query.coordinator.close()
        query = Query(manager, "aborted")
        query.write(*NEVER)
        query.coordinator.abort(query.transaction)
        query = Query(manager, "dead", timeout_ms=1)
        query.write(*NEVER)
    disk = FaultyFileSystem(LocalFileSystem(), [])
    failing = LogManager.open(str(directory), clock=SystemClock(), filesystem=disk)
    query = Query(failing, "decided")
    parts = query.write("decided")
    disk.rules.append(fail("write", "*/t-1/*.log"))
    with pytest.raises(StorageError):
        query.commit(parts, 1)


@dataclass(frozen=True)
class Seen:
    """What the broker's clients see."""

    committed: Rows
    offsets: dict[str, dict[tuple[str, int], tuple[int, str]]]
    problems: list[str]

    @classmethod
    def of(cls, broker: Broker) -> Seen:
        rows: Rows = {0: [], 1: []}
        for row in java_consume(broker.bootstrap, TOPIC, "read_committed"):
            rows[row.partition].append((row.value or b"").decode())
        offsets = {name: committed_offsets(broker.bootstrap, name) for name in ("going on", "decided", "dead")}
        return cls(rows, offsets, broker.problems())


@dataclass(frozen=True)
class Life:
    """Everything that happened."""

    states: str  # the dump of __transaction_state, before the broker came
    commits: str  # of __consumer_offsets
    mounted: Seen
    went_on: Seen
    directory: Path


@pytest.fixture(scope="module", params=[KAFKA_VERSION, pytest.param(KAFKA_4, marks=pytest.mark.only_all)])
def life(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    directory = tmp_path_factory.mktemp("ours") / "log"
    write_transactions(directory)
    states = dump(directory, TRANSACTION_STATE_TOPIC, "--transaction-log-decoder")
    commits = dump(directory, GROUP_METADATA_TOPIC, "--offsets-decoder")
    with Broker(tmp_path_factory.mktemp("broker"), request.param) as broker:
        broker.start(props={"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"})
        mount(broker, directory, {TOPIC: {}, **COORDINATOR_TOPICS}, clean=False)
        expected = ["batch 1", "second", "batch 2", "second", "decided"]
        wait_for(lambda: Seen.of(broker).committed == {0: expected, 1: expected})
        mounted = Seen.of(broker)
        go_on(broker)
        went_on = Seen.of(broker)
        broker.stop()
        yield Life(states, commits, mounted, went_on, broker.log_dir)


def dump(directory: Path, topic: str, decoder: str) -> str:
    files = [path for path in sorted(directory.glob(f"{topic}-*/*.log")) if path.stat().st_size]
    return dump_log(files, decoder).stdout


def wait_for(happened: Callable[[], bool]) -> None:
    """After its start, the broker's coordinators load, and end unfinished transactions."""
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def go_on(broker: Broker) -> None:
    """Java producers with one of our transactional ids, with that of the open transaction, and with another."""
    for name in ("going on", "dead", "a broker's own"):
        steps: list[Action] = [
            Step.BEGIN,
            ProducerRecord(b"java, " + name.encode(), partition=0),
            SendOffsets(name, {PARTITIONS[0]: 7}),
            Step.COMMIT,
            Step.BEGIN,
            ProducerRecord(b"never", partition=1),
            Step.ABORT,
        ]
        java_produce(broker.bootstrap, TOPIC, steps, {"transactional.id": name})


def test_kafkas_dump_tool_reads_our_states(life: Life) -> None:
    for said in (
        "transactionalId=going on",
        "producerId:1099511627776,producerEpoch:0,state=Ongoing,partitions=[t-1,t-0,__consumer_offsets-1]",
        "producerId:1099511627776,producerEpoch:1,state=PrepareCommit,partitions=[t-1,t-0,__consumer_offsets-1]",
        "producerId:1099511627776,producerEpoch:1,state=CompleteCommit,partitions=[]",
        "producerId:1099511627777,producerEpoch:1,state=CompleteAbort,partitions=[]",
        "txnTimeoutMs=600000",
    ):
        assert said in life.states


def test_kafkas_dump_tool_reads_our_offset_commits(life: Life) -> None:
    for said in (
        '{"group":"going on","topic":"__sink.t","partition":0}} payload: {"version":"3","data":{"offset":2,',
        "baseSequence: 0 lastSequence: 0 producerId: 1099511627776 producerEpoch: 2",
        "isTransactional: true isControl: true",
    ):
        assert said in life.commits


def test_a_consumer_sees_what_was_committed_and_the_broker_ends_what_was_left(life: Life) -> None:
    """The decided one is visible although a marker was missing; the open one is not."""
    expected = ["batch 1", "second", "batch 2", "second", "decided"]
    assert life.mounted.committed == {0: expected, 1: expected}


def test_the_broker_knows_the_offsets_of_our_groups(life: Life) -> None:
    metadata = '{"queryId": "q"}'
    assert life.mounted.offsets == {"going on": {SINK: (2, metadata)}, "decided": {SINK: (1, metadata)}, "dead": {}}


def test_java_producers_continue_with_our_transactional_ids(life: Life) -> None:
    assert life.went_on.committed[0][5:] == ["java, going on", "java, dead", "java, a broker's own"]
    assert life.went_on.committed[1] == life.mounted.committed[1]
    assert life.went_on.offsets["going on"] == {SINK: (2, '{"queryId": "q"}'), PARTITIONS[0]: (7, "")}


def test_the_broker_found_nothing_amiss(life: Life) -> None:
    assert [problem for problem in life.mounted.problems + life.went_on.problems if "ERROR" in problem] == []


def test_this_engine_continues_where_the_broker_stopped(life: Life) -> None:
    with managed(life.directory) as manager:
        assert open_transactions(manager) == []
        assert resolve_dead_transactions(manager) == []
        assert GroupOffsets(manager).fetch("going on")[PARTITIONS[0]].offset == 7
        for name in ("going on", "a broker's own"):
            query = Query(manager, name)
            query.commit(query.write(f"again, {name}"), 8)
            query.coordinator.close()
            assert GroupOffsets(manager).fetch(name)[SINK].offset == 8
        for partition in (0, 1):
            found = [(value or b"").decode() for _, value in committed(manager.open_reader(TOPIC, partition))]
            assert found == [*life.went_on.committed[partition], "again, going on", "again, a broker's own"]
