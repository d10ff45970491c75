"""Kafka 3.9.1's own tools against a gateway: each does its work and warns of nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.gateway import Gateway
from pyspark_commitlog.storage import LogManager
from tests.support.gateway import serving
from tests.support.kafka import kafka_jvm
from tests.support.logs import building

pytestmark = pytest.mark.slow

TIMEOUT_S = 120


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with serving(tmp_path_factory.mktemp("gateway") / "log") as started:
        yield started


def tool(gateway: Gateway, main: str, *arguments: str, stdin: str = "") -> str:
    """What a tool prints; it must print no warning."""
    command = [*kafka_jvm.jvm(), main, "--bootstrap-server", str(gateway.address), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "WARN" in line or "ERROR" in line]) == (
        0,
        [],
    ), done.stderr
    return done.stdout


def topics(gateway: Gateway, *arguments: str) -> str:
    return tool(gateway, "org.apache.kafka.tools.TopicCommand", *arguments)


def test_the_console_tools_produce_and_consume(gateway: Gateway) -> None:
    topics(gateway, "--create", "--topic", "console", "--partitions", "1")
    lines = [f"line {number}" for number in range(500)]
    producer = ["--topic", "console", "--request-timeout-ms", "60000"]  # a kernel may have to be compiled
    tool(gateway, "kafka.tools.ConsoleProducer", *producer, stdin="\n".join(lines))
    with LogManager.open(gateway.context.log_dir) as manager, manager.open_reader("console", 0) as reader:
        assert [value for _, value in building.committed(reader)] == [line.encode() for line in lines]
    consumer = ["--topic", "console", "--partition", "0", "--offset", "earliest", "--max-messages", "500"]
    assert tool(gateway, "org.apache.kafka.tools.consumer.ConsoleConsumer", *consumer).splitlines() == lines


def test_topics_are_listed_described_enlarged_and_deleted(gateway: Gateway) -> None:
    topics(gateway, "--create", "--topic", "shop", "--partitions", "2", "--config", "retention.ms=-1")
    described = topics(gateway, "--describe", "--topic", "shop")
    assert "PartitionCount: 2\tReplicationFactor: 1\tConfigs: retention.ms=-1" in described
    assert "Partition: 1\tLeader: 1\tReplicas: 1\tIsr: 1" in described
    topics(gateway, "--alter", "--topic", "shop", "--partitions", "3")
    assert "PartitionCount: 3" in topics(gateway, "--describe", "--topic", "shop")
    topics(gateway, "--delete", "--topic", "shop")
    assert "shop" not in topics(gateway, "--list").split()


def test_configs_offsets_sizes_and_versions_are_shown(gateway: Gateway, tmp_path: Path) -> None:
    topics(gateway, "--create", "--topic", "seen", "--partitions", "1")
    of_topic = ["--entity-type", "topics", "--entity-name", "seen"]
    tool(gateway, "kafka.admin.ConfigCommand", *of_topic, "--alter", "--add-config", "segment.bytes=1000000")
    assert "segment.bytes=1000000" in tool(gateway, "kafka.admin.ConfigCommand", *of_topic, "--describe")
    assert tool(gateway, "org.apache.kafka.tools.GetOffsetShell", "--topic", "seen") == "seen:0:0\n"
    versions = tool(gateway, "kafka.admin.BrokerApiVersionsCommand")
    assert "Produce(0): 0 to 11 [usable: 11]" in versions
    sizes = tool(gateway, "org.apache.kafka.tools.LogDirsCommand", "--describe", "--topic-list", "seen")
    assert '"partition":"seen-0","size":0' in sizes
    asked = tmp_path / "delete.json"
    asked.write_text('{"partitions": [{"topic": "seen", "partition": 0, "offset": -1}], "version": 1}')
    deleted = tool(gateway, "org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", str(asked))
    assert "low_watermark: 0" in deleted
