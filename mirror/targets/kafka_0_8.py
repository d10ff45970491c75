"""A cluster of Kafka 0.8.2 to 0.10 as the target of a mirror: without transactions, so at least once.

The progress is committed as the offsets of a group, once the brokers have the records. It has no topic ids.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...classic.errors import BrokerUnreachableError
from ...classic.streams import KafkaOffsets
from ...classic.wire.broker import Broker
from ...classic.wire.calls import cluster, error_of, produce
from ...classic.wire.connection import Address, Connection
from ...classic.wire.leaders import Leaders
from ...classic.zookeeper_groups.assignment import Partition
from ...protocol.apis import ApiKey
from ...protocol.bodies import ErrorCode
from ...storage import LogStoreError, TopicPartition, UnknownTopicOrPartitionError, to_message_sets
from ..errors import RetriableError, as_mirror_errors
from ..progress import NextOffset
from ..sources.port import BrokerPartition, SourcePartition
from .port import Batches, Progress, Taking, TargetWriter

_ALL_REPLICAS = -1
_WITH_TIMES = 2  # version of Produce, of Kafka 0.10
_PATIENCE_S = 20.0  # while a topic is created
_PAUSE_S = 0.1
_COMMIT_RETRIES = 100
_COMMIT_PAUSE_MS = 200  # a coordinator may just be elected, or load its offsets
_NEVER_MS = 253_402_300_799_000  # the end of the year 9999: brokers delete offsets some time after they were committed
_FOR_NOW = {
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.leader_not_available,
    ErrorCode.not_leader_or_follower,
    ErrorCode.request_timed_out,
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
}


@dataclass(frozen=True)
class OldTargets:
    """A cluster by ``metadata.broker.list``."""

    addresses: tuple[Address, ...]
    message_bytes_max: int = 1_000_000  # of a message, or of a set that is compressed as one: message.max.bytes
    timeout_ms: int = 10_000  # how long the leader may wait for the other replicas

    def open(self, group: str) -> TargetWriter:
        return OldWriter(self, group)

    def __str__(self) -> str:
        return "Kafka at " + ",".join(map(str, self.addresses))


class OldWriter:
    """Produces to a cluster, waits for all replicas, and then commits the progress."""

    def __init__(self, settings: OldTargets, group: str) -> None:
        """Raises RetriableError if no broker answers."""
        self._settings, self._group = settings, group
        self._leaders = Leaders(lambda: settings.addresses, "metadata.broker.list")
        with as_mirror_errors(settings):
            self._version = _produce_version(self._leaders.described().brokers)
        self._offsets: dict[str, KafkaOffsets] = {}

    def progress(self, partitions: Iterable[SourcePartition]) -> Progress:
        """Asks for the offsets of partitions of the target that have the names of those of the source."""
        found: dict[SourcePartition, NextOffset] = {}
        for group, named in self._by_group(partitions).items():
            try:
                answer = self._offsets_of(group).fetch(list(named))
            except UnknownTopicOrPartitionError as error:
                raise RetriableError(
                    f"{self._settings}: {error}. Kafka 0.8.2 returns no progress of a partition that its topic lacks: "
                    "give the topic as many partitions as that of the source has"
                ) from error
            if answer is None:
                raise RetriableError(f"{self._settings} does not say what group {group} has committed")
            found |= {named[each]: NextOffset(offset) for each, offset in answer.items() if offset is not None}
        return found

    def prepare(self, topic: str, partitions: int, configs: Mapping[str, str], *, grow: bool) -> Taking:
        """Brokers create the topic, with partitions and settings of their own."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while not (count := self._partitions(topic)):
            if time.monotonic() > deadline_s:
                raise RetriableError(
                    f"{self._settings} has no topic {topic!r}: create it, or set the brokers' auto.create.topics.enable"
                )
            time.sleep(_PAUSE_S)
        return Taking(count, self._settings.message_bytes_max)

    def _partitions(self, topic: str) -> int:
        with as_mirror_errors(self._settings):
            return sum(each.topic == topic for each in self._leaders.described([topic]).partitions)

    def write(self, batches: Batches, progress: Progress) -> None:
        """Returns after the brokers have the records, and then the progress.

        On disk after each step: some of the records; all of them; all and the progress. A writer that begins after the
        first or the second step gets the same records again.
        """
        magic = 1 if self._version == _WITH_TIMES else 0
        limit = self._settings.message_bytes_max * 9 // 10  # brokers of 0.8 compress again, perhaps to more bytes
        waiting = {each: to_message_sets(some, magic, limit) for each, some in batches.items()}
        while sets := {each: found for each, more in waiting.items() if (found := next(more, None)) is not None}:
            self._produce(sets)
        self._commit(progress)

    def _produce(self, sets: Mapping[TopicPartition, bytes]) -> None:
        with as_mirror_errors(self._settings):
            led = self._leaders.of(sets)
        for partition in sets.keys() - {each for some in led.values() for each in some}:
            raise RetriableError(f"{partition} of {self._settings} has no leader")
        for node, some in led.items():
            with as_mirror_errors(self._settings):
                answers = produce(
                    self._leaders.broker(node),
                    {each: sets[each] for each in some},
                    acks=_ALL_REPLICAS,
                    timeout_ms=self._settings.timeout_ms,
                    version=self._version,
                )
                for each in some:
                    self._check(answers[each].error, each)

    def _check(self, code: int, partition: TopicPartition) -> None:
        what = f"{partition} of {self._settings}"
        if code in _FOR_NOW:
            raise RetriableError(f"{what}: the leader answered {ErrorCode(code).name} ({code})")
        if (error := error_of(code, what)) is not None:
            raise error

    def _commit(self, progress: Progress) -> None:
        for group, named in self._by_group(progress).items():
            offsets = {each: progress[partition].offset for each, partition in named.items()}
            try:
                self._offsets_of(group).commit(offsets, _COMMIT_RETRIES, lambda _: None)
            except LogStoreError as error:  # also that of a coordinator which is being elected
                raise RetriableError(f"{self._settings}: {error}") from error

    def _by_group(self, partitions: Iterable[SourcePartition]) -> dict[str, dict[Partition, SourcePartition]]:
        """Returns partitions by the group that has their progress: brokers of Kafka 0.7 have one each."""
        found: dict[str, dict[Partition, SourcePartition]] = {}
        for each in partitions:
            group = f"mirror-{self._group}"
            if isinstance(each, BrokerPartition):
                group = f"{group}@{each.broker}"  # no group.id has this character
            found.setdefault(group, {})[Partition(each.topic, each.partition)] = each
        return found

    def _offsets_of(self, group: str) -> KafkaOffsets:
        if group not in self._offsets:
            self._offsets[group] = KafkaOffsets(
                group,
                lambda: self._settings.addresses,
                timeout_ms=self._settings.timeout_ms,
                backoff_ms=_COMMIT_PAUSE_MS,
                client_id="commitlog",
                committed_ms=_NEVER_MS,
            )
        return self._offsets[group]

    def close(self) -> None:
        self._leaders.close()
        for each in self._offsets.values():
            each.close()


def _produce_version(brokers: Mapping[int, Address]) -> int:
    """Returns the highest version of Produce, up to that with times, which all brokers have that answer."""
    return min((_version_of(address) for address in brokers.values()), default=0)


def _version_of(address: Address) -> int:
    """Returns the version of one broker. Before 0.10, brokers close a connection on which they are asked for it."""
    try:
        with Connection(address) as connection:
            broker = Broker(connection)
            cluster(broker)
            try:
                return _WITH_TIMES if broker.version(ApiKey.PRODUCE, _WITH_TIMES) == _WITH_TIMES else 0
            except BrokerUnreachableError:
                return 0
    except LogStoreError:
        return _WITH_TIMES  # it does not answer at all
