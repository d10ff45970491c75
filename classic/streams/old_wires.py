"""OldWireConnector: streams over brokers of Kafka 0.7 to 3 whose consumers meet in ZooKeeper.

Source: ZookeeperConsumerConnector of Kafka 0.7.2 and 0.8.2.2.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping

from ...registry.kafka_nodes import KafkaVersion
from ...registry.opening import open_registry
from ...registry.port import Registry
from ...storage import LogStoreError
from ..consumer import Storage
from ..errors import ClientError
from ..topic_filters import TopicFilter
from ..wire.finding import addresses
from ..zookeeper_groups.assignment import Partition, Stream
from ..zookeeper_groups.member import GroupMember, GroupSettings
from ..zookeeper_groups.registered import consumer_id
from ..zookeeper_groups.subscription import Subscription
from .brokers import Brokers, LeadingBrokers, NamedBrokers
from .chunks import ChunkQueue
from .config import Cluster, ConsumerConfig
from .fetchers import Fetchers, FetchTask
from .offset_stores import DualOffsets, KafkaOffsets, OffsetStore, ZooKeeperOffsets
from .port import StartOffsets, given_offsets
from .progress import PartitionProgress, Progress

KAFKA_0_7: KafkaVersion = (0, 7)
KAFKA_0_8: KafkaVersion = (0, 8, 2)
Prepared = dict[Partition, PartitionProgress]

logger = logging.getLogger(__name__)


class OldWireConnector:
    """Reads partitions for streams while this consumer owns them; the holder of a :class:`GroupMember`."""

    def __init__(self, config: ConsumerConfig, registry: Registry | None, start_offsets: StartOffsets | None) -> None:
        """``registry``: a session used only here, which :meth:`shutdown` closes.

        None: open the ZooKeeper of the settings.
        """
        self._config, self._start_offsets = config, start_offsets
        self._registry = registry or _opened(config)
        is_old = config.cluster is Cluster.KAFKA_0_7
        brokers: Brokers = NamedBrokers(self._registry) if is_old else LeadingBrokers(self._registry, config)
        self._fetchers = Fetchers(brokers, config)
        self._store = _store(config, self._registry)
        self._committing = threading.Lock()  # one commit at a time
        self._session = ""  # in which the partitions are owned
        self._progress = Progress()
        self._tasks: dict[Partition, FetchTask] = {}  # the tasks of the partitions that are owned
        self._queues: dict[tuple[str, int], ChunkQueue] = {}  # by topic, or "" with a filter, and number of the stream
        self._member: GroupMember[Prepared] | None = None
        self._closing = threading.Event()
        self._timer = threading.Thread(target=self._commit_at_intervals, name="commitlog auto commit", daemon=True)

    def open(self, counts: Mapping[str, int], topic_filter: TopicFilter | None) -> dict[tuple[str, int], ChunkQueue]:
        """Joins the group, and returns a queue for each stream. ``counts``: by topic, "" with a filter."""
        config = self._config
        self._queues = {
            (topic, number): ChunkQueue(config.queued_chunks_max or 1, self._fetchers.wake)
            for topic, count in counts.items()
            for number in range(count)
        }
        subscription = Subscription(
            {} if topic_filter else counts, topic_filter, counts.get("", 0), config.exclude_internal_topics
        )
        settings = GroupSettings(
            KAFKA_0_7 if config.cluster is Cluster.KAFKA_0_7 else KAFKA_0_8,
            config.assignment,
            config.rebalance_retries_max,
            config.rebalance_backoff_ms or 0,
            config.zk_session_timeout_ms,
            config.exclude_internal_topics,
        )
        name = consumer_id(config.group_id, config.consumer_id or None)
        self._member = GroupMember(self._registry, config.group_id, name, subscription, self, settings)
        self._member.join()
        if config.auto_commit:
            self._timer.start()
        return self._queues

    # What a member of a group calls

    def stop(self) -> None:
        self._fetchers.stop()
        for queue in self._queues.values():
            queue.drop()
        if self._config.auto_commit:
            self._commit_if_possible(self._config.commit_retries_max if self._closing.is_set() else 0)
        self._progress.clear()
        self._tasks = {}

    def prepare(self, partitions: Collection[Partition]) -> Prepared | None:
        given = given_offsets(self._start_offsets, partitions)
        left = [each for each in partitions if each not in given]
        with self._committing:
            found = self._store.fetch(left) if left else {}
        if found is None:
            return None
        return {each: PartitionProgress(each, given.get(each, found.get(each))) for each in partitions}

    def start(self, owned: Mapping[Partition, Stream], prepared: Prepared) -> None:
        self._session = self._registry.session
        self._progress.set(prepared)
        self._tasks = {each: FetchTask(prepared[each], self._queue(each, to)) for each, to in owned.items()}
        self._fetchers.start(self._tasks)

    def _queue(self, partition: Partition, stream: Stream) -> ChunkQueue:
        found = self._queues.get((partition.topic, stream.number))
        return found or self._queues["", stream.number]

    # Offsets

    def commit_offsets(self) -> None:
        self._commit(self._config.commit_retries_max)

    def _commit(self, retries: int) -> None:
        with self._committing:
            offsets = self._progress.uncommitted()
            if offsets and self._registry.session != self._session:
                offsets = self._unmoved(offsets)
            if offsets:
                self._store.commit(offsets, retries, self._progress.note_committed)

    def _unmoved(self, offsets: Mapping[Partition, int]) -> dict[Partition, int]:
        """Returns the ``offsets`` of partitions whose last commit is that of this consumer.

        Once its session has ended, others may own the partitions; what they committed must not be set back.
        """
        owned, found = self._progress.owned(), self._store.fetch(list(offsets))
        if found is None:
            return {}
        mine = {each: owned[each].committed for each in offsets if each in owned}
        return {each: offsets[each] for each, committed in mine.items() if found[each] == committed}

    def _commit_at_intervals(self) -> None:
        while not self._closing.wait((self._config.auto_commit_interval_ms or 0) / 1000):
            self._commit_if_possible()

    def _commit_if_possible(self, retries: int = 0) -> None:
        try:
            self._commit(retries)
        except LogStoreError as error:
            logger.warning("offsets could not be committed: %s", error)

    def rewind(self, offsets: Mapping[Partition, int]) -> None:
        tasks = self._tasks
        for partition in offsets:
            if partition not in tasks:
                raise ClientError(f"{partition} is not read by this consumer now")
        for partition, offset in offsets.items():
            progress, queue = tasks[partition]
            with queue.lock:  # after this, a fetcher with another offset adds nothing
                queue.drop([partition])
                progress.begin_at(offset)
        self._fetchers.wake()

    def positions(self) -> dict[Partition, int]:
        return self._progress.positions()

    def shutdown(self) -> None:
        self._closing.set()
        for queue in self._queues.values():
            queue.close()
        if self._member is not None:
            self._member.leave()
        self._store.close()
        if self._timer.ident is not None:
            self._timer.join()
        self._registry.close()


def _opened(config: ConsumerConfig) -> Registry:
    return open_registry(
        "",
        config.zk_connect or config.zookeeper_connect,
        session_timeout_ms=config.zk_session_timeout_ms,
        connection_timeout_ms=config.zk_connection_timeout_ms,
    )


def _store(config: ConsumerConfig, registry: Registry) -> OffsetStore:
    zookeeper = ZooKeeperOffsets(registry, config.group_id)
    if config.storage is Storage.ZOOKEEPER:
        return zookeeper
    kafka = KafkaOffsets(
        config.group_id,
        lambda: addresses(registry).values(),
        timeout_ms=config.channel_timeout_ms,
        backoff_ms=config.channel_backoff_ms,
        client_id=config.client_id,
    )
    return DualOffsets(kafka, zookeeper) if config.dual_commit else kafka
