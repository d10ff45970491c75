"""Parts: creates and starts the objects that handlers use, for a log directory or a log on an object store."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

from ..registry.kafka_nodes import Endpoint
from ..registry.opening import open_registry
from ..registry.port import Registry
from ..storage import (
    APPEND_LOCK_FILE,
    GROUP_METADATA_TOPIC,
    ROOT_LOCK_FILE,
    TRANSACTION_STATE_TOPIC,
    Address,
    ClientTransactions,
    LocalFileSystem,
    LogManager,
    temporary_folder,
)
from .cluster.cluster import Cluster
from .cluster.cluster_id import check_directory, find_cluster_id
from .cluster.homes import Homes
from .cluster.host_lock import HostLock
from .config import GatewayConfig
from .context import Context, Workers
from .fetch_sessions import FetchSessions
from .figures import Figures
from .groups.threads import GroupThreads
from .listeners import EVERYWHERE
from .live_settings import LiveSettings
from .network.limits.memory import AnswerMemory
from .partitions.appender import HELD_S, Appender
from .partitions.appending import Appending
from .partitions.bucket.appender import BucketAppender
from .partitions.bucket.follower import BucketFollower
from .partitions.bucket.partition import open_bucket_partition
from .partitions.follower import Follower, LogStarts
from .partitions.formats import MessageFormats
from .partitions.open_partitions import Partitions, open_file_partition
from .partitions.topics import Topics
from .quotas.store import QuotaStore
from .quotas.throttle import Throttle
from .security.listener import Security
from .threads.disk_faults import DiskFaults
from .tiers.reads import TierReads
from .transactions.threads import TransactionThreads

COORDINATORS_HELD_S = 1.0  # how long a coordinator's disk waits for a lock; its groups or ids wait, too
RECORD_BATCHES_FROM = (3, 0)  # versions of Kafka that ignore topics' message.format.version
LARGE_THREADS = 1  # it takes time from the thread of connections, as Python runs one at a time
COLD_THREADS = 4  # one or more may wait until the kernels are compiled

Ends = tuple[Partitions, Appending, Follower | BucketFollower]


class Parts:
    """Creates and starts the parts of one gateway."""

    def __init__(self, log: LogManager, config: GatewayConfig, figures: Figures) -> None:
        """``log``: open, and closed by the caller after the parts were stopped."""
        self._log, self._config, self._figures = log, config, figures
        self._formats = MessageFormats(are_followed=config.kafka_version < RECORD_BATCHES_FROM)
        self._transactions = None if log.bucket is None else ClientTransactions(log.bucket)

    def start(self, starting: ExitStack, listening_on: Mapping[str, Address], security: Security) -> Context:
        """Starts all parts, and returns them; ``starting`` stops them in the opposite order."""
        log, managers = self._log, self._managers(HELD_S)
        quotas = QuotaStore(self._config.commitlog_quotas_file)
        registry = self._open_registry(starting)
        cluster = self._cluster(registry, listening_on)
        topics = Topics(managers())
        starting.callback(topics.close)
        settings = LiveSettings(self._config, managers())
        partitions, appender, follower = self._ends(managers, topics, cluster)
        workers, (groups, transactions) = (
            Workers(managers, self._config),
            self._coordinators(cluster, topics, partitions, appender, settings),
        )
        for part in (partitions, appender, workers, groups, follower, transactions, settings):
            part.start()
            starting.callback(part.stop)
        return Context(
            config=self._config,
            settings=settings,
            cluster_id=find_cluster_id(registry, log),
            clock=log.clock,
            log_dir=log.directory,
            is_remote=log.bucket is not None,
            answers=AnswerMemory(self._config.commitlog_bucket_answers_max_bytes),
            tier=self._tier(starting),
            listening=listening_on,
            topics=topics,
            partitions=partitions,
            appender=appender,
            workers=workers,
            large=starting.enter_context(ThreadPoolExecutor(LARGE_THREADS, "gateway-large")),
            cold=starting.enter_context(ThreadPoolExecutor(COLD_THREADS, "gateway-cold")),
            figures=self._figures,
            rules=security.rules,
            users=security.users,
            quotas=quotas,
            throttle=Throttle(quotas.current),
            cluster=cluster,
            registry=registry,
            groups=groups,
            transactions=transactions,
            sessions=FetchSessions(self._config.max_incremental_fetch_session_cache_slots),
        )

    def _tier(self, starting: ExitStack) -> TierReads | None:
        """Returns the reader of the log directory's tier; if the tier cannot be read, each read reports it."""
        config = self._config
        address = config.tier_of(self._log.directory)
        if address is None:
            return None
        threads, most = config.remote_log_reader_threads, config.remote_log_reader_max_pending_tasks
        reads = TierReads(address, threads, most, self._figures.found_damage)
        reads.start()
        starting.callback(reads.stop)
        return reads

    def _managers(self, held_s: float) -> Callable[[], LogManager]:
        """Returns a function that opens more managers; on an object store they share the commits that were read.

        ``held_s``: how long they wait for the lock of a partition, or of the files at the root, before they raise
        LockHeldError.
        """
        waits = LocalFileSystem(lock_waits_s={APPEND_LOCK_FILE: held_s, ROOT_LOCK_FILE: held_s})
        filesystem = waits if self._log.bucket is None else self._log.filesystem
        overrides = self._formats.overrides
        return partial(LogManager.open, self._log.directory, filesystem=filesystem, overrides=overrides)

    def _open_registry(self, starting: ExitStack) -> Registry:
        """Opens the registry; beside an object store, where each gateway is alone, in a folder of this process."""
        log, config, given_ms = self._log, self._config, self._config.zookeeper_connection_timeout_ms
        is_local = log.bucket is None
        folder = log.directory if is_local else starting.enter_context(temporary_folder("commitlog-gateway-"))
        registry = open_registry(
            folder,
            config.zookeeper_connect or None,
            filesystem=log.filesystem if is_local else None,
            session_timeout_ms=config.zookeeper_session_timeout_ms,
            connection_timeout_ms=None if given_ms < 0 else given_ms,
        )
        starting.callback(registry.close)
        if config.zookeeper_connect:
            check_directory(registry, log)
        return registry

    def _cluster(self, registry: Registry, listening_on: Mapping[str, Address]) -> Cluster:
        """Returns this node's view of the nodes."""
        log, config = self._log, self._config
        host_lock = HostLock(log.filesystem, log.directory, config.node_id) if config.zookeeper_connect else None
        return Cluster(registry, config, _endpoints(config, listening_on), log.clock, host_lock)

    def _ends(self, managers: Callable[[], LogManager], topics: Topics, cluster: Cluster) -> Ends:
        """Returns the objects that use logs: in the directory, or on the object store."""
        log, config, synced, found = self._log, self._config, self._figures.synced, self._figures.found_damage
        if log.bucket is None or self._transactions is None:
            faults = DiskFaults(log.directory)
            opening = self._formats.noting(partial(open_file_partition, has_tier=bool(config.commitlog_tier_url)))
            partitions = Partitions(managers(), topics, cluster.leads, opening, found, faults)
            files = Appender(config.num_io_threads, synced, faults)
            return partitions, files, Follower(partitions, topics, files, LogStarts(managers()))
        partitions = Partitions(managers(), topics, cluster.leads, self._formats.noting(open_bucket_partition), found)
        appender = BucketAppender(log.bucket, self._transactions, config.commitlog_bucket_linger_ms, synced)
        follower = BucketFollower(partitions, topics, log, config.commitlog_bucket_poll_interval_ms)
        return partitions, appender, follower

    def _coordinators(
        self, cluster: Cluster, topics: Topics, partitions: Partitions, appender: Appending, settings: LiveSettings
    ) -> tuple[GroupThreads, TransactionThreads]:
        """Returns the coordinators of groups and of transactions."""
        log, config, managers = self._log, self._config, self._managers(COORDINATORS_HELD_S)
        homes = _homes(cluster, topics, GROUP_METADATA_TOPIC, config)
        groups = GroupThreads(
            config, log, managers, homes, self._transactions, topics.catalog, settings_of=settings.of_group
        )
        homes = _homes(cluster, topics, TRANSACTION_STATE_TOPIC, config)
        return groups, TransactionThreads(config, log.clock, managers, partitions, appender, homes, self._transactions)


def _homes(cluster: Cluster, topics: Topics, topic: str, config: GatewayConfig) -> Homes:
    """Returns the homes of names in an internal topic, which may not be created yet."""

    def partitions() -> int:
        found = topics.last(topic)
        return config.partitions_of(topic) if found is None else len(found.partitions)

    return Homes(partitions, partial(cluster.leads, topic))


def _endpoints(config: GatewayConfig, listening_on: Mapping[str, Address]) -> list[Endpoint]:
    """Returns the addresses for clients of this node, which other nodes pass on to them."""
    found = []
    for each in config.all_listeners:
        host, port = config.advertised.get(each.name, listening_on[each.name])
        found.append(Endpoint(each.name, each.protocol, socket.gethostname() if host in EVERYWHERE else host, port))
    return found
