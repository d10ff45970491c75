"""TopicNodes: topics and their partitions in a ZooKeeper, where old clients and tools of Kafka find them.

From 0.8 on the controller writes them: ``/brokers/topics/<topic>``, a state for each partition, and the settings. Tools
ask for changes by writing nodes (``kafka-topics --zookeeper``: a new topic, a deletion), which the controller carries
out in the log directory. In 0.7 every broker registers its own topics, as ephemeral nodes. No client reads a registry
in files, so nothing is written there.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from functools import partial

from ...registry import kafka_nodes
from ...registry.errors import NoNodeError
from ...registry.kafka_nodes import BROKER_TOPICS, CONSUMERS, KafkaVersion, PartitionState
from ...registry.operations import delete_tree, discard, put, register
from ...registry.port import Change, Registry
from ...storage import COORDINATOR_TOPICS, INTERNAL_TOPICS, LogManager, LogStoreError, TopicDescription, delete_topic
from ..threads.disk import DiskWorker
from .cluster import Cluster

LOOK_S = 1.0
CONFIGS, DELETED = "/config/topics", "/admin/delete_topics"
_FORGOTTEN = b"deleted already"  # in the node of a deletion: only the topic's nodes are left to delete
_FOLDERS = (CONSUMERS, BROKER_TOPICS, CONFIGS, "/config/changes", DELETED)  # tools expect them

logger = logging.getLogger(__name__)


class TopicNodes(DiskWorker[LogManager]):
    """A thread that keeps the nodes of topics in ZooKeeper equal to the log directory."""

    def __init__(
        self,
        registry: Registry,
        cluster: Cluster,
        open_manager: Callable[[], LogManager],
        kafka: KafkaVersion,
        *,
        may_delete: bool = True,
    ) -> None:
        """``kafka``: the version whose format the nodes have. ``may_delete``: whether tools may delete topics."""
        super().__init__("gateway-topic-nodes", open_manager, LogManager.close)
        self._registry, self._cluster, self._kafka, self._may_delete = registry, cluster, kafka, may_delete
        self._written: dict[str, bytes] = {}  # the content by path, as far as this session knows
        self._begun: set[str] = set()  # topics of which nodes were written, or tried to be
        self._session = ""
        self._watched: set[str] = set()
        self._seen: object = None

    def begin(self) -> None:
        """Writes the topics of today, and later every change. For any thread."""
        self._cluster.listen(lambda _: self.run(self._try))
        self.run(self._try)
        self.repeat(LOOK_S, self._try)

    def _try(self) -> None:
        try:
            self._write()
        except (LogStoreError, OSError) as error:
            self._seen = None
            logger.warning("topics could not be written to the registry: %s", error)

    def _write(self) -> None:
        """Writes what differs, if anything may have changed since the last time."""
        manager, view = self.opened, self._cluster.view
        status = manager.filesystem.status
        session, is_controller = self._registry.session, self._cluster.is_controller
        seen = (session, is_controller, view.epoch, status(manager.path("topics.json")), status(manager.directory))
        if seen == self._seen:
            return
        if session != self._session or not is_controller:
            self._written.clear()
            self._watched.clear()
        self._session = session
        if self._kafka < kafka_nodes.OLD:
            self._write_old(manager.topics())
        elif is_controller:
            for path in _FOLDERS:
                if self._registry.find(path) is None:
                    put(self._registry, path, None)
            self._do_asked(manager)
            self._write_topics(manager.topics())
        self._seen = seen

    # 0.7

    def _write_old(self, topics: Mapping[str, TopicDescription]) -> None:
        wanted = {
            kafka_nodes.old_topic_path(name, self._cluster.node): b"%d" % len(topic.partitions)
            for name, topic in topics.items()
            if name not in INTERNAL_TOPICS
        }
        for path in self._written.keys() - wanted.keys():
            discard(self._registry, path)
            del self._written[path]
        for path, data in wanted.items():
            if path not in self._written:
                register(self._registry, path, data)
            elif self._written[path] != data:
                self._registry.set(path, data)
            self._written[path] = data

    # From 0.8 on

    def _write_topics(self, topics: Mapping[str, TopicDescription]) -> None:
        for name in self._unknown(topics):
            if self._was_here(name):
                self._forget(name)
        for topic in topics.values():
            for path, data in self._nodes(topic).items():
                if self._written.get(path) != data:
                    self._begun.add(topic.name)
                    found = self._registry.find(path)
                    if found is None or not _is_same(found.data, data):
                        put(self._registry, path, data)
                    self._written[path] = data
        self._begun &= topics.keys()  # what was begun of the others was forgotten, here or by another controller

    def _nodes(self, topic: TopicDescription) -> dict[str, bytes]:
        leaders = {number: self._cluster.leader(topic.name, number) for number in topic.partitions}
        replicas = {number: [leader.node] for number, leader in leaders.items()}
        nodes = {
            f"{CONFIGS}/{topic.name}": json.dumps({"version": 1, "config": dict(topic.configs)}).encode(),
            kafka_nodes.topic_path(topic.name): kafka_nodes.encode_topic(replicas, topic.topic_id, self._kafka),
        }
        for number, (node, epoch) in leaders.items():
            state = PartitionState(max(self._cluster.controller_epoch, 1), node, epoch, (node,))
            nodes[kafka_nodes.state_path(topic.name, number)] = kafka_nodes.encode_state(state)
        return nodes

    def _forget(self, name: str) -> None:
        """Removes the nodes of a topic that was deleted.

        The first step records that. Otherwise, after an error or a crash between two steps, the topic's node without
        the others would look like a tool's request to create the topic.
        """
        path, config = kafka_nodes.topic_path(name), f"{CONFIGS}/{name}"
        put(self._registry, f"{DELETED}/{name}", _FORGOTTEN)
        delete_tree(self._registry, path)
        discard(self._registry, config)
        discard(self._registry, f"{DELETED}/{name}")
        self._begun.discard(name)
        for each in [each for each in self._written if each in (path, config) or each.startswith(f"{path}/")]:
            del self._written[each]

    # What tools ask for

    def _do_asked(self, manager: LogManager) -> None:
        for name in self._children(DELETED):
            asked = self._registry.find(f"{DELETED}/{name}")
            if asked is None or asked.data == _FORGOTTEN or name not in manager.topics():
                self._forget(name)  # a topic of that name was made since then; it gets nodes again
            elif not self._may_delete or name in COORDINATOR_TOPICS:
                why = "it is in use by the gateway" if self._may_delete else "delete.topic.enable is false"
                logger.warning("topic %r is not deleted, as %s/%s asks: %s", name, DELETED, name, why)
                discard(self._registry, f"{DELETED}/{name}")
            else:
                self._delete(manager, name)
        for name in self._unknown(manager.topics()):
            path = kafka_nodes.topic_path(name)
            found = self._registry.find(path)
            if found is None or self._was_here(name):
                continue
            try:
                partitions = len(kafka_nodes.decode_topic(path, found.data))
                config = self._registry.find(f"{CONFIGS}/{name}")
                configs = {} if config is None else kafka_nodes.decode_topic_configs(f"{CONFIGS}/{name}", config.data)
                manager.create_topic(name, partitions=partitions, configs=configs)
            except (LogStoreError, OSError) as error:
                logger.error("topic %r could not be created, as %s asks: %s", name, path, error)

    def _delete(self, manager: LogManager, name: str) -> None:
        try:
            delete_topic(manager, name)
        except (LogStoreError, OSError) as error:
            logger.error("topic %r could not be deleted, as %s/%s asks: %s", name, DELETED, name, error)
        self._forget(name)

    def _unknown(self, topics: Mapping[str, TopicDescription]) -> set[str]:
        """Returns the topics that the registry has, and the directory does not."""
        return {*self._children(BROKER_TOPICS)} - topics.keys()

    def _was_here(self, name: str) -> bool:
        """Whether a controller has written a topic's states, or this one has begun to, so it existed.

        A tool that asks for a new topic writes none.
        """
        return name in self._begun or self._registry.find(f"{kafka_nodes.topic_path(name)}/partitions") is not None

    def _children(self, path: str) -> list[str]:
        """Returns the children of a node, and watches it, so a change starts another run."""
        watch = None if path in self._watched else self._on_watch
        try:
            found = self._registry.children(path, watch)
        except NoNodeError:
            return []
        self._watched.add(path)
        return found

    def _on_watch(self, _: Change, path: str) -> None:
        self.run(partial(self._look_at, path))

    def _look_at(self, path: str) -> None:
        self._watched.discard(path)
        self._seen = None
        self._try()


def _is_same(found: bytes | None, wanted: bytes) -> bool:
    """Whether two contents are equal as JSON, in any order of fields."""
    try:
        same: bool = json.loads(found or b"") == json.loads(wanted)
    except ValueError:
        return False
    return same
