"""Several gateways over one directory, in one process, and clients of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pyspark_commitlog.gateway.cluster.registration import NodeIdInUseError, OtherBrokersError
from pyspark_commitlog.gateway.config import GatewayConfig
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.registry import kafka_nodes
from pyspark_commitlog.registry.files import FileRegistry
from tests.support.gateway import LOCAL, WireClient, fetch_fields, produce_fields, serving
from tests.support.logs.building import batch
from tests.support.waiting import soon

METADATA, PRODUCE, FETCH, LIST_OFFSETS, FIND, HEARTBEAT, REASSIGN = 3, 0, 1, 2, 10, 12, 45
CONSUMER_HEARTBEAT = 68
CREATE_TOPICS, EPOCH_ENDS, DESCRIBE_CONFIGS, CREATE_PARTITIONS, ALTER_CONFIGS = 19, 23, 32, 37, 44
NOT_LEADER, NOT_COORDINATOR, INVALID_ASSIGNMENT, INVALID, FENCED, UNKNOWN_EPOCH = 6, 16, 39, 42, 74, 75


class Nodes:
    """Gateways over one directory, by their ids."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.by_id: dict[int, Gateway] = {}

    def start(self, *ids: int, **settings: Any) -> None:
        for node in ids:
            config = GatewayConfig(
                listeners=LOCAL,
                node_id=node,
                num_partitions=12,
                group_initial_rebalance_delay_ms=0,
                inter_broker_protocol_version="2.8",  # so that topics may have old formats
                **settings,
            )
            gateway = Gateway(str(self._directory), config, create=True)
            gateway.start()
            self.by_id[node] = gateway
        self.agree()

    def stop(self, node: int) -> None:
        self.by_id.pop(node).stop()
        self.agree()

    def agree(self) -> None:
        """Waits until all see the nodes that are there."""
        soon(lambda: all(each.context.cluster.view.nodes == set(self.by_id) for each in self.by_id.values()))

    @property
    def bootstrap(self) -> str:
        return ",".join(each.bootstrap_servers for each in self.by_id.values())

    def leader(self, topic: str, partition: int) -> int:
        return next(iter(self.by_id.values())).context.cluster.leader(topic, partition).node

    def other(self, node: int) -> int:
        return next(each for each in self.by_id if each != node)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """Three nodes, and a topic of twelve partitions."""
    found = Nodes(tmp_path / "log")
    found.start(1, 2, 3)
    admin = AdminClient({"bootstrap.servers": found.bootstrap})
    admin.create_topics([NewTopic("t", 12)])["t"].result(30)
    yield found
    for each in found.by_id.values():
        each.stop()


def metadata(gateway: Gateway) -> Any:
    with WireClient(gateway) as client:
        return client.ask(METADATA, 9, topics=None)


def test_every_node_tells_the_same_of_all(nodes: Nodes) -> None:
    answers = [metadata(each) for each in nodes.by_id.values()]
    for each in answers:
        assert {broker.node_id: (broker.host, broker.port) for broker in each.brokers} == {
            node: tuple(gateway.address) for node, gateway in nodes.by_id.items()
        }
        assert (each.cluster_id, each.controller_id) == (answers[0].cluster_id, 1)
        assert len(each.cluster_id) == 22
        leaders = {part.partition_index: part.leader_id for part in each.topics[0].partitions}
        assert leaders == {number: nodes.leader("t", number) for number in range(12)}
    assert set(leaders.values()) == {1, 2, 3}


def test_a_topic_that_is_made_at_one_node_is_known_to_all_at_once(nodes: Nodes) -> None:
    with WireClient(nodes.by_id[1]) as client:
        asked = [{"name": "new", "num_partitions": 3, "replication_factor": 1, "assignments": (), "configs": ()}]
        answer = client.ask(19, 4, topics=asked, timeout=30_000, validate_only=False)
        assert answer.topics[0].error_code == 0
    for each in nodes.by_id.values():
        assert {topic.name for topic in metadata(each).topics} == {"t", "new"}


def test_a_node_that_does_not_lead_a_partition_says_so(nodes: Nodes) -> None:
    leader = nodes.leader("t", 0)
    with WireClient(nodes.by_id[nodes.other(leader)]) as client:
        produced = client.ask(PRODUCE, 8, transactional_id=None, **produce_fields("t", batch(b"a").tobytes()))
        assert produced.responses[0].partition_responses[0].error_code == NOT_LEADER
        assert client.ask(FETCH, 4, **fetch_fields("t", 0)).responses[0].partitions[0].error_code == NOT_LEADER
        asked = [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
        offsets = client.ask(LIST_OFFSETS, 1, replica_id=-1, topics=asked)
        assert offsets.topics[0].partitions[0].error_code == NOT_LEADER
    with WireClient(nodes.by_id[leader]) as client:
        produced = client.ask(PRODUCE, 8, transactional_id=None, **produce_fields("t", batch(b"a").tobytes()))
        assert produced.responses[0].partition_responses[0].error_code == 0


def test_every_node_says_that_a_partition_is_where_it_is_led(nodes: Nodes) -> None:
    leaders = [nodes.leader("t", number) for number in range(12)]
    here = [{"partition_index": number, "replicas": (node,)} for number, node in enumerate(leaders)]
    elsewhere = [{"partition_index": number, "replicas": (nodes.other(node),)} for number, node in enumerate(leaders)]
    for each in nodes.by_id.values():
        with WireClient(each) as client:
            for partitions, code in ((here, 0), (elsewhere, INVALID_ASSIGNMENT)):
                (found,) = client.ask(REASSIGN, 0, topics=[{"name": "t", "partitions": partitions}]).responses
                assert {part.error_code for part in found.partitions} == {code}


def test_a_topic_is_made_and_enlarged_with_the_replicas_that_metadata_shows(nodes: Nodes) -> None:
    def creates(client: WireClient, shift: int) -> int:
        replicas = [(number, (nodes.leader("new", number) + shift) % 4) for number in range(4)]
        assignments = [{"partition_index": number, "broker_ids": (node,)} for number, node in replicas]
        asked = {"name": "new", "num_partitions": -1, "replication_factor": -1, "assignments": assignments}
        return int(client.ask(CREATE_TOPICS, 7, topics=[asked], timeout=1000).topics[0].error_code)

    def enlarges(client: WireClient, shift: int) -> int:
        replicas = [((nodes.leader("new", number) + shift) % 4,) for number in (4, 5, 6)]
        asked = {"name": "new", "count": 7, "assignments": [{"broker_ids": each} for each in replicas]}
        answer = client.ask(CREATE_PARTITIONS, 1, topics=[asked], timeout=1000, validate_only=False)
        return int(answer.results[0].error_code)

    for change in (creates, enlarges):
        with WireClient(nodes.by_id[2]) as client:
            assert [change(client, shift) for shift in (1, 0)] == [INVALID_ASSIGNMENT, 0]
    found = {topic.name: topic for topic in metadata(nodes.by_id[1]).topics}["new"]
    assert [tuple(part.replica_nodes) for part in found.partitions] == [(nodes.leader("new", n),) for n in range(7)]


def test_configs_of_any_node_are_changed_at_any_and_shown_by_itself(nodes: Nodes) -> None:
    for each in nodes.by_id:
        with WireClient(nodes.by_id[1]) as client:
            resource = {"resource_type": 4, "resource_name": f"{each}"}
            days = {"name": "log.retention.ms", "config_operation": 0, "value": f"{each}000"}
            asked = [{**resource, "configs": [days]}]
            answer = client.ask(ALTER_CONFIGS, 1, resources=asked, validate_only=False)
            assert answer.responses[0].error_code == 0
        for node, gateway in nodes.by_id.items():
            with WireClient(gateway) as client:
                asked = [{**resource, "configuration_keys": ("log.retention.ms", "node.id")}]
                (found,) = client.ask(DESCRIBE_CONFIGS, 3, resources=asked).results
                assert found.error_code == (0 if node == each else INVALID)
                shown = {config.name: config.value for config in found.configs}
                assert shown == ({"log.retention.ms": f"{each}000", "node.id": f"{each}"} if node == each else {})


def test_a_node_whose_id_is_in_use_does_not_start(nodes: Nodes, tmp_path: Path) -> None:
    address = nodes.by_id[2].address
    with pytest.raises(NodeIdInUseError, match=rf"node.id = 2: in use by process .* at {address}; give each"):
        nodes.start(2)
    assert metadata(nodes.by_id[2]).controller_id == 1


def test_a_node_beside_a_broker_of_another_kind_does_not_start(tmp_path: Path) -> None:
    with serving(tmp_path / "log"):
        pass
    with FileRegistry(str(tmp_path / "log")) as registry:
        broker = kafka_nodes.RegisteredBroker.plain("127.0.0.1", 9092)
        registry.create("/brokers/ids/0", kafka_nodes.encode_broker(broker, (2, 8)), ephemeral=True)
        with pytest.raises(OtherBrokersError, match="broker 0 is registered here and is no gateway of this kind"):
            Nodes(tmp_path / "log").start(1)
        registry.delete("/brokers/ids/0")
        found = Nodes(tmp_path / "log")
        found.start(1)
        found.stop(1)
        assert registry.children("/brokers/ids") == []


def test_partitions_of_a_node_that_stops_move_with_another_epoch_and_the_others_stay(nodes: Nodes) -> None:
    before = {number: nodes.by_id[1].context.cluster.leader("t", number) for number in range(12)}
    nodes.stop(3)
    for number, was in before.items():
        now = nodes.by_id[1].context.cluster.leader("t", number)
        if was.node == 3:
            assert now.node in (1, 2)
            assert now.epoch > was.epoch
        else:
            assert now == was


def test_a_client_that_knows_an_older_leader_is_told(nodes: Nodes) -> None:
    moved = next(number for number in range(12) if nodes.leader("t", number) == 3)
    nodes.stop(3)
    leader = nodes.leader("t", moved)
    epoch = nodes.by_id[leader].context.cluster.leader("t", moved).epoch
    for known, said in ((epoch - 1, FENCED), (epoch, 0), (-1, 0)):
        asked = {"partition": moved, "fetch_offset": 0, "partition_max_bytes": 1000, "current_leader_epoch": known}
        with WireClient(nodes.by_id[leader]) as client:
            answer = client.ask(
                FETCH, 9, **fetch_fields("t", 0, topics=[{"topic": "t", "partitions": [asked]}]), **SESSIONLESS
            )
        assert answer.responses[0].partitions[0].error_code == said


@pytest.mark.parametrize("version", ["0.8.2", "0.10.0", "0.11.0"])
def test_the_epoch_that_metadata_shows_counts_whatever_the_format_of_the_records(nodes: Nodes, version: str) -> None:
    """A log of message sets has no epochs, and its partition has one all the same, as with a broker of Kafka 2."""
    config = {"name": "message.format.version", "value": version}
    with WireClient(nodes.by_id[1]) as client:
        asked = {"name": "old", "num_partitions": 12, "replication_factor": 1, "configs": [config]}
        assert client.ask(CREATE_TOPICS, 7, topics=[asked], timeout=1000).topics[0].error_code == 0
    moved = next(number for number in range(12) if nodes.leader("old", number) == 3)
    nodes.stop(3)
    with WireClient(nodes.by_id[nodes.leader("old", moved)]) as client:
        data = batch(b"a", b"b").tobytes()
        written = client.ask(PRODUCE, 8, transactional_id=None, **produce_fields("old", data, partition=moved))
        assert written.responses[0].partition_responses[0].error_code == 0
        (topic,) = client.ask(METADATA, 9, topics=[{"name": "old"}]).topics
        shown = topic.partitions[moved].leader_epoch
        assert shown == nodes.by_id[1].context.cluster.leader("old", moved).epoch > 0
        for known, code in ((shown - 1, FENCED), (shown, 0), (shown + 1, UNKNOWN_EPOCH), (-1, 0)):
            partition = {"partition": moved, "partition_index": moved, "current_leader_epoch": known}
            part = {**partition, "fetch_offset": 0, "partition_max_bytes": 1000}
            fetch = fetch_fields("old", 0, topics=[{"topic": "old", "partitions": [part]}])
            fetched = client.ask(FETCH, 9, **fetch, **SESSIONLESS).responses[0].partitions[0]
            topics = [{"name": "old", "partitions": [{**partition, "timestamp": -1}]}]
            listed = client.ask(LIST_OFFSETS, 5, replica_id=-1, topics=topics).topics[0].partitions[0]
            topics = [{"topic": "old", "partitions": [{**partition, "leader_epoch": 0}]}]
            ended = client.ask(EPOCH_ENDS, 3, replica_id=-1, topics=topics).topics[0].partitions[0]
            assert [each.error_code for each in (fetched, listed, ended)] == [code] * 3
        has_epochs = version == "0.11.0"
        assert (ended.leader_epoch, ended.end_offset) == ((0, 2) if has_epochs else (-1, -1))


SESSIONLESS = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": ()}


def test_a_group_has_one_coordinator_and_others_say_so(nodes: Nodes) -> None:
    for name in ("a", "b", "c", "d", "e"):
        found = set()
        for each in nodes.by_id.values():
            with WireClient(each) as client:
                found.add(client.ask(FIND, 1, key=name, key_type=0).node_id)
        (coordinator,) = found
        with WireClient(nodes.by_id[nodes.other(coordinator)]) as client:
            answer = client.ask(HEARTBEAT, 0, group_id=name, generation_id=1, member_id="m")
            assert answer.error_code == NOT_COORDINATOR


# --- clients


def produced(nodes: Nodes, values: list[str], **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": nodes.bootstrap, "enable.idempotence": True, **settings})
    errors: list[Any] = []
    for value in values:
        producer.produce("t", value, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert set(errors) == {None}


def consumed(nodes: Nodes, count: int, group: str, **settings: Any) -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": nodes.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    consumer.subscribe(["t"])
    found: list[str] = []

    def take() -> bool:
        for message in consumer.consume(100, 0.2):
            assert message.error() is None
            found.append((message.value() or b"").decode())
        return len(found) >= count

    soon(take)
    consumer.commit(asynchronous=False)
    consumer.close()
    return sorted(found)


@pytest.fixture
def values() -> list[str]:
    return sorted(f"{number:04d}" for number in range(300))


def test_clients_write_and_read_all_partitions_while_a_node_stops_and_comes_back(
    nodes: Nodes, values: list[str]
) -> None:
    produced(nodes, values[:100])
    nodes.stop(2)
    produced(nodes, values[100:200])
    assert consumed(nodes, 200, "g") == values[:200]
    nodes.start(2)
    produced(nodes, values[200:])
    assert consumed(nodes, 100, "g") == values[200:]
    assert consumed(nodes, 300, "another") == values


def test_a_member_of_a_new_group_goes_on_at_another_node_with_what_it_had(nodes: Nodes) -> None:
    with WireClient(nodes.by_id[1]) as client:
        coordinator = client.ask(FIND, 1, key="new", key_type=0).node_id
    fields = {"group_id": "new", "member_id": "m", "rebalance_timeout": 60_000, "subscribed_topic_names": ["t"]}
    with WireClient(nodes.by_id[coordinator]) as client:
        joined = client.ask(CONSUMER_HEARTBEAT, 1, **fields, member_epoch=0, topic_partitions=[])
        assert len(joined.assignment.topic_partitions[0].partitions) == 12
    nodes.stop(coordinator)
    asked = {"group_id": "new", "member_id": "m", "member_epoch": joined.member_epoch, "topic_partitions": None}

    def goes_on() -> bool:
        found = []
        for each in nodes.by_id.values():
            with WireClient(each) as client:
                answer = client.ask(CONSUMER_HEARTBEAT, 1, **asked)
                found.append((int(answer.error_code), answer.member_epoch))
        return sorted(found) == [(0, joined.member_epoch), (NOT_COORDINATOR, 0)]

    soon(goes_on)


def test_transactions_over_all_nodes_are_whole(nodes: Nodes, values: list[str]) -> None:
    settings = {"bootstrap.servers": nodes.bootstrap, "transactional.id": "tx"}
    producer = Producer(settings)
    producer.init_transactions(60)

    def write(some: list[str], end: Callable[[float], None]) -> None:
        producer.begin_transaction()
        for value in some:
            producer.produce("t", value, value)
        end(60)

    write(values[:100], producer.commit_transaction)
    write(values[100:200], producer.abort_transaction)
    coordinator = nodes.by_id[1].context.cluster.leader(
        "__transaction_state", nodes.by_id[1].context.transactions.homes.home_of("tx")
    )
    nodes.stop(coordinator.node)
    write(values[200:], producer.commit_transaction)
    assert consumed(nodes, 200, "g", **{"isolation.level": "read_committed"}) == values[:100] + values[200:]


def test_offsets_in_a_transaction_count_whichever_node_coordinates(nodes: Nodes, values: list[str]) -> None:
    produced(nodes, values)
    for number in range(6):  # so that group and transaction have the same coordinator, and two
        consumer = Consumer({"bootstrap.servers": nodes.bootstrap, "group.id": f"g{number}"})
        producer = Producer({"bootstrap.servers": nodes.bootstrap, "transactional.id": f"tx{number}"})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce("t", "more")
        metadata_of_group = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([TopicPartition("t", 0, 7)], metadata_of_group, 60)
        producer.commit_transaction(60)
        assert consumer.committed([TopicPartition("t", 0)], 60)[0].offset == 7
        consumer.close()
