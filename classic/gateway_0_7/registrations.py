"""Registrations: the nodes of a broker of 0.7 and of its topics in a ZooKeeper, by which consumers of 0.7 find them."""

from __future__ import annotations

from ...gateway.cluster.registration import OF_0_7, Registration
from ...registry import kafka_nodes
from ...registry.kafka_nodes import Endpoint
from ...registry.operations import register
from ...registry.port import Registry
from ...storage import Address, Clock
from ..log_0_7.directory import PositionLogDirectory

KAFKA = (0, 7)
LOOK_S = 0.5


class Registrations:
    """The nodes of one broker. Belongs to one thread at a time."""

    def __init__(
        self, registry: Registry, broker: int, address: Address, logs: PositionLogDirectory, clock: Clock
    ) -> None:
        """``address``: where clients are told to connect to."""
        endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", *address)
        self._registration = Registration(registry, broker, [endpoint], KAFKA, clock.now_ms(), kind=OF_0_7)
        self._registry, self._broker, self._logs = registry, broker, logs
        self._session = ""
        self._topics: set[str] = set()

    def look(self, wait_s: float = 0.0) -> None:
        """Registers the broker if it has no session or a new one, and the topics that are new since the last call.

        Waits up to ``wait_s`` seconds and raises errors like :meth:`Registration.make`.
        """
        session = self._registry.session
        if session != self._session:
            self._registration.make(wait_s)
            self._session = session
            self._topics.clear()
        for topic in {topic for topic, _ in self._logs.logs} - self._topics:
            count = self._logs.settings.partitions_of(topic)
            register(self._registry, kafka_nodes.old_topic_path(topic, self._broker), b"%d" % count)
            self._topics.add(topic)
