"""The tools of Kafka 3.9.1, and in ``make test-all`` of 4.3.1: each does its work and warns of nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from pyspark_commitlog.storage import LogManager
from tests.gateway.clients.programs import printed
from tests.support.gateway import serving
from tests.support.kafka import kafka_jvm
from tests.support.kafka.kafka_jvm import KAFKA_4, KAFKA_VERSION
from tests.support.logs import building

pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize(
        "log_at",
        ["directory", *(pytest.param(each, marks=pytest.mark.matrix) for each in ("object store", "seaweedfs"))],
        indirect=True,
        scope="module",
    ),
]

TOOLS = "org.apache.kafka.tools"
# A kernel may have to be compiled, which takes longer than the defaults allow on a busy machine.
PATIENT = ["request.timeout.ms=60000", "delivery.timeout.ms=120000"]


class Tools:
    """The tools of one release against a gateway; each call starts one, and returns what it prints."""

    def __init__(self, release: str, log_at: str, servers: str) -> None:
        self.release = release
        self.log_at = log_at
        self.servers = servers
        is_first = release == KAFKA_VERSION
        self._jvm = kafka_jvm.jvm() if is_first else kafka_jvm.broker_jvm(release=release)
        self.core_tools = "kafka.tools" if is_first else TOOLS
        self.core_admin = "kafka.admin" if is_first else TOOLS

    def __call__(self, main: str, *arguments: str, stdin: str = "") -> str:
        return self.run(main, "--bootstrap-server", self.servers, *arguments, stdin=stdin)

    def run(self, main: str, *arguments: str, stdin: str = "") -> str:
        """The same, for tools that take the server otherwise."""
        shown = printed([*self._jvm, main, *arguments], stdin=stdin)
        assert "WARN" not in shown
        return shown

    def topics(self, *arguments: str) -> str:
        return self(f"{TOOLS}.TopicCommand", *arguments)

    def create(self, topic: str, partitions: int = 1) -> None:
        self.topics("--create", "--topic", topic, "--partitions", str(partitions))

    def values(self, topic: str) -> list[bytes | None]:
        """Committed values, as a reader of the files sees them."""
        with LogManager.open(self.log_at) as manager, manager.open_reader(topic, 0) as reader:
            return [value for _, value in building.committed(reader)]


@pytest.fixture(scope="module", params=[KAFKA_VERSION, pytest.param(KAFKA_4, marks=pytest.mark.only_all)])
def tools(request: pytest.FixtureRequest, log_at: str) -> Iterator[Tools]:
    with serving(log_at, group_initial_rebalance_delay_ms=0) as started:
        yield Tools(request.param, log_at, started.bootstrap_servers)
        admin = AdminClient({"bootstrap.servers": started.bootstrap_servers})  # for the other release, on the same log
        names = [name for name in admin.list_topics(timeout=60).topics if not name.startswith("__")]
        for deleted in admin.delete_topics(names).values():
            deleted.result(60)


def test_the_console_tools_produce_and_consume(tools: Tools) -> None:
    tools.create("console")
    lines = [f"line {number}" for number in range(500)]
    producer = ["--topic", "console", "--request-timeout-ms", "60000"]
    tools(f"{tools.core_tools}.ConsoleProducer", *producer, stdin="\n".join(lines))
    assert tools.values("console") == [line.encode() for line in lines]
    consumer = ["--topic", "console", "--partition", "0", "--offset", "earliest", "--max-messages", "500"]
    assert tools(f"{TOOLS}.consumer.ConsoleConsumer", *consumer).splitlines() == lines
    group = ["--topic", "console", "--group", "console", "--from-beginning", "--max-messages", "500"]
    assert tools(f"{TOOLS}.consumer.ConsoleConsumer", *group).splitlines() == lines
    described = tools(f"{TOOLS}.consumer.group.ConsumerGroupCommand", "--describe", "--group", "console")
    assert [line.split()[1:6] for line in described.splitlines() if " 500 " in line] == [
        ["console", "0", "500", "500", "0"]
    ]


@pytest.mark.only_all
def test_a_consumer_of_the_new_protocol_reads_commits_and_is_described(tools: Tools) -> None:
    tools.create("new", partitions=2)
    lines = [f"line {number}" for number in range(20)]
    producer = ["--topic", "new", "--request-timeout-ms", "60000"]
    tools(f"{tools.core_tools}.ConsoleProducer", *producer, stdin="\n".join(lines))
    option = "--consumer-property" if tools.release == KAFKA_VERSION else "--command-property"
    new = [option, "group.protocol=consumer", "--group", "new-group"]
    read = ["--topic", "new", "--from-beginning", "--max-messages", "20"]
    assert sorted(tools(f"{TOOLS}.consumer.ConsoleConsumer", *read, *new).splitlines()) == sorted(lines)
    command = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
    rows = [line.split() for line in tools(command, "--describe", "--group", "new-group").splitlines()]
    assert sum(int(row[3]) for row in rows if row[:2] == ["new-group", "new"]) == 20
    assert "consumer" in tools(command, "--list", "--type").lower()
    tools(command, "--delete", "--group", "new-group")
    assert "new-group" not in tools(command, "--list")


@pytest.mark.only_all
def test_topics_are_listed_described_enlarged_and_deleted(tools: Tools) -> None:
    tools.topics("--create", "--topic", "shop", "--partitions", "2", "--config", "retention.ms=-1")
    described = tools.topics("--describe", "--topic", "shop")
    assert "PartitionCount: 2\tReplicationFactor: 1\tConfigs: retention.ms=-1" in described
    assert "Partition: 1\tLeader: 1\tReplicas: 1\tIsr: 1" in described
    tools.topics("--alter", "--topic", "shop", "--partitions", "3")
    assert "PartitionCount: 3" in tools.topics("--describe", "--topic", "shop")
    tools.topics("--delete", "--topic", "shop")
    assert "shop" not in tools.topics("--list").split()


@pytest.mark.only_all
def test_configs_offsets_sizes_and_versions_are_shown(tools: Tools, tmp_path: Path) -> None:
    tools.create("seen")
    of_topic = ["--entity-type", "topics", "--entity-name", "seen"]
    tools("kafka.admin.ConfigCommand", *of_topic, "--alter", "--add-config", "segment.bytes=2000000")
    assert "segment.bytes=2000000" in tools("kafka.admin.ConfigCommand", *of_topic, "--describe")
    assert tools(f"{TOOLS}.GetOffsetShell", "--topic", "seen") == "seen:0:0\n"
    versions = tools(f"{tools.core_admin}.BrokerApiVersionsCommand")
    assert "Produce(0): 0 to 11 [usable: 11]" in versions
    sizes = tools(f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", "seen")
    assert '"partition":"seen-0","size":0' in sizes
    asked = tmp_path / "delete.json"
    asked.write_text('{"partitions": [{"topic": "seen", "partition": 0, "offset": -1}], "version": 1}')
    deleted = tools(f"{TOOLS}.DeleteRecordsCommand", "--offset-json-file", str(asked))
    assert "low_watermark: 0" in deleted


@pytest.mark.only_all
def test_the_perf_tools_produce_and_consume(tools: Tools) -> None:
    tools.create("perf")
    load = ["--topic", "perf", "--num-records", "2000", "--record-size", "100", "--throughput", "-1"]
    servers = f"bootstrap.servers={tools.servers}"
    assert "2000 records sent" in tools.run(
        f"{TOOLS}.ProducerPerformance", *load, "--producer-props", servers, "acks=all", "linger.ms=5", *PATIENT
    )
    transactions = ["--transactional-id", "perf", "--transaction-duration-ms", "50"]
    assert "2000 records sent" in tools.run(
        f"{TOOLS}.ProducerPerformance", *load, *transactions, "--producer-props", servers, *PATIENT
    )
    assert len(tools.values("perf")) == 4000
    consumed = tools(f"{TOOLS}.ConsumerPerformance", "--topic", "perf", "--messages", "4000", "--timeout", "60000")
    assert " 4000," in consumed


@pytest.mark.only_all
def test_the_verifiable_tools_produce_and_consume(tools: Tools) -> None:
    tools.create("verifiable")
    sent = tools(f"{TOOLS}.VerifiableProducer", "--topic", "verifiable", "--max-messages", "100", "--acks", "-1")
    [summary] = [each for each in events(sent) if each["name"] == "tool_data"]
    assert (summary["sent"], summary["acked"]) == (100, 100)
    consumer = ["--topic", "verifiable", "--group-id", "verifiable", "--max-messages", "100"]
    got = events(tools(f"{TOOLS}.VerifiableConsumer", *consumer, "--reset-policy", "earliest"))
    assert [each["count"] for each in got if each["name"] == "records_consumed"][-1:] != []
    assert sum(each["count"] for each in got if each["name"] == "records_consumed") == 100
    assert all(each["success"] for each in got if each["name"] == "offsets_committed")


@pytest.mark.only_all
def test_the_transactional_copier_copies_each_record_once_over_its_random_aborts(tools: Tools) -> None:
    tools.create("copied")
    tools.create("copies")
    tools(f"{TOOLS}.VerifiableProducer", "--topic", "copied", "--max-messages", "300", "--acks", "-1")
    places = ["--input-topic", "copied", "--input-partition", "0", "--output-topic", "copies"]
    how = ["--transactional-id", "copier", "--consumer-group", "copier", "--transaction-size", "20"]
    arguments = ["--broker-list", tools.servers, *places, *how, "--max-messages", "300", "--enable-random-aborts"]
    copied = events(tools.run(f"{TOOLS}.TransactionalMessageCopier", *arguments))
    assert copied[-1]["remaining"] == "0" or copied[-1]["remaining"] == 0
    assert tools.values("copies") == tools.values("copied") == [b"%d" % number for number in range(300)]
    listed = tools(f"{TOOLS}.TransactionsCommand", "list")
    assert "copier" in listed
    described = tools(f"{TOOLS}.TransactionsCommand", "describe", "--transactional-id", "copier")
    assert "CompleteCommit" in described or "CompleteAbort" in described


def events(text: str) -> list[dict[str, object]]:
    """What a tool prints as JSON, a line each."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
