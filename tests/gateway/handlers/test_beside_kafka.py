"""The same requests to the gateway and to Kafka 3.9.1, in all versions, right and wrong: the answers are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.protocol.apis import APIS, ApiKey
from tests.support.gateway import WireClient, fetch_fields, produce_fields, serving
from tests.support.kafka.broker import Broker
from tests.support.logs.building import batch
from tests.support.recorded_wire import alike, plain

pytestmark = [pytest.mark.slow, pytest.mark.only_all]

NOBODY = UUID(int=7)
TEXTS = ("error_message", "batch_index_error_message")  # in other words than Kafka's
Ask = Callable[..., None]  # key, fields; ``first``, ``last``: versions; default: all


class Side:
    """One of the two, and its answers."""

    def __init__(self, where: Any) -> None:
        self.client = WireClient(where)
        self.seen: list[tuple[str, Any]] = []

    def ask(self, key: ApiKey, *, first: int = 0, last: int = 99, without: tuple[str, ...] = (), **fields: Any) -> None:
        """Sends a request in all its versions from ``first`` to ``last``; notes the answers, or that there is none."""
        for version in range(max(first, APIS[key].lowest), min(last, APIS[key].highest) + 1):
            answer = self.client.ask(key, version, **fields)
            self.seen.append(
                (f"{key.name} {version} {fields}", without_names(alike(plain(answer)), (*TEXTS, *without)))
            )

    def create(self, *names: str, **configs: str) -> None:
        given = [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()]
        given.append({"name": "retention.ms", "value": "-1"})
        for name in names:
            asked = {"name": name, "num_partitions": 2, "replication_factor": 1, "configs": given}
            assert not self.client.ask(19, 4, topics=[asked], timeout=10_000).topics[0].error_code
            while not self.leads(name):
                pass  # the broker has not heard of it yet

    def leads(self, topic: str) -> bool:
        """Whether both partitions of a topic can be read."""
        asked = [{"name": topic, "partitions": [{"partition_index": each, "timestamp": -1} for each in (0, 1)]}]
        found = self.client.ask(2, 5, replica_id=-1, isolation_level=0, topics=asked).topics[0].partitions
        return not any(each.error_code for each in found)

    def id_of(self, topic: str) -> Any:
        return self.client.ask(3, 12, topics=[{"name": topic}]).topics[0].topic_id


def without_names(value: Any, names: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {name: without_names(each, names) for name, each in value.items() if name not in names}
    return [without_names(each, names) for each in value] if isinstance(value, list) else value


def metadata(side: Side) -> None:
    side.create("m")
    for names in (["m"], ["nowhere"], ["a b"], [""], ["m", "m", "nowhere", "nowhere"]):
        asked = [{"name": each} for each in names]
        side.ask(ApiKey.METADATA, topics=asked, allow_auto_topic_creation=False)
    own = side.id_of("m")
    for asked in ({"name": None, "topic_id": own}, {"name": "m", "topic_id": own}, {"name": "m", "topic_id": NOBODY}):
        side.ask(ApiKey.METADATA, first=10, topics=[asked], allow_auto_topic_creation=False)
    side.seen = [(label.replace(str(own), ""), answer) for label, answer in side.seen]


def cluster(side: Side) -> None:
    for name, version in (("a", "1"), ("", "1"), ("a b", "1"), ("a", "-1-")):
        unequal = ("api_keys", "supported_features", "finalized_features", "finalized_features_epoch")
        given = {"client_software_name": name, "client_software_version": version}
        side.ask(ApiKey.API_VERSIONS, without=(*unequal, "zk_migration_ready"), **given)
    for kind in range(4):
        side.ask(ApiKey.DESCRIBE_CLUSTER, first=1, endpoint_type=kind)
    for kind in (3, -1):
        side.ask(ApiKey.FIND_COORDINATOR, first=4, key_type=kind, coordinator_keys=("a", "b"))


def offsets(side: Side) -> None:
    side.create("o")
    side.client.ask(0, 8, **produce_fields("o", batch(b"a", b"b", b"c", timestamps=[1000, 3000, 2000]).tobytes()))
    for time in (-7, -5, -4, -3, -2, -1, 0, 1001, 3001):
        for isolation in (0, 1):
            asked = [{"partition_index": number, "timestamp": time} for number in (0, 1, 5)]
            topics = [{"name": "o", "partitions": asked}, {"name": "nowhere", "partitions": asked[:1]}]
            side.ask(ApiKey.LIST_OFFSETS, first=1, replica_id=-1, isolation_level=isolation, topics=topics)
    twice = [{"name": "o", "partitions": [{"partition_index": each, "timestamp": -1} for each in (0, 0, 1)]}]
    side.ask(ApiKey.LIST_OFFSETS, first=1, replica_id=-1, isolation_level=0, topics=twice)
    for epoch in (-1, 0, 1):
        parts = [{"partition": number, "leader_epoch": epoch} for number in (0, 1, 5)]
        topics = [{"topic": topic, "partitions": parts} for topic in ("o", "nowhere")]
        side.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, replica_id=-1, topics=topics)


def empty_topics(side: Side) -> None:
    """Topics of which no partition is named."""
    side.create("e")
    names = ("e", "nowhere")
    topics = [{"name": name, "partitions": []} for name in names]
    side.ask(ApiKey.LIST_OFFSETS, first=1, replica_id=-1, isolation_level=0, topics=topics)
    side.ask(ApiKey.DELETE_RECORDS, topics=topics, timeout=1000)
    fetched = fetch_fields("e", 0, topics=[{"topic": each, "partitions": []} for each in names])
    side.ask(ApiKey.FETCH, first=4, last=12, session_id=0, session_epoch=-1, **fetched)
    data = [{"name": each, "partition_data": []} for each in names]
    side.ask(ApiKey.PRODUCE, first=3, acks=1, timeout=1000, topic_data=data)


def fetch(side: Side) -> None:
    side.create("f")
    side.client.ask(0, 8, **produce_fields("f", batch(b"a", b"b").tobytes()))
    for topic in ("f", "nowhere"):
        for offset in (-1, 0, 1, 2, 3):
            side.ask(ApiKey.FETCH, first=4, last=12, session_id=0, session_epoch=-1, **fetch_fields(topic, offset))
    for session in ((0, 1), (0, -2), (5, 1), (5, 0)):
        named = {"session_id": session[0], "session_epoch": session[1]}
        side.ask(ApiKey.FETCH, first=7, last=12, without=("session_id",), **named, **fetch_fields("f", 0))


def sessions(side: Side) -> None:
    """Fetches in sessions: what is new, moved, dropped and added, wrong epochs, names beside ids, and their end."""
    side.create("s", "other")
    own, ids = {"without": ("session_id",)}, [{"name": each, "id": side.id_of(each)} for each in ("s", "other")]
    for version in (7, 12, 13, 17):
        whole = fetch_fields("s", 0, session_epoch=0)
        whole["topics"] = [
            {"topic": each["name"], "topic_id": each["id"], "partitions": whole["topics"][0]["partitions"]}
            for each in ids
        ]
        moved = [{**whole["topics"][0], "partitions": [{**whole["topics"][0]["partitions"][0], "fetch_offset": 1}]}]
        forgotten = [{"topic": each["name"], "topic_id": each["id"], "partitions": (0,)} for each in ids]
        session = side.client.ask(1, version, **whole).session_id
        assert session > 0

        def ask(epoch: int, topics: Any = (), version: int = version, session: int = session, **more: Any) -> None:
            fields = fetch_fields("s", 0, **{"topics": topics, "session_id": session, "session_epoch": epoch, **more})
            side.ask(ApiKey.FETCH, first=version, last=version, **own, **fields)

        ask(1)
        side.client.ask(0, 8, **produce_fields("s", batch(b"new").tobytes()))
        ask(2)
        ask(3, moved)
        ask(3)  # an epoch that was
        ask(4, version=7 if version > 12 else 13)
        ask(4, forgotten_topics_data=forgotten[1:])
        ask(5, whole["topics"][1:])
        ask(6, forgotten_topics_data=forgotten)
        ask(7)
    side.seen = [(label.split("{")[0], answer) for label, answer in side.seen]


def produce(side: Side) -> None:
    side.create("p")
    right = batch(b"value").tobytes()
    wrong = changed(right, 16, 1), changed(right, 16, 3), changed(right, 7, 1)
    for data in (right, right * 2, right[:-1], right[:40], b"", *wrong):
        side.ask(ApiKey.PRODUCE, first=3, without=("log_append_time",), **produce_fields("p", data))
    side.create("compacted", cleanup_policy="compact")
    side.ask(ApiKey.PRODUCE, first=3, **produce_fields("compacted", right))
    for epoch, sequence in ((1, 0), (1, 0), (1, 5), (0, 1), (2, 0)):
        data = batch(b"v", producer_id=8, producer_epoch=epoch, base_sequence=sequence).tobytes()
        side.ask(ApiKey.PRODUCE, first=8, last=8, **produce_fields("p", data))
    data = batch(b"v", producer_id=9, base_sequence=0, transactional=True).tobytes()
    side.ask(ApiKey.PRODUCE, first=3, **produce_fields("p", data))
    for topic, partition, acks in (("nowhere", 0, 2), ("p", 0, 2), ("p", 7, 1)):
        side.ask(ApiKey.PRODUCE, first=3, **produce_fields(topic, right, partition=partition, acks=acks))


def changed(data: bytes, at: int, to: int) -> bytes:
    return data[:at] + bytes([to]) + data[at + 1 :]


def topics(side: Side) -> None:
    side.create("t", "u")
    own = side.id_of("u")
    for names in (("t", "t"), ("nowhere", "a b", "")):
        side.ask(ApiKey.DELETE_TOPICS, last=5, topic_names=names, timeout=10_000)
    by_id = [{"name": "u"}, {"topic_id": own}], [{"name": "u", "topic_id": own}], [{"name": None, "topic_id": None}]
    for asked in (*by_id, [{"topic_id": NOBODY}], [{"name": "u"}, {"name": "u"}]):
        side.ask(ApiKey.DELETE_TOPICS, first=6, topics=asked, timeout=10_000)
    for partitions, replicas in ((0, 1), (0, 0), (0, 3), (-2, -2), (1, 3), (1, 0)):
        new = {"name": "v", "num_partitions": partitions, "replication_factor": replicas}
        side.ask(ApiKey.CREATE_TOPICS, topics=[new], timeout=10_000, validate_only=True)
    for counts in ((3, 4), (1,), (2,), (-1,)):
        more = [{"name": "t", "count": each, "assignments": None} for each in counts]
        side.ask(ApiKey.CREATE_PARTITIONS, topics=more, timeout=10_000, validate_only=False)
    side.seen = [(label.replace(str(own), ""), answer) for label, answer in side.seen]


def configs(side: Side) -> None:
    side.create("c")
    for kind, name in ((2, "nowhere"), (2, "a b"), (2, ""), (4, "9"), (4, "x")):
        asked = {"resource_type": kind, "resource_name": name}
        if (kind, name) != (4, "9"):
            side.ask(ApiKey.DESCRIBE_CONFIGS, resources=[{**asked, "configuration_keys": None}])
        change = {"name": "log.retention.ms" if kind == 4 else "retention.ms", "value": "7"}
        side.ask(ApiKey.ALTER_CONFIGS, resources=[{**asked, "configs": [change]}], validate_only=False)
        change = {**change, "config_operation": 0}
        side.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=[{**asked, "configs": [change]}], validate_only=False)
    own = {"resource_type": 2, "resource_name": "c"}
    for value, times in ((None, 1), ("7", 2), ("x", 1)):
        asked = [{**own, "configs": [{"name": "retention.ms", "value": value, "config_operation": 0}]}] * times
        if times == 1:  # else a broker does not answer
            side.ask(ApiKey.ALTER_CONFIGS, resources=asked, validate_only=False)
        side.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=asked, validate_only=False)
    bad = [{"name": "log.retention.ms", "value": "x", "config_operation": 0}]
    nodes = [{"resource_type": 4, "resource_name": "", "configs": bad}]
    side.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=nodes, validate_only=False)


def live(side: Side) -> None:
    """Settings of nodes that clients change while they run, those that they may not, and what is shown of each."""

    def change(name: str, setting: str, value: str | None, operation: int = 0, *, is_dry: bool = False) -> None:
        config = {"name": setting, "value": value, "config_operation": operation}
        asked = [{"resource_type": 4, "resource_name": name, "configs": [config]}]
        side.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, first=1, resources=asked, validate_only=is_dry)

    def show(name: str, setting: str, value: str | None = "any") -> None:
        asked = [{"resource_type": 4, "resource_name": name, "configuration_keys": (setting,)}]
        while value != "any" and _first_value(side.client.ask(32, 4, resources=asked, include_synonyms=True)) != value:
            pass  # a broker applies a change after its answer
        side.ask(ApiKey.DESCRIBE_CONFIGS, first=1, resources=asked, include_synonyms=True)

    for name, setting, value in (
        *(("", "max.connections", "50"), ("1", "max.connections", "40"), ("", "max.connections.per.ip", "30")),
        *(("", "max.connections.per.ip.overrides", "127.0.0.1:90"), ("1", "max.connection.creation.rate", "1000")),
        *(("", "message.max.bytes", "2000000"), ("", "log.retention.ms", "1000000"), ("", "log.cleaner.threads", "2")),
        *(("", "log.roll.ms", "100000"), ("", "log.retention.bytes", "-1"), ("", "compression.type", "lz4")),
    ):
        change(name, setting, value, is_dry=True)
        show(name, setting)
        change(name, setting, value)
        show(name, setting, value)
        show("1", setting)
    for setting in ("log.retention.hours", "log.retention.minutes", "log.roll.hours"):
        show("1", setting)
    change("", "log.cleanup.policy", "compact", 2)
    show("1", "log.cleanup.policy", "delete,compact")
    change("", "log.cleanup.policy", "delete", 3)
    show("1", "log.cleanup.policy", "compact")
    for name in ("", "1"):
        for setting, value in (
            *(("num.partitions", "3"), ("log.retention.hours", "3"), ("log.cleaner.enable", "false"), ("node.id", "3")),
            *(("ssl.truststore.location", "/x"), ("ssl.keystore.location", "/x"), ("max.connections", "-1")),
            *(("max.connections", "x"), ("max.connections.per.ip.overrides", "x"), ("log.retention.ms", "x")),
            *(("listener.name.plaintext.ssl.client.auth", "maybe"), ("max.connections", None)),
        ):
            change(name, setting, value)
    for name, setting in (("1", "max.connections"), ("", "max.connections"), ("", "log.cleanup.policy")):
        change(name, setting, None, 1)
    show("1", "max.connections", "2147483647")
    for setting in ("message.max.bytes", "log.retention.ms", "log.roll.ms", "compression.type", "log.cleaner.threads"):
        change("", setting, None, 1)


def _first_value(answer: Any) -> str | None:
    return next((each.value for each in answer.results[0].configs), None)


def brokers(side: Side) -> None:
    side.create("b")
    asked = [{"topic": "b", "partitions": (0, 7)}, {"topic": "nowhere", "partitions": (0,)}]
    for kind in (0, 1, 2):
        side.ask(ApiKey.ELECT_LEADERS, election_type=kind, topic_partitions=asked, timeout=1000)
    for producer in ((5, -1), (-1, 0)):
        given = {"producer_id": producer[0], "producer_epoch": producer[1]}
        side.ask(ApiKey.INIT_PRODUCER_ID, first=3, transactional_id=None, transaction_timeout=1000, **given)
    for topic in ("__consumer_offsets", "b", "nowhere"):
        side.ask(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            v3_and_below_transactional_id="",
            v3_and_below_producer_id=5,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[
                {"name": "__consumer_offsets", "partitions": (0,)},
                {"name": topic, "partitions": (9,)},
            ],
        )


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    patient = {"broker.session.timeout.ms": "60000"}  # on a busy machine it would be fenced
    with Broker(tmp_path_factory.mktemp("kafka")).start(props=patient) as broker:
        yield SimpleNamespace(address=("127.0.0.1", broker.port))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with serving(tmp_path_factory.mktemp("gateway") / "log", auto_create_topics_enable=False) as started:
        yield started


def seen(where: Any, situation: Callable[[Side], None]) -> list[tuple[str, Any]]:
    side = Side(where)
    with side.client:
        situation(side)
    return side.seen


@pytest.mark.parametrize(
    "situation", [metadata, cluster, offsets, empty_topics, fetch, sessions, produce, topics, configs, live, brokers]
)
def test_answers_are_those_of_kafka(kafka: Any, gateway: Gateway, situation: Callable[[Side], None]) -> None:
    ours, theirs = seen(gateway, situation), seen(kafka, situation)
    for our, their in zip(ours, theirs, strict=True):
        assert our == their
