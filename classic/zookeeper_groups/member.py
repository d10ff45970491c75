"""GroupMember: a member of a group: registers, watches, computes its partitions, and owns them while it reads.

Source: ZookeeperConsumerConnector of Kafka 0.7.2 and 0.8.2.2. Three things differ from Kafka's. After its last try a
consumer keeps trying, where Kafka's waits for the next change and reads nothing until then. It deletes nodes of owners
only if its session created them. A consumer whose partitions stay the same continues to read during the rebalance.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from ...registry import kafka_nodes
from ...registry.errors import ConnectionLossError, NodeExistsError
from ...registry.kafka_nodes import KafkaVersion
from ...registry.operations import discard, register
from ...registry.port import Registry, SessionState
from ...storage import LogStoreError
from ..errors import ConsumerIdInUseError, ConsumerRebalanceFailedError, RebalanceError
from .assignment import Partition, Strategy, Stream, assign
from .registered import Registered, streams_by_topic
from .subscription import Subscription

T = TypeVar("T")
logger = logging.getLogger(__name__)


class Holder(Protocol[T]):
    """Reads the partitions that a member owns. Called by one thread at a time."""

    def stop(self) -> None:
        """Stops reading, drops messages read ahead, and commits those consumed, before partitions are released."""
        ...

    def prepare(self, partitions: Collection[Partition]) -> T | None:
        """Returns the offsets where reading will continue; None if they cannot be read yet. Does not read messages."""
        ...

    def start(self, owned: Mapping[Partition, Stream], prepared: T) -> None:
        """Starts reading partitions for their streams, after this member became their owner."""
        ...


@dataclass(frozen=True)
class GroupSettings:
    """Limits and options of a member."""

    kafka: KafkaVersion = (0, 8, 2)  # the version of the nodes to read and write; before 0.8, brokers register topics
    strategy: Strategy = Strategy.RANGE
    retries_max: int = 4  # rebalance.max.retries
    backoff_ms: int = 2000  # rebalance.backoff.ms
    session_timeout_ms: int = 6000  # how long to wait for the node of a consumer with the same id to go away
    exclude_internal: bool = True


class GroupMember(Generic[T]):
    """A consumer of a group. :meth:`join` registers it, and returns when it owns its partitions."""

    def __init__(
        self,
        registry: Registry,
        group: str,
        consumer: str,
        subscription: Subscription,
        holder: Holder[T],
        settings: GroupSettings | None = None,
    ) -> None:
        """``registry``: a session used only here; the caller closes it after :meth:`leave`."""
        self.group, self.consumer, self.subscription = group, consumer, subscription
        self._settings = settings or GroupSettings()
        self._registry, self._holder = registry, holder
        self._registered = Registered(registry, group, self._settings.kafka, self._wake)
        self._session = ""  # in which this consumer is registered
        self._owned: dict[Partition, Stream] = {}
        self._read: dict[Partition, Stream] | None = None  # the partitions that the holder reads; None: it has stopped
        self._changed, self._leaving = threading.Event(), threading.Event()
        self._lock = threading.Lock()  # of one rebalance at a time
        self._thread = threading.Thread(target=self._watch, name=f"group-{consumer}", daemon=True)
        registry.listen(self._on_session)

    @property
    def owned(self) -> Mapping[Partition, Stream]:
        """The partitions of this member, with the streams that read them."""
        return dict(self._owned)

    def join(self) -> None:
        """Registers and takes over partitions.

        Raises ConsumerRebalanceFailedError if others do not release them in time.
        """
        with self._lock:
            self._rebalance()
        self._thread.start()

    def leave(self) -> None:
        """Stops reading, releases all partitions and leaves the group; the others rebalance."""
        self._leaving.set()
        self._changed.set()
        if self._thread.ident is not None:
            self._thread.join()
        with self._lock:
            self._stop()
            try:
                self._release()
                self._unregister()
            except LogStoreError as error:
                logger.warning(
                    "%s could not delete its nodes when it left: %s; they are deleted when its session ends",
                    self.consumer,
                    error,
                )

    def __enter__(self) -> Self:
        self.join()
        return self

    def __exit__(self, *exc: object) -> None:
        self.leave()

    # What wakes

    def _wake(self) -> None:
        self._changed.set()

    def _on_session(self, state: SessionState) -> None:
        if state is not SessionState.SUSPENDED:
            self._wake()  # called again when the next session begins; until then nothing can be registered

    def _watch(self) -> None:
        """Rebalances after changes; several changes may cause one rebalance."""
        while not self._leaving.is_set():
            self._changed.wait()
            if self._leaving.is_set():
                return
            try:
                with self._lock:
                    self._rebalance()
            except Exception:
                logger.exception("%s: the rebalance failed and will be tried again", self.consumer)
                self._changed.set()
                self._pause()

    def _pause(self) -> None:
        self._leaving.wait(self._settings.backoff_ms / 1000)

    # Rebalance

    def _rebalance(self) -> None:
        """Tries until this member owns its partitions. Raises ConsumerRebalanceFailedError after the last try."""
        reason: Exception = RebalanceError("no try was made")
        for _ in range(max(1, self._settings.retries_max)):
            if self._leaving.is_set():
                return
            try:
                self._changed.clear()
                self._register()
                self._try()
                return
            except ConsumerIdInUseError:
                raise
            except ConnectionLossError as error:  # this member still owns what it reads, unless its session ends
                reason = error
            except (LogStoreError, OSError) as error:
                self._stop()
                reason = error
            logger.info("%s: %s; trying again", self.consumer, reason)
            self._pause()
        raise ConsumerRebalanceFailedError(
            f"{self.consumer} cannot rebalance after {self._settings.retries_max} tries: {reason}"
        ) from reason

    def _try(self) -> None:
        """Releases partitions and takes over the new ones. Raises an error if it cannot get them now."""
        wanted = self._decided()
        if wanted == self._read:
            return
        self._stop()
        self._release()
        wanted = self._decided()  # while it stopped, others may have come
        prepared = self._holder.prepare(wanted)
        if prepared is None:
            raise RebalanceError("the committed offsets cannot be read yet")
        self._take(wanted)
        if self._registry.session != self._session:
            raise RebalanceError("the session has expired")
        self._holder.start(wanted, prepared)
        self._read = wanted

    def _stop(self) -> None:
        self._read = None
        self._holder.stop()

    def _decided(self) -> dict[Partition, Stream]:
        """Returns the partitions that this member should own, with their streams."""
        there = self._registered
        topics = there.topics() if self.subscription.filter is not None else ()
        subscriptions = there.subscriptions(exclude_internal=self._settings.exclude_internal)
        if not topics and any(each.filter is not None for each in subscriptions.values()):
            topics = there.topics()
        if not there.has_brokers():
            return {}
        mine = self.subscription.streams(self.consumer, topics)
        partitions = {topic: there.partitions(topic) for topic in mine}
        decided = assign(self._settings.strategy, partitions, streams_by_topic(subscriptions, topics))
        return {partition: stream for partition, stream in decided.items() if stream.consumer == self.consumer}

    def _take(self, wanted: Mapping[Partition, Stream]) -> None:
        """Creates the owner nodes of all partitions, or none."""
        for partition, stream in wanted.items():
            path = self._registered.owner(partition)
            try:
                register(self._registry, path, str(stream).encode())
            except NodeExistsError:
                self._release()
                raise RebalanceError(f"{partition} is still owned by {self._owner_of(path)}") from None
            except LogStoreError:
                self._owned[partition] = stream  # perhaps
                self._release()
                raise
            self._owned[partition] = stream

    def _owner_of(self, path: str) -> str:
        found = self._registry.find(path)
        return "another stream" if found is None else (found.data or b"").decode(errors="replace")

    def _release(self) -> None:
        """Deletes the owner nodes of this member."""
        for partition in list(self._owned):
            path = self._registered.owner(partition)
            found = self._registry.find(path)
            if found is not None and found.owner == self._registry.session:
                discard(self._registry, path)
            del self._owned[partition]

    # Registration

    def _register(self) -> None:
        """Registers this consumer in the current session, if it is not registered in it."""
        session = self._registry.session
        if session == self._session:
            return
        if not session:  # the registry is out of reach, and the session may go on
            raise ConnectionLossError("the registry does not answer")
        if self._session:
            logger.warning("%s: the session expired; registering again", self.consumer)
            self._stop()
            self._release()  # a node that was made in the new session already would keep others away
        path = kafka_nodes.consumer_path(self.group, self.consumer)
        now_ms = int(time.time() * 1000)
        data = kafka_nodes.encode_consumer(self.subscription.registered(now_ms), self._settings.kafka)
        deadline = time.monotonic() + self._settings.session_timeout_ms / 1000
        while True:
            try:
                register(self._registry, path, data)
                break
            except NodeExistsError:
                if time.monotonic() > deadline or self._leaving.wait(0.1):
                    raise ConsumerIdInUseError(
                        f"{self.consumer} is registered by another process: each consumer of a group needs its own id"
                    ) from None
        self._session = session  # if that has ended by now, the node is gone, and the next try makes it again

    def _unregister(self) -> None:
        path = kafka_nodes.consumer_path(self.group, self.consumer)
        found = self._registry.find(path)
        if found is not None and found.owner == self._registry.session:
            discard(self._registry, path)
