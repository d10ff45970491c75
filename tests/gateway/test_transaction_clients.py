"""Real clients in transactions: what they commit is seen once, by readers on the wire and of the files."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import GroupOffsets, LogManager, open_transactions
from tests.support.gateway import serving
from tests.support.kafka import clients, kafka_jvm
from tests.support.kafka.clients import ProducerRecord, SendOffsets, Step
from tests.support.ports import free_port
from tests.support.transactions import committed
from tests.support.waiting import soon

TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def gateway(log_at: str) -> Iterator[Gateway]:
    with serving(log_at, group_initial_rebalance_delay_ms=0) as started:
        yield started


def made(gateway: Gateway, *topics: str, partitions: int = 2) -> None:
    admin = AdminClient({"bootstrap.servers": str(gateway.address)})
    for done in admin.create_topics([NewTopic(each, num_partitions=partitions) for each in topics]).values():
        done.result()


def transactional(gateway: Gateway | str, transactional_id: str, **settings: object) -> Producer:
    address = gateway if isinstance(gateway, str) else str(gateway.address)
    fields = {"bootstrap.servers": address, "transactional.id": transactional_id, "linger.ms": 0}
    producer = Producer({**fields, **settings})
    producer.init_transactions(TIMEOUT_S)
    return producer


# librdkafka


def test_librdkafka_commits_and_aborts(gateway: Gateway) -> None:
    made(gateway, "librdkafka")
    producer = transactional(gateway, "librdkafka")
    for number in range(6):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce("librdkafka", b"%d" % number, partition=partition)
        if number % 2:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
    expected = [b"0", b"2", b"4"]
    assert [committed(gateway, "librdkafka", each) for each in (0, 1)] == [expected] * 2
    consumer = Consumer(
        {"bootstrap.servers": str(gateway.address), "group.id": "g", "isolation.level": "read_committed"}
    )
    consumer.assign([TopicPartition("librdkafka", 0, 0)])
    assert [each.value() for each in consumer.consume(3, TIMEOUT_S)] == expected
    consumer.close()


def test_librdkafka_moves_records_with_its_progress(gateway: Gateway) -> None:
    made(gateway, "from", "to", partitions=1)
    feeder = Producer({"bootstrap.servers": str(gateway.address)})
    for number in range(50):
        feeder.produce("from", b"%d" % number)
    feeder.flush(TIMEOUT_S)
    consumer = Consumer(
        {
            "bootstrap.servers": str(gateway.address),
            "group.id": "mover",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["from"])
    producer = transactional(gateway, "mover")
    moved = 0
    while moved < 50:
        found = consumer.consume(20, 1.0)
        if not found:
            continue
        producer.begin_transaction()
        for each in found:
            producer.produce("to", each.value())
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), TIMEOUT_S
        )
        producer.commit_transaction(TIMEOUT_S)
        moved += len(found)
        stored = consumer.committed([TopicPartition("from", 0)], TIMEOUT_S)
        assert stored[0].offset == moved
    consumer.close()
    assert committed(gateway, "to") == [b"%d" % number for number in range(50)]
    with LogManager.open(gateway.context.log_dir) as manager:
        assert GroupOffsets(manager).fetch("mover")[("from", 0)].offset == 50  # type: ignore[index]


def test_librdkafka_is_fenced_by_its_successor(gateway: Gateway) -> None:
    made(gateway, "fenced")
    first = transactional(gateway, "fenced")
    first.begin_transaction()
    first.produce("fenced", b"first", partition=0)
    first.flush(TIMEOUT_S)
    second = transactional(gateway, "fenced")
    with pytest.raises(KafkaException, match=r"(?i)fenced|epoch"):
        first.commit_transaction(TIMEOUT_S)
    second.begin_transaction()
    second.produce("fenced", b"second", partition=0)
    second.commit_transaction(TIMEOUT_S)
    assert committed(gateway, "fenced") == [b"second"]


# Java


@pytest.mark.slow
def test_java_commits_aborts_and_sends_offsets(gateway: Gateway) -> None:
    made(gateway, "java")
    steps = [
        Step.BEGIN, *(ProducerRecord(b"%d" % each, partition=each % 2) for each in range(10)), Step.COMMIT,
        Step.BEGIN, ProducerRecord(b"aborted", partition=0), Step.ABORT,
        Step.BEGIN, SendOffsets("java", {("java", 0): 5}), ProducerRecord(b"last", partition=0), Step.COMMIT,
        Step.BEGIN, ProducerRecord(b"left", partition=1), Step.VANISH,
    ]  # fmt: skip
    clients.java_produce(str(gateway.address), "java", steps, {"transactional.id": "java"})
    expected = [b"0", b"2", b"4", b"6", b"8", b"last"]
    assert committed(gateway, "java", 0) == expected
    found = clients.java_consume(str(gateway.address), "java")
    assert [each.value for each in found if each.partition == 0] == expected
    assert [each.value for each in found if each.partition == 1] == [b"1", b"3", b"5", b"7", b"9"]
    with LogManager.open(gateway.context.log_dir) as manager:
        assert [each.offset for each in GroupOffsets(manager).fetch("java").values()] == [5]
        left = [each for each in open_transactions(manager) if each.transactional_id == "java"]
        assert [(each.state, each.partitions[0].partition) for each in left] == [("Ongoing", 1)]
    clients.java_produce(
        str(gateway.address), "java", [Step.BEGIN, ProducerRecord(b"b", partition=1), Step.COMMIT],
        {"transactional.id": "java"},
    )  # fmt: skip
    assert committed(gateway, "java", 1)[-2:] == [b"9", b"b"]


def transactions_tool(gateway: Gateway, *arguments: str) -> list[list[str]]:
    """The rows of ``kafka-transactions``, without the head."""
    main = "org.apache.kafka.tools.TransactionsCommand"
    command = [*kafka_jvm.jvm(), main, "--bootstrap-server", str(gateway.address), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return [line.split() for line in done.stdout.splitlines()[1:]]


@pytest.mark.slow
@pytest.mark.only_all
@pytest.mark.parametrize("log_at", ["directory"], indirect=True)
def test_kafkas_tool_lists_describes_and_aborts_as_our_command_sees_it(gateway: Gateway) -> None:
    made(gateway, "listed")
    producer = transactional(gateway, "listed")
    producer.begin_transaction()
    producer.produce("listed", b"a", partition=1)
    producer.flush(TIMEOUT_S)
    with LogManager.open(gateway.context.log_dir) as manager:
        (ours,) = [each for each in open_transactions(manager) if each.transactional_id == "listed"]
    listed = {row[0]: row[1:] for row in transactions_tool(gateway, "list")}
    assert listed["listed"][1:] == [str(ours.producer_id), "Ongoing"]
    described = transactions_tool(gateway, "describe", "--transactional-id", "listed")[0]
    assert described[1:5] == ["listed", str(ours.producer_id), str(ours.epoch), "Ongoing"]
    assert described[-1] == "listed-1"
    transactions_tool(gateway, "abort", "--topic", "listed", "--partition", "1", "--start-offset", "0")
    assert committed(gateway, "listed", 1) == []
    with LogManager.open(gateway.context.log_dir) as manager, manager.open_reader("listed", 1) as reader:
        assert reader.last_stable_offset == reader.log_end_offset == 2


def copying(address: str, count: int, release: str = kafka_jvm.KAFKA_VERSION) -> list[str]:
    """Fills a topic, and returns the command that copies it in transactions, some of which it aborts at random."""
    admin = AdminClient({"bootstrap.servers": address})
    for done in admin.create_topics([NewTopic(each, num_partitions=1) for each in ("input", "output")]).values():
        done.result()
    feeder = Producer({"bootstrap.servers": address})
    for number in range(count):
        feeder.produce("input", b"%d" % number, partition=0)
    feeder.flush(TIMEOUT_S)
    return [
        *kafka_jvm.broker_jvm(release=release), "org.apache.kafka.tools.TransactionalMessageCopier",
        "--broker-list", address, "--transactional-id", "copier", "--consumer-group", "copiers",
        "--input-topic", "input", "--input-partition", "0", "--output-topic", "output",
        "--max-messages", str(count), "--transaction-size", "40", "--enable-random-aborts",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.only_all
@pytest.mark.parametrize("release", [kafka_jvm.KAFKA_VERSION, kafka_jvm.KAFKA_4])
def test_kafkas_copier_copies_each_record_once_with_random_aborts(tmp_path: Path, release: str) -> None:
    with serving(tmp_path / "log", group_initial_rebalance_delay_ms=0) as gateway:
        command = copying(str(gateway.address), 500, release)
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
        assert json.loads(done.stdout.splitlines()[-1])["remaining"] == 0
        assert [
            line for line in (done.stdout + done.stderr).splitlines() if " WARN " in line or " ERROR " in line
        ] == []
        assert committed(gateway, "output") == [b"%d" % number for number in range(500)]


# A server that is killed

SERVER = """\
import sys, time
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.gateway.config import GatewayConfig
with Gateway(sys.argv[1], GatewayConfig(listeners=f"PLAINTEXT://127.0.0.1:{sys.argv[2]}"), create=True) as gateway:
    print(gateway.address.port, flush=True)
    time.sleep(600)
"""


@contextmanager
def process(directory: Path | str, port: int) -> Iterator[None]:
    """A gateway in a process of its own, which is killed in the end."""
    command = [sys.executable, "-c", SERVER, str(directory), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            yield
        finally:
            child.send_signal(signal.SIGKILL)


def test_a_transaction_goes_on_after_the_server_was_killed_between_its_steps(tmp_path: Path) -> None:
    directory, port = tmp_path / "log", free_port()
    address = f"127.0.0.1:{port}"
    with process(directory, port):
        admin = AdminClient({"bootstrap.servers": address})
        soon(lambda: admin.create_topics([NewTopic("t", num_partitions=1)])["t"].result(TIMEOUT_S) is None)
        producer = transactional(address, "app")
        producer.begin_transaction()
        producer.produce("t", b"before", partition=0)
        producer.flush(TIMEOUT_S)
    with process(directory, port):
        producer.produce("t", b"between", partition=0)
        producer.flush(TIMEOUT_S)
    assert committed(str(directory), "t") == []
    with process(directory, port):
        producer.commit_transaction(TIMEOUT_S)
        assert committed(str(directory), "t") == [b"before", b"between"]
        producer.begin_transaction()
        producer.produce("t", b"after", partition=0)
        producer.commit_transaction(TIMEOUT_S)
    assert committed(str(directory), "t") == [b"before", b"between", b"after"]


@pytest.mark.slow
@pytest.mark.only_all
def test_kafkas_copier_copies_each_record_once_while_the_server_is_killed(tmp_path: Path) -> None:
    directory, port = tmp_path / "log", free_port()
    with process(directory, port):
        command = copying(f"127.0.0.1:{port}", 1000)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as copier:
        for _ in range(2):
            with process(directory, port):
                before = len(committed(str(directory), "output"))
                soon(lambda: len(committed(str(directory), "output")) > before or copier.poll() is not None)  # noqa: B023
        with process(directory, port):
            assert copier.wait(240) == 0
    assert committed(str(directory), "output") == [b"%d" % number for number in range(1000)]


@pytest.mark.slow
@pytest.mark.only_all
@pytest.mark.parametrize("log_at", ["seaweedfs"], indirect=True)
def test_kafkas_copier_copies_each_record_once_over_an_object_store_while_the_gateway_is_killed(log_at: str) -> None:
    """One that is fenced, because the gateway was killed while it committed, is started again."""
    port = free_port()
    with process(log_at, port):
        command = copying(f"127.0.0.1:{port}", 1000)
    copier = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        for kills_left in range(4, -1, -1):
            with process(log_at, port):
                before = len(committed(log_at, "output"))
                soon(lambda: len(committed(log_at, "output")) > before or copier.poll() is not None)  # noqa: B023
                if copier.poll() or (not kills_left and copier.wait(240)):
                    copier = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                    assert kills_left or copier.wait(240) == 0
    finally:
        copier.kill()
    assert committed(log_at, "output") == [b"%d" % number for number in range(1000)]
