"""Kafka's nodes in a registry: their paths, and their contents in each generation from 0.7 to 2.8.

Contents are those that real Kafka 0.7.2, 0.8.2.2, 0.10.2.2, 2.7.2 and 2.8.2 wrote; readers accept all generations, and
ignore unknown keys. Versions of Kafka are tuples, such as (0, 8, 2).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .errors import RegistryError

KafkaVersion = tuple[int, ...]

OLD = (0, 8)  # before this version, that is in 0.7, nodes have text instead of JSON, and there are no leaders
BROKER_IDS, BROKER_TOPICS, CONSUMERS = "/brokers/ids", "/brokers/topics", "/consumers"
CLUSTER_ID, CONTROLLER, CONTROLLER_EPOCH = "/cluster/id", "/controller", "/controller_epoch"

# The version of a node's content, by the first version of Kafka that writes it.
_BROKER_VERSIONS: dict[KafkaVersion, int] = {(0, 8): 1, (0, 9): 2, (0, 10): 3, (0, 10, 2): 4, (2, 7): 5}
_TOPIC_VERSIONS: dict[KafkaVersion, int] = {(0, 8): 1, (2, 4): 2, (2, 8): 3}


def kafka_version(text: str) -> KafkaVersion:
    """Parses a version such as ``0.10.2-IV0``; ignores the part after the hyphen. Raises ValueError."""
    return tuple(int(each) for each in text.partition("-")[0].split("."))


def _version(versions: Mapping[KafkaVersion, int], kafka: KafkaVersion) -> int:
    return max(version for first, version in versions.items() if first <= kafka)


class Endpoint(NamedTuple):
    """The address for clients of one listener."""

    name: str
    protocol: str
    host: str
    port: int


@dataclass(frozen=True)
class RegisteredBroker:
    """A broker with its addresses for clients."""

    endpoints: tuple[Endpoint, ...]  # at least one; before 0.9 exactly one, without TLS and login
    timestamp_ms: int = -1
    creator: str = ""  # in 0.7: the host that registered, and when, in ms

    @classmethod
    def plain(cls, host: str, port: int, timestamp_ms: int = -1, creator: str = "") -> RegisteredBroker:
        """Returns a broker without TLS and logins."""
        return cls((Endpoint("PLAINTEXT", "PLAINTEXT", host, port),), timestamp_ms, creator)

    @property
    def plain_endpoint(self) -> Endpoint | None:
        """The address for clients of 0.8; None if there is none."""
        return next((each for each in self.endpoints if each.protocol == "PLAINTEXT"), None)


def broker_path(broker: int) -> str:
    """Returns the path of a broker's ephemeral node."""
    return f"{BROKER_IDS}/{broker}"


def encode_broker(broker: RegisteredBroker, kafka: KafkaVersion) -> bytes:
    """Returns the content of a broker's node. Raises RegistryError before 0.9 for a broker without a plain listener."""
    plain, version = broker.plain_endpoint, _version(_BROKER_VERSIONS, kafka) if kafka >= OLD else 0
    if plain is None and version < 2:
        raise RegistryError("clients of Kafka before 0.9 support neither TLS nor logins: add a PLAINTEXT listener")
    if plain is not None and version == 0:
        return f"{broker.creator}:{plain.host}:{plain.port}".encode()
    content: dict[str, Any] = {
        "jmx_port": -1,
        "timestamp": str(broker.timestamp_ms),
        "host": None if plain is None else plain.host,
        "version": version,
        "port": -1 if plain is None else plain.port,
    }
    if version >= 2:
        content["endpoints"] = [f"{each.name}://{_bracketed(each.host)}:{each.port}" for each in broker.endpoints]
    if version >= 4:
        content["listener_security_protocol_map"] = {each.name: each.protocol for each in broker.endpoints}
    if version >= 5:
        content["features"] = {}
    return _json(content)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def decode_broker(path: str, data: bytes | None) -> RegisteredBroker:
    """Returns a broker of any generation. Raises RegistryError for anything else."""
    text = (data or b"").decode(errors="replace")
    try:
        if not text.startswith("{"):
            *creator, host, port = text.split(":")
            return RegisteredBroker.plain(host, int(port), creator=":".join(creator))
        content = json.loads(text)
        timestamp_ms = int(content.get("timestamp", -1))
        if not content.get("endpoints"):
            return RegisteredBroker.plain(content["host"], int(content["port"]), timestamp_ms)
        protocols = content.get("listener_security_protocol_map", {})
        return RegisteredBroker(tuple(_endpoint(each, protocols) for each in content["endpoints"]), timestamp_ms)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RegistryError(f"{path}: not the content of a broker's node: {text[:200]!r}") from error


def _endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    name, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    return Endpoint(name, protocols.get(name, name), host.removeprefix("[").removesuffix("]"), int(port))


# Topics and partitions


def topic_path(topic: str) -> str:
    """Returns the path of a topic's node."""
    return f"{BROKER_TOPICS}/{topic}"


def old_topic_path(topic: str, broker: int) -> str:
    """Returns the path of a broker's ephemeral node for a topic, in 0.7; its content is the number of partitions."""
    return f"{BROKER_TOPICS}/{topic}/{broker}"


def encode_topic(replicas: Mapping[int, Sequence[int]], topic_id: str | None, kafka: KafkaVersion) -> bytes:
    """Returns the content of a topic's node. ``replicas``: brokers by partition."""
    version = _version(_TOPIC_VERSIONS, kafka)
    if version >= 3 and topic_id is None:
        version = 2
    content: dict[str, Any] = {
        "version": version,
        "partitions": {str(partition): list(brokers) for partition, brokers in replicas.items()},
    }
    if version >= 2:
        content |= {"adding_replicas": {}, "removing_replicas": {}}
    if version >= 3:
        content["topic_id"] = topic_id
    return _json(content)


def decode_topic(path: str, data: bytes | None) -> dict[int, list[int]]:
    """Returns brokers by partition. Raises RegistryError unless the content is a topic."""
    try:
        return {int(each): list(brokers) for each, brokers in json.loads(data or b"")["partitions"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RegistryError(f"{path}: not the content of a topic's node: {data!r:.200}") from error


def decode_topic_configs(path: str, data: bytes | None) -> dict[str, str]:
    """Returns the settings of a topic. Raises RegistryError for anything else."""
    try:
        found = json.loads(data or b"{}").get("config", {})
        return {str(name): str(value) for name, value in found.items()}
    except (ValueError, AttributeError) as error:
        raise RegistryError(f"{path}: not the settings of a topic: {data!r:.200}") from error


class PartitionState(NamedTuple):
    """The leader of a partition."""

    controller_epoch: int
    leader: int  # -1: nobody
    leader_epoch: int
    in_sync: tuple[int, ...]


def state_path(topic: str, partition: int) -> str:
    """Returns the path of a partition's state, which is a persistent node."""
    return f"{BROKER_TOPICS}/{topic}/partitions/{partition}/state"


def encode_state(state: PartitionState) -> bytes:
    """Returns the content of a partition's state."""
    return _json(
        {
            "controller_epoch": state.controller_epoch,
            "leader": state.leader,
            "version": 1,
            "leader_epoch": state.leader_epoch,
            "isr": list(state.in_sync),
        }
    )


def decode_state(path: str, data: bytes | None) -> PartitionState:
    """Returns a partition's state. Raises RegistryError for anything else."""
    try:
        content = json.loads(data or b"")
        return PartitionState(
            content["controller_epoch"], content["leader"], content["leader_epoch"], tuple(content["isr"])
        )
    except (ValueError, KeyError, TypeError) as error:
        raise RegistryError(f"{path}: not the content of a partition's state: {data!r:.200}") from error


# The controller and the cluster


def encode_controller(broker: int, timestamp_ms: int) -> bytes:
    """Returns the content of the controller's ephemeral node."""
    return _json({"version": 1, "brokerid": broker, "timestamp": str(timestamp_ms)})


def decode_controller(data: bytes | None) -> int:
    """Returns the id of the controller. Raises RegistryError for anything else."""
    try:
        return int(json.loads(data or b"")["brokerid"])
    except (ValueError, KeyError, TypeError) as error:
        raise RegistryError(f"{CONTROLLER}: not the content of the controller's node: {data!r:.200}") from error


def encode_cluster_id(cluster_id: str) -> bytes:
    """Returns the content of the node with the cluster's id; its version is text."""
    return _json({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes | None) -> str:
    """Returns the cluster's id. Raises RegistryError for anything else."""
    try:
        return str(json.loads(data or b"")["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise RegistryError(f"{CLUSTER_ID}: not a cluster's id: {data!r:.200}") from error


# Consumers


@dataclass(frozen=True)
class RegisteredConsumer:
    """The subscription of a consumer in a group, with its numbers of streams."""

    streams: Mapping[str, int]  # by topic, or by regular expression
    pattern: str = "static"  # or "white_list", "black_list"
    timestamp_ms: int = field(default=-1, compare=False)


def consumers_path(group: str) -> str:
    """Returns the path below which the consumers of a group are."""
    return f"{CONSUMERS}/{group}/ids"


def consumer_path(group: str, consumer: str) -> str:
    """Returns the path of a consumer's ephemeral node."""
    return f"{consumers_path(group)}/{consumer}"


def owner_path(group: str, topic: str, partition: int, broker: int | None = None) -> str:
    """Returns the path of the ephemeral node that names the owner of a partition; ``broker``: only in 0.7."""
    return f"{CONSUMERS}/{group}/owners/{topic}/{_partition(partition, broker)}"


def offsets_path(group: str) -> str:
    """Returns the path below which the committed offsets of a group are, by topic."""
    return f"{CONSUMERS}/{group}/offsets"


def offset_path(group: str, topic: str, partition: int, broker: int | None = None) -> str:
    """Returns the path of a committed offset, decimal text in a persistent node; ``broker``: only in 0.7."""
    return f"{offsets_path(group)}/{topic}/{_partition(partition, broker)}"


def _partition(partition: int, broker: int | None) -> str:
    return f"{partition}" if broker is None else f"{broker}-{partition}"


def encode_consumer(consumer: RegisteredConsumer, kafka: KafkaVersion) -> bytes:
    """Returns the content of a consumer's node."""
    if kafka >= OLD:
        content = {
            "version": 1,
            "subscription": dict(consumer.streams),
            "pattern": consumer.pattern,
            "timestamp": str(consumer.timestamp_ms),
        }
        return _json(content)
    if consumer.pattern == "static":
        listed = ",".join(f'"{name}": {count}' for name, count in consumer.streams.items())
        return f"{{ {listed} }}".encode()
    sign = "*" if consumer.pattern == "white_list" else "!"
    return "".join(f"{sign}{count}{sign}{regex}" for regex, count in consumer.streams.items()).encode()


def decode_consumer(path: str, data: bytes | None) -> RegisteredConsumer:
    """Returns a consumer of any generation. Raises RegistryError for anything else."""
    text = (data or b"").decode(errors="replace")
    try:
        if text[:1] in ("*", "!"):
            count, regex = text[1:].split(text[0], 1)
            return RegisteredConsumer({regex: int(count)}, "white_list" if text[0] == "*" else "black_list")
        content = json.loads(text)
        if "subscription" not in content:
            return RegisteredConsumer({str(topic): int(count) for topic, count in content.items()})
        return RegisteredConsumer(
            {str(topic): int(count) for topic, count in content["subscription"].items()},
            content.get("pattern", "static"),
            int(content.get("timestamp", -1)),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RegistryError(f"{path}: not the content of a consumer's node: {text[:200]!r}") from error


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()
