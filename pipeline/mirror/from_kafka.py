"""From Kafka: copies brokers' logs as replicas do.

Batches are appended exactly as they are in the broker's log, so offsets, times, headers, compression, transactions and
gaps are the same. A mirror's progress is the end of its own log: a fetch begins at this offset, and the fetched batches
are appended only if the log still ends there. So if a mirror is killed at any time, or two run at once, no record is
lost or duplicated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ...mirror.brokers.admin import Admin, KafkaTopic
from ...mirror.brokers.cluster import Cluster
from ...mirror.brokers.leader import FETCH_BYTES, PartitionLeader
from ...mirror.brokers.requests import NO_EPOCH
from ...mirror.errors import MirrorError, OutsideLogError
from ...storage import (
    Log,
    LogManager,
    LogStoreError,
    Runner,
    TopicPartition,
    add_partitions,
    append_fetched,
    begin_at,
    topic_id,
)
from .mirrored import Mirrored


@dataclass(frozen=True)
class Following:
    """The parameters of the tasks of a mirror from Kafka; sent to the workers."""

    cluster: Cluster
    directory: str
    allow_data_loss: bool = False  # skip records that Kafka deleted before they were mirrored


def follow(
    following: Following, topics: Sequence[str], runner: Runner, *, configs: Mapping[str, str] | None = None
) -> Iterator[Mirrored]:
    """Copies topics to a log directory, up to their current ends in Kafka; yields the outcome of each partition.

    A missing topic is created with the partitions, settings and id that it has in Kafka; ``configs`` override the
    settings. Raises MirrorError for a topic that Kafka does not have, or that is another topic than the one mirrored
    before, and LogDirLockedError while a broker runs on the directory.
    """
    with Admin(following.cluster) as admin, LogManager.open(following.directory, create=True) as manager:
        manager.check_writable()
        wanted = [(name, _the_topic(admin, name)) for name in topics]
        for _, topic in wanted:
            _prepare(manager, topic, configs or {})
    partitions = [TopicPartition(name, number) for name, topic in wanted for number in range(topic.partitions)]
    yield from runner("partitions", partial(follow_partition, following), partitions)


def _the_topic(admin: Admin, name: str) -> KafkaTopic:
    topic = admin.topic(name)
    if topic is None:
        raise MirrorError(f"Kafka has no topic {name!r}; it has {', '.join(admin.names()) or 'none'}")
    return topic


def _prepare(manager: LogManager, topic: KafkaTopic, configs: Mapping[str, str]) -> None:
    """Creates the topic in the log directory if it is missing, or adds the partitions that it lacks there."""
    known = manager.find_topic(topic.name)
    if known is None:
        settings = {**topic.configs, **configs}
        manager.create_topic(topic.name, partitions=topic.partitions, configs=settings, topic_id=topic.id)
        return
    if (found := topic_id(manager, known)) != topic.id:
        raise MirrorError(
            f"topic {topic.name!r} in {manager.directory} has the id {found}, but in Kafka {topic.id}: it was not "
            "created by mirroring, or was deleted and created again in Kafka; mirror into another directory"
        )
    if len(known.partitions) < topic.partitions:
        add_partitions(manager, topic.name, topic.partitions)


def follow_partition(following: Following, partition: TopicPartition) -> Mirrored:
    """Copies one partition up to its current high watermark. Returns the outcome; an error is part of it."""
    try:
        with (
            LogManager.open(following.directory) as manager,
            PartitionLeader(following.cluster, *partition) as leader,
        ):
            log = manager.open_log(*partition)
            first = log.log_end_offset
            _catch_up(log, leader, following.allow_data_loss)
            return Mirrored(*partition, first, log.log_end_offset)
    except LogStoreError as error:
        return Mirrored.failed(*partition, error)


def _catch_up(log: Log, leader: PartitionLeader, allow_data_loss: bool) -> None:
    """Fetches and appends up to the high watermark that the first fetch returns; syncs each fetch before the next."""
    bytes_max = min(FETCH_BYTES, log.context.config.segment_bytes)  # a log refuses more in one append
    goal: int | None = None
    while goal is None or log.log_end_offset < goal:
        end = offset = log.log_end_offset
        epoch = log.epochs.latest.epoch if log.epochs.latest is not None else NO_EPOCH
        try:
            fetched = leader.fetch(offset, epoch, bytes_max)
        except OutsideLogError:
            offset = _next_there(log, leader, allow_data_loss)
            end = log.log_end_offset
            fetched = leader.fetch(offset, NO_EPOCH, bytes_max)
        goal = fetched.high_watermark if goal is None else goal
        if not fetched.batches:
            break
        append_fetched(log, fetched.batches, offset, end)


def _next_there(log: Log, leader: PartitionLeader, allow_data_loss: bool) -> int:
    """Returns the log start offset in Kafka, from which to continue if Kafka lacks the mirror's next offset.

    Makes a mirror without records begin at this offset. Raises MirrorError if Kafka's log ends before the mirror's, or
    if records in between were deleted and ``allow_data_loss`` is not set.
    """
    end, (earliest, latest) = log.log_end_offset, leader.bounds()
    if earliest < end:
        raise MirrorError(
            f"{leader} ends at {latest}, but its mirror at {end}: Kafka lost records; mirror into a new directory"
        )
    if not begin_at(log, earliest) and not allow_data_loss:
        raise MirrorError(
            f"{leader} begins at {earliest}, but its mirror ends at {end}: the records in between were deleted before "
            "they were mirrored; to skip them, use --allow-data-loss"
        )
    return earliest
