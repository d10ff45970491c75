"""Kafka's nodes: contents that real Kafka 0.7.2 to 2.8.2 wrote are read, and written the same again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.registry import kafka_nodes
from pyspark_commitlog.registry.errors import RegistryError

RECORDED: dict[str, dict[str, dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "golden/registry/nodes.json").read_text()
)
ALL = [(version, path) for version, nodes in RECORDED.items() for path in nodes]


def like(text: str, version: str) -> Any:
    """What two contents must have in common: of JSON the values, of text every character."""
    return json.loads(text) if text.startswith("{") and version != "0.7.2" else text


Again = Callable[[str, bytes, tuple[int, ...]], bytes]
AGAIN: dict[str, Again] = {
    r"/brokers/ids/\d+": lambda path, data, kafka: kafka_nodes.encode_broker(
        kafka_nodes.decode_broker(path, data), kafka
    ),
    r"/brokers/topics/[^/]+": lambda path, data, kafka: kafka_nodes.encode_topic(
        kafka_nodes.decode_topic(path, data), json.loads(data).get("topic_id"), kafka
    ),
    ".*/state": lambda path, data, kafka: kafka_nodes.encode_state(kafka_nodes.decode_state(path, data)),
    "/consumers/.*/ids/.*": lambda path, data, kafka: kafka_nodes.encode_consumer(
        kafka_nodes.decode_consumer(path, data), kafka
    ),
    "/cluster/id": lambda path, data, kafka: kafka_nodes.encode_cluster_id(kafka_nodes.decode_cluster_id(data)),
    "/controller": lambda path, data, kafka: kafka_nodes.encode_controller(
        kafka_nodes.decode_controller(data), json.loads(data)["timestamp"]
    ),
}


def written_again(path: str, data: bytes, kafka: tuple[int, ...]) -> bytes | None:
    """The content as we write it, made of what we read; None for plain text."""
    return next((again(path, data, kafka) for kind, again in AGAIN.items() if re.fullmatch(kind, path)), None)


@pytest.mark.parametrize(("version", "path"), ALL)
def test_a_node_of_real_kafka_is_read_and_written_the_same_again(version: str, path: str) -> None:
    data = RECORDED[version][path]["data"]
    again = written_again(path, data.encode(), kafka_nodes.kafka_version(version))
    if again is not None:
        assert like(again.decode(), version) == like(data, version)


def test_the_recorded_nodes_have_every_kind() -> None:
    kinds = {re.sub(r"\d+", "0", path.split("/")[-2]) for _, path in ALL}
    assert {"ids", "topics", "0", "cluster", "alpha", "beta"} <= kinds


@pytest.mark.parametrize(("version", "path"), ALL)
def test_paths_are_those_of_real_kafka(version: str, path: str) -> None:
    names = path.split("/")[1:]
    broker, _, partition = names[-1].rpartition("-")
    old = int(broker) if broker.isdigit() else None
    match names:
        case ["brokers", "ids", broker_id]:
            assert kafka_nodes.broker_path(int(broker_id)) == path
        case ["brokers", "topics", topic]:
            assert kafka_nodes.topic_path(topic) == path
        case ["brokers", "topics", topic, broker_id]:
            assert kafka_nodes.old_topic_path(topic, int(broker_id)) == path
        case ["brokers", "topics", topic, "partitions", number, "state"]:
            assert kafka_nodes.state_path(topic, int(number)) == path
        case ["consumers", group, "ids", consumer]:
            assert kafka_nodes.consumer_path(group, consumer) == path
        case ["consumers", group, "owners", topic, _]:
            assert kafka_nodes.owner_path(group, topic, int(partition), old) == path
        case ["consumers", group, "offsets", topic, _]:
            assert kafka_nodes.offset_path(group, topic, int(partition), old) == path
        case _:
            assert path in (kafka_nodes.CLUSTER_ID, kafka_nodes.CONTROLLER, kafka_nodes.CONTROLLER_EPOCH)


@pytest.mark.parametrize(
    ("data", "host", "port"),
    [
        (b"anna:9092", "anna", 9092),  # the short form that documents of 0.7 have
        (b"anna-1700000000000:anna:9092", "anna", 9092),
        (b'{"host":"anna","port":9092,"version":1,"unknown":[]}', "anna", 9092),
        (b'{"endpoints":["SSL://[::1]:9093","PLAINTEXT://anna:1"],"host":null,"port":-1,"version":4}', "::1", 9093),
    ],
)
def test_a_broker_of_any_generation_is_read(data: bytes, host: str, port: int) -> None:
    found = kafka_nodes.decode_broker("/brokers/ids/0", data).endpoints[0]
    assert (found.host, found.port) == (host, port)


@pytest.mark.parametrize("data", [None, b"", b"{", b"[]", b"{}", b"anna", b'{"endpoints":[1]}', b"\xff:\xff"])
def test_what_is_no_node_of_kafka_is_refused_with_its_path(data: bytes | None) -> None:
    for decode in (
        kafka_nodes.decode_broker,
        kafka_nodes.decode_topic,
        kafka_nodes.decode_state,
    ):
        with pytest.raises(RegistryError, match="/the/path: not the content of"):
            decode("/the/path", data)
    with pytest.raises(RegistryError):
        kafka_nodes.decode_cluster_id(data)
    with pytest.raises(RegistryError):
        kafka_nodes.decode_controller(data)


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"config":["retention.ms"]}', b"\xff"])
def test_what_is_no_topics_settings_is_refused_with_its_path(data: bytes) -> None:
    with pytest.raises(RegistryError, match="/the/path: not the settings of a topic"):
        kafka_nodes.decode_topic_configs("/the/path", data)
    assert kafka_nodes.decode_topic_configs("/the/path", None) == {}


def test_listeners_are_shown_as_kafka_shows_them() -> None:
    outside = kafka_nodes.Endpoint("OUTSIDE", "SSL", "::1", 9093)
    broker = kafka_nodes.RegisteredBroker((outside,), 5)
    content = json.loads(kafka_nodes.encode_broker(broker, (2, 7)))
    assert (content["host"], content["port"], content["endpoints"]) == (None, -1, ["OUTSIDE://[::1]:9093"])
    assert kafka_nodes.decode_broker("", kafka_nodes.encode_broker(broker, (2, 7))) == broker
    with pytest.raises(RegistryError, match="add a PLAINTEXT listener"):
        kafka_nodes.encode_broker(broker, (0, 8, 2))
    both = kafka_nodes.RegisteredBroker((outside, kafka_nodes.Endpoint("INSIDE", "PLAINTEXT", "anna", 9092)), 5)
    assert json.loads(kafka_nodes.encode_broker(both, (0, 8, 2)))["host"] == "anna"
    assert kafka_nodes.decode_broker("", kafka_nodes.encode_broker(both, (0, 10, 2))) == both


@pytest.mark.parametrize(
    ("text", "version"), [("0.7", (0, 7)), ("0.8.2.X", None), ("0.10.2-IV0", (0, 10, 2)), ("2.8", (2, 8)), ("x", None)]
)
def test_versions_of_kafka(text: str, version: tuple[int, ...] | None) -> None:
    if version is None:
        with pytest.raises(ValueError, match="invalid literal"):
            kafka_nodes.kafka_version(text)
    else:
        assert kafka_nodes.kafka_version(text) == version
