"""ConsumerConfig: the settings of streams, with the names of Kafka 0.7 and 0.8 and the defaults of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Self

from ...storage import ANYTHING, BOOLEAN, INT, STRING, Between, InvalidConfigError, OneOf
from ..consumer import Storage
from ..named_settings import check_settings, fields_given, fill_defaults, only_given, setting
from ..zookeeper_groups.assignment import Strategy


class Cluster(Enum):
    """The kinds of clusters, by the setting that names one."""

    KAFKA_0_7 = "zk.connect"  # brokers of 0.7, whom ZooKeeper knows
    KAFKA_0_8 = "zookeeper.connect"  # brokers of 0.8 to 3, found through ZooKeeper
    TODAY = "bootstrap.servers"  # any brokers since 0.10, with the brokers' group protocol


# One setting: field and type; 0.7's name, type, default, bounds; meaning; 0.8's name if it has another.
# fmt: off
@dataclass(frozen=True)
class ConsumerConfig:
    """The settings of a consumer; creating one with a bad value raises InvalidConfigError."""

    group_id: str = setting("groupid", STRING, "", ANYTHING,
        "The group, which shares the partitions.", "group.id")
    zk_connect: str = setting("zk.connect", STRING, "", ANYTHING,
        "The ZooKeeper of brokers of Kafka 0.7, such as h1:2181,h2:2181/chroot.")
    zookeeper_connect: str = setting("zookeeper.connect", STRING, "", ANYTHING,
        "The ZooKeeper of brokers of Kafka 0.8 to 3.")
    bootstrap_servers: str = setting("bootstrap.servers", STRING, "", ANYTHING,
        "Some brokers of a cluster, such as h1:9092,h2:9092; today's wire and today's group protocol.")
    consumer_id: str = setting("consumerid", STRING, "", ANYTHING,
        "The last part of this consumer's id in the group; default: one of its own.", "consumer.id")
    client_id: str = setting("client.id", STRING, "", ANYTHING,
        "The name of the consumer in the brokers' logs and figures; default: the group.")
    auto_commit: bool = setting("autocommit.enable", BOOLEAN, True, ANYTHING,
        "Whether offsets are committed at intervals, at a rebalance and at the shutdown.", "auto.commit.enable")
    auto_commit_interval_ms: int | None = setting("autocommit.interval.ms", INT, None, Between(1),
        "How often offsets are committed. Default: 10000 with zk.connect, else 60000.", "auto.commit.interval.ms")
    auto_offset_reset: str | None = setting("autooffset.reset", STRING, None, ANYTHING,
        "Where to begin without a committed offset, or with one that the log does not have: smallest, largest, or "
        "anything else to raise an error. Default: smallest with zk.connect, else largest.", "auto.offset.reset")
    consumer_timeout_ms: int = setting("consumer.timeout.ms", INT, -1, Between(-1),
        "How long a stream waits for a message before it raises ConsumerTimeoutError; -1: without limit.")
    offsets_storage: str | None = setting("offsets.storage", STRING, None, OneOf(("zookeeper", "kafka")),
        "Where offsets are committed to. Default: zookeeper, with bootstrap.servers kafka.")
    dual_commit: bool | None = setting("dual.commit.enabled", BOOLEAN, None, ANYTHING,
        "Whether offsets are committed to ZooKeeper as well, and the larger one is read. Default: with offsets.storage "
        "= kafka.")
    strategy: str = setting("partition.assignment.strategy", STRING, "range", OneOf(("range", "roundrobin")),
        "The rule by which a group shares partitions; all members need the same.")
    fetch_size: int = setting("fetch.size", INT, 1 << 20, Between(1),
        "Bytes to fetch of a partition at once; a larger message is fetched by doubling.", "fetch.message.max.bytes")
    fetch_min_bytes: int = setting("fetch.min.bytes", INT, 1, Between(0),
        "Bytes that a fetch waits for; not in 0.7.")
    fetch_wait_max_ms: int = setting("fetch.wait.max.ms", INT, 100, Between(0),
        "How long a fetch waits for them at most; not in 0.7.")
    num_fetchers: int = setting("num.consumer.fetchers", INT, 1, Between(1),
        "Threads that fetch from each broker; on today's wire librdkafka has its own.")
    fetcher_backoff_ms: int = setting("fetcher.backoff.ms", INT, 1000, Between(0),
        "How long to wait after a fetch from 0.7 that brought nothing.", "backoff.increment.ms")
    refresh_leader_backoff_ms: int = setting("refresh.leader.backoff.ms", INT, 200, Between(0),
        "How long to wait before a broker is looked for again.")
    queued_chunks_max: int | None = setting("queuedchunks.max", INT, None, Between(1),
        "Answers to fetches that a stream holds. Default: 10 with zk.connect, else 2.", "queued.max.message.chunks")
    rebalance_retries_max: int = setting("rebalance.retries.max", INT, 4, Between(0),
        "How often a rebalance is tried.", "rebalance.max.retries")
    rebalance_backoff_ms: int | None = setting("rebalance.backoff.ms", INT, None, Between(0),
        "How long to wait between two tries. Default: zk.synctime.ms.")
    zk_sync_time_ms: int = setting("zk.synctime.ms", INT, 2000, Between(0),
        "How far a server of ZooKeeper may be behind.", "zookeeper.sync.time.ms")
    zk_session_timeout_ms: int = setting("zk.sessiontimeout.ms", INT, 6000, Between(1),
        "How long a session of ZooKeeper goes on without contact.", "zookeeper.session.timeout.ms")
    zk_connection_timeout_ms: int = setting("zk.connectiontimeout.ms", INT, 6000, Between(1),
        "How long to wait for ZooKeeper.", "zookeeper.connection.timeout.ms")
    socket_timeout_ms: int = setting("socket.timeout.ms", INT, 30_000, Between(1),
        "How long to wait for a broker.")
    socket_buffer_size: int = setting("socket.buffersize", INT, 65_536, Between(1),
        "The receive buffer of a connection in bytes.", "socket.receive.buffer.bytes")
    channel_backoff_ms: int = setting("offsets.channel.backoff.ms", INT, 1000, Between(0),
        "How long to wait before the coordinator is looked for again.")
    channel_timeout_ms: int = setting("offsets.channel.socket.timeout.ms", INT, 10_000, Between(1),
        "How long to wait for the coordinator.")
    commit_retries_max: int = setting("offsets.commit.max.retries", INT, 5, Between(0),
        "How often a commit by hand, or at the shutdown, is repeated; a commit at an interval never is.")
    exclude_internal_topics: bool = setting("exclude.internal.topics", BOOLEAN, True, ANYTHING,
        "Whether filters leave out Kafka's own topics.")
    security: Mapping[str, str] = field(default_factory=dict, repr=False)  # of today's wire, such as sasl.*
# fmt: on

    def __post_init__(self) -> None:
        check_settings(self)
        if not self.group_id:
            raise InvalidConfigError("a consumer needs groupid (group.id), because it reads as a member of a group")
        self._check_cluster()
        self._fill_defaults()
        if self.fetch_wait_max_ms > self.socket_timeout_ms:
            raise InvalidConfigError(
                f"fetch.wait.max.ms = {self.fetch_wait_max_ms} is longer than socket.timeout.ms = "
                f"{self.socket_timeout_ms}: each wait would end as a failure"
            )

    def _check_cluster(self) -> None:
        if self.cluster is not Cluster.TODAY and self.security:
            raise InvalidConfigError(f"{min(self.security)} needs bootstrap.servers: other wires have no security")
        wrong = {Cluster.KAFKA_0_7: "kafka", Cluster.TODAY: "zookeeper"}.get(self.cluster)
        if wrong and self.offsets_storage == wrong:
            raise InvalidConfigError(f"offsets.storage = {wrong} cannot be used with {self.cluster.value}")
        if self.cluster is not Cluster.KAFKA_0_8 and self.dual_commit:
            raise InvalidConfigError("dual.commit.enabled needs zookeeper.connect, whose consumers have two stores")

    def _fill_defaults(self) -> None:
        is_old = self.cluster is Cluster.KAFKA_0_7
        storage = self.offsets_storage or ("kafka" if self.cluster is Cluster.TODAY else "zookeeper")
        defaults = {
            "offsets_storage": storage,
            "auto_commit_interval_ms": 10_000 if is_old else 60_000,
            "auto_offset_reset": "smallest" if is_old else "largest",
            "queued_chunks_max": 10 if is_old else 2,
            "rebalance_backoff_ms": self.zk_sync_time_ms,
            "dual_commit": storage == "kafka" and self.cluster is Cluster.KAFKA_0_8,
            "client_id": self.client_id or self.group_id,
        }
        fill_defaults(self, defaults)

    @cached_property
    def cluster(self) -> Cluster:
        """The kind of cluster that the consumer reads."""
        return only_given(self, Cluster, "a consumer")

    @property
    def storage(self) -> Storage:
        """Where offsets are committed to."""
        return Storage(self.offsets_storage)

    @property
    def assignment(self) -> Strategy:
        """The rule by which the group shares partitions."""
        return Strategy(self.strategy)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object]) -> Self:
        """Returns the settings for Kafka's names, 0.7's or 0.8's.

        Raises InvalidConfigError for an unknown name, a bad value, or a setting that is given by both names.
        """
        given, security = fields_given(cls, mapping, "a consumer")
        return cls(**given, security=security)
