"""Registration: a node's ephemeral nodes in the registry, and the checks before it starts.

``/brokers/ids/<id>`` is Kafka's, for clients and tools of Kafka. ``/commitlog/nodes/<id>`` marks the broker as a
gateway, and names its process. A broker without it is one of Kafka: its controller would send every registered broker
requests that a gateway does not serve.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence

from ...registry import kafka_nodes
from ...registry.errors import NodeExistsError, RegistryError
from ...registry.kafka_nodes import BROKER_IDS, Endpoint, KafkaVersion, RegisteredBroker
from ...registry.operations import children_if_any, discard, register
from ...registry.port import Node, Registry
from ...storage import this_process

GATEWAYS = "/commitlog/nodes"
SHARING, OF_0_7 = "log", "kafka-0.7"  # kinds: those that share a log directory; servers of 0.7, each with its own
_LOOKS = 3  # a gateway that ends between two reads is not of another kind


class NodeIdInUseError(RegistryError):
    """Another process is registered with this node id."""


class OtherBrokersError(RegistryError):
    """A broker that is no gateway is registered here."""


class Registration:
    """The nodes of one gateway. Belongs to one thread at a time."""

    def __init__(
        self,
        registry: Registry,
        node: int,
        endpoints: Sequence[Endpoint],
        kafka: KafkaVersion,
        now_ms: int,
        *,
        kind: str = SHARING,
    ) -> None:
        """``kafka``: the version whose format the broker's node has. ``now_ms``: the time of the start. ``kind``: what
        all gateways of a registry must have in common."""
        self._registry, self.node = registry, node
        self._broker = RegisteredBroker(tuple(endpoints), now_ms, f"{endpoints[0].host}-{now_ms}")
        self._kafka, self._kind = kafka, kind

    def make(self, wait_s: float = 0.0) -> None:
        """Registers the node; does nothing if it is registered already.

        Waits up to ``wait_s`` seconds for an earlier session of this address to expire, which a killed process left in
        ZooKeeper. Raises NodeIdInUseError and OtherBrokersError; then nothing is registered.
        """
        self._make_own(wait_s)
        try:
            self._check_kinds()
            register(
                self._registry,
                kafka_nodes.broker_path(self.node),
                kafka_nodes.encode_broker(self._broker, self._kafka),
            )
        except NodeExistsError:
            self.remove()
            raise self._other_kind([self.node]) from None
        except BaseException:
            self.remove()
            raise

    def _make_own(self, wait_s: float) -> None:
        first = self._broker.endpoints[0]
        content = {"process": this_process(), "address": f"{first.host}:{first.port}", "kind": self._kind}
        path, deadline_s = f"{GATEWAYS}/{self.node}", time.monotonic() + wait_s
        while True:
            try:
                register(self._registry, path, json.dumps(content).encode())
                return
            except NodeExistsError:
                found = self._registry.find(path)
                other = {} if found is None else _content(found)
            if found is not None and (other.get("address") != content["address"] or time.monotonic() > deadline_s):
                raise NodeIdInUseError(
                    f"node.id = {self.node}: in use by {other.get('process', 'another process')}, a gateway at "
                    f"{other.get('address', 'an unknown address')}; give each gateway a node.id of its own"
                )
            time.sleep(0.05)

    def _check_kinds(self) -> None:
        others: Collection[int] = ()
        for _ in range(_LOOKS):
            brokers = registered(self._registry, BROKER_IDS)
            others = brokers - self._alike(registered(self._registry, GATEWAYS))
            if not others:
                return
        raise self._other_kind(others)

    def _alike(self, gateways: Collection[int]) -> set[int]:
        """Returns those of the gateways that are of the same kind."""
        found = ((each, self._registry.find(f"{GATEWAYS}/{each}")) for each in gateways)
        return {each for each, node in found if node is not None and _content(node).get("kind") == self._kind}

    def _other_kind(self, others: Collection[int]) -> OtherBrokersError:
        return OtherBrokersError(
            f"broker {', '.join(map(str, sorted(others)))} is registered here and is no gateway of this kind; a real "
            "controller would send requests that gateways do not serve. Give the gateways a chroot of their own: "
            "zookeeper.connect = host:port/chroot"
        )

    def remove(self) -> None:
        """Removes the nodes; the session stays."""
        for path in (kafka_nodes.broker_path(self.node), f"{GATEWAYS}/{self.node}"):
            found = self._registry.find(path)
            if found is not None and found.owner == self._registry.session:
                discard(self._registry, path)


def _content(node: Node) -> dict[str, str]:
    try:
        content: dict[str, str] = json.loads(node.data or b"{}")
    except ValueError:
        return {}
    return content


def registered(registry: Registry, path: str) -> set[int]:
    """Returns the ids below a path; an empty set if the path is missing."""
    return {int(each) for each in children_if_any(registry, path) if each.isdigit()}
