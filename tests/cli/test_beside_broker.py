"""A broker continues on a directory that the command changed, and on one restored from a snapshot of it."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

from pyspark_commitlog.storage import COORDINATOR_TOPICS
from tests.cli.in_process import commitlog
from tests.support.kafka.admin import committed_offsets
from tests.support.kafka.broker import (
    Broker,
    ProducerRecord,
    Step,
    Topic,
    create_topics,
    java_consume,
    java_produce,
    mount,
)
from tests.support.kafka.kafka_jvm import KAFKA_4, run_main

GROUPS = Path(__file__).parents[1] / "golden" / "groups" / "kafka-4.tar.xz"


def values(bootstrap: str, topic: str) -> list[tuple[int, int, bytes | None]]:
    return [(each.partition, each.offset, each.value) for each in java_consume(bootstrap, topic)]


def test_a_broker_continues_on_a_restored_snapshot_of_what_the_command_changed(tmp_path: Path) -> None:
    with Broker(tmp_path / "home") as broker:
        broker.start()
        create_topics(broker.bootstrap, {"orders": Topic(2, {"segment.bytes": "200"}), "gone": Topic()})
        sent = [ProducerRecord(b"%d" % n * 90, key=b"k", partition=0) for n in range(4)]
        java_produce(broker.bootstrap, "orders", [step for record in sent for step in (record, Step.FLUSH)])
        log_dir = ("--log-dir", broker.log_dir)
        before = commitlog("offsets", *log_dir, "--topic", "orders").stdout  # beside the running broker
        assert before == "orders:0:4\norders:1:0\n"
        for refused in (("produce", "-t", "orders"), ("snapshot", "--to", tmp_path / "snap"), ("recover",)):
            done = commitlog(*refused, *log_dir, stdin=b"x\n")
            assert (done.code, "a running Kafka broker" in done.stderr) == (1, True)
        broker.stop()

        assert commitlog("produce", *log_dir, "-t", "orders", "-p", 1, stdin=b"ours\nours too\n").code == 0
        (tmp_path / "delete.json").write_text('{"partitions": [{"topic": "orders", "partition": 0, "offset": 2}]}')
        assert commitlog("delete-records", *log_dir, "--offset-json-file", tmp_path / "delete.json").code == 0
        assert commitlog("snapshot", *log_dir, "--to", tmp_path / "snap").code == 0
        assert commitlog("restore", "--from", tmp_path / "snap", "--log-dir", tmp_path / "restored").code == 0

        broker.start(tmp_path / "restored")
        expected: list[tuple[int, int, bytes | None]] = [(0, n, b"%d" % n * 90) for n in (2, 3)]
        expected += [(1, 0, b"ours"), (1, 1, b"ours too")]
        assert values(broker.bootstrap, "orders") == expected
        java_produce(broker.bootstrap, "orders", [ProducerRecord(b"theirs", partition=1)])
        assert values(broker.bootstrap, "orders") == [*expected, (1, 2, b"theirs")]
        broker.stop()
        shown = commitlog("cat", "--log-dir", tmp_path / "restored", "-t", "orders", "-p", 1, "-e", "-q").stdout
        assert shown == "ours\nours too\ntheirs\n"


def test_a_broker_finds_groups_of_the_new_protocol_in_the_state_that_the_command_reports(
    tmp_path: Path,
) -> None:
    """It also accepts the tombstones of deleted groups, which a coordinator can load only in order."""
    with tarfile.open(GROUPS) as packed:
        packed.extractall(tmp_path, filter="data")
    source = tmp_path / "final" / "log"
    shutil.rmtree(source / "__share_group_state-0")  # a topic of Kafka 4's
    log_dir = ("--log-dir", source)
    assert commitlog("groups", *log_dir, "--delete", "--group", "new-regex", "--group", "share-s").code == 0
    ours = commitlog("groups", *log_dir, "--list", "--type", "consumer", "--state").stdout
    consumer_protocol = {
        "group.coordinator.rebalance.protocols": "classic,consumer",
        "group.coordinator.new.enable": "true",
    }
    topics = {each.name.rpartition("-")[0] for each in source.iterdir() if each.is_dir()}
    with Broker(tmp_path / "home") as broker:
        broker.start(props=consumer_protocol)
        mount(broker, source, {name: COORDINATOR_TOPICS.get(name, {}) for name in topics})
        committed_offsets(broker.bootstrap, "new-a")  # waits until both coordinators have loaded
        committed_offsets(broker.bootstrap, "classic-b")
        arguments = ["--bootstrap-server", broker.bootstrap, "--list", "--type", "--state"]
        theirs = run_main("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", arguments)
    assert sorted(line.split() for line in theirs.splitlines() if line) == sorted(
        line.split() for line in ours.splitlines() if line
    )
    assert {line.split()[0]: line.split()[-1] for line in theirs.splitlines()[1:] if line} == {
        "classic-b": "Empty",
        "new-a": "Reconciling",
    }


@pytest.mark.only_all
def test_a_broker_of_kafka_4_finds_its_groups_in_the_state_that_the_command_reports(tmp_path: Path) -> None:
    with tarfile.open(GROUPS) as packed:
        packed.extractall(tmp_path, filter="data")
    source = tmp_path / "final" / "log"
    log_dir = ("--log-dir", source)
    assert commitlog("groups", *log_dir, "--delete", "--group", "new-regex", "--group", "share-s").code == 0
    ours = commitlog("groups", *log_dir, "--list", "--type", "--state").stdout
    topics = {each.name.rpartition("-")[0] for each in source.iterdir() if each.is_dir()}
    with Broker(tmp_path / "home", KAFKA_4) as broker:
        broker.start()
        mount(broker, source, {name: COORDINATOR_TOPICS.get(name, {}) for name in topics})
        committed_offsets(broker.bootstrap, "new-a")  # waits until both coordinators have loaded
        committed_offsets(broker.bootstrap, "classic-b")
        consumers = listed_by(broker, "ConsumerGroupCommand", "--type")
        shares = listed_by(broker, "ShareGroupCommand")
    expected = [*consumers, *([name, "Share", state] for name, state in shares)]
    assert sorted(line.split() for line in ours.splitlines()[2:]) == sorted(expected)
    assert {name: state for name, _, state in expected} == {
        **dict.fromkeys(("classic-b", "share-e"), "Empty"),
        "new-a": "Reconciling",
    }


def listed_by(broker: Broker, tool: str, *flags: str) -> list[list[str]]:
    """The words of each row."""
    arguments = ["--bootstrap-server", broker.bootstrap, "--list", "--state", *flags]
    printed = run_main(f"org.apache.kafka.tools.consumer.group.{tool}", arguments, release=KAFKA_4)
    return [line.split() for line in printed.splitlines()[1:] if line]
