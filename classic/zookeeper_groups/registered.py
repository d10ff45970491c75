"""Registered: reads the members of a group and the partitions of topics from a registry, with watches on all."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection, Iterator
from uuid import uuid4

from ...registry import kafka_nodes
from ...registry.kafka_nodes import BROKER_IDS, BROKER_TOPICS, OLD, KafkaVersion
from ...registry.operations import children_if_any
from ...registry.port import Change, Registry
from .assignment import Partition, Stream
from .subscription import Subscription


def consumer_id(group: str, name: str | None = None) -> str:
    """Returns the id of a consumer in its group. ``name``: its last part; None: a unique one."""
    return f"{group}_{name or f'{socket.gethostname()}-{int(time.time() * 1000)}-{uuid4().hex[:8]}'}"


class Registered:
    """The content of a registry that concerns one group.

    ``changed`` is called, in a thread of the registry, when anything that was read has changed. ``kafka``: the version
    of the nodes; before 0.8, brokers register topics. All calls raise RegistryError.
    """

    def __init__(self, registry: Registry, group: str, kafka: KafkaVersion, changed: Callable[[], None]) -> None:
        self.registry, self.group, self.kafka = registry, group, kafka
        self._changed = changed

    @property
    def is_old(self) -> bool:
        """Whether brokers are of 0.7."""
        return self.kafka < OLD

    def has_brokers(self) -> bool:
        """Whether any broker is registered."""
        return bool(self._children(BROKER_IDS))

    def topics(self) -> list[str]:
        """Returns all topics."""
        return self._children(BROKER_TOPICS)

    def subscriptions(self, *, exclude_internal: bool) -> dict[str, Subscription]:
        """Returns the subscription of each consumer of the group."""
        found = {}
        for name in self._children(kafka_nodes.consumers_path(self.group)):
            path = kafka_nodes.consumer_path(self.group, name)
            if (node := self.registry.find(path)) is not None:
                registered = kafka_nodes.decode_consumer(path, node.data)
                found[name] = Subscription.of(registered, exclude_internal=exclude_internal)
        return found

    def partitions(self, topic: str) -> list[Partition]:
        """Returns the partitions of a topic; an empty list if it does not exist."""
        return list(self._of_brokers(topic) if self.is_old else self._of_cluster(topic))

    def owner(self, partition: Partition) -> str:
        """Returns the path of the node that names the owner of a partition."""
        return kafka_nodes.owner_path(self.group, *partition)

    def owners(self, topic: str) -> dict[str, str]:
        """Returns the owners of a topic's partitions, streams by partition name."""
        parent = kafka_nodes.owner_path(self.group, topic, 0).rpartition("/")[0]
        found = {}
        for name in children_if_any(self.registry, parent):
            if (node := self.registry.find(f"{parent}/{name}")) is not None:
                found[name] = (node.data or b"").decode()
        return found

    def _of_brokers(self, topic: str) -> Iterator[Partition]:
        for broker in self._children(kafka_nodes.topic_path(topic)):
            if broker.isdecimal() and (node := self.registry.find(kafka_nodes.old_topic_path(topic, int(broker)))):
                for partition in range(int(node.data or b"0")):
                    yield Partition(topic, partition, int(broker))

    def _of_cluster(self, topic: str) -> Iterator[Partition]:
        path = kafka_nodes.topic_path(topic)
        node = self.registry.find(path, self._watch)
        if node is not None:
            for partition in kafka_nodes.decode_topic(path, node.data):
                yield Partition(topic, partition)

    def _children(self, path: str) -> list[str]:
        return children_if_any(self.registry, path, self._watch)

    def _watch(self, change: Change, path: str) -> None:
        self._changed()


def streams_by_topic(subscriptions: dict[str, Subscription], topics: Collection[str]) -> dict[str, list[Stream]]:
    """Returns the streams of a whole group by topic."""
    found: dict[str, list[Stream]] = {}
    for consumer, subscription in subscriptions.items():
        for topic, streams in subscription.streams(consumer, topics).items():
            found.setdefault(topic, []).extend(streams)
    return found
