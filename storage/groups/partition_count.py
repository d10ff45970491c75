"""PartitionCount: how many partitions a coordinator's topic has, of which a log directory may have only some.

A broker has several ``log.dirs``, other brokers hold the rest, and a disk may be lost. So the number of partitions
comes from the first of these that has it:

1. ``topics.json``;
2. the broker's metadata log, if it is in the directory;
3. Kafka's default of 50 (``offsets.topic.num.partitions``, ``transaction.state.log.num.partitions``), unless a
   partition's number or a stored name contradicts it;
4. the only number that puts every stored name in the partition where it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from uuid import uuid4

import numpy as np

from ..directory.admin import partition_topic_id
from ..directory.broker_settings.metadata_log import read_metadata_log
from ..directory.manager import INTERNAL_PARTITIONS, LogManager
from ..directory.topics_file import TopicDescription
from ..errors import InvalidConfigError, LogStoreError, TopicExistsError, UnknownTopicOrPartitionError
from ..format.files import checkpoints, file_names
from ..format.files.file_names import PARTITIONS_MAX
from ..format.internal.internal_topics import partition_for, positive_hash

COUNT_MAX = 10_000  # largest number of partitions that is tried with the names stored here

_UNREAD = -1

logger = logging.getLogger(__name__)


class PartitionCount:
    """The number of partitions of a coordinator's topic, by what a log directory knows."""

    def __init__(self, manager: LogManager, topic: str, names_in: Callable[[int], set[str]]) -> None:
        """Reads nothing yet. ``names_in`` returns the names stored in a partition; it may raise LogStoreError."""
        self._manager, self._topic, self._names_in = manager, topic, names_in
        self._brokers_count: int | None = _UNREAD

    def described(self) -> int | None:
        """Returns the number according to ``topics.json``; None if it does not list the topic."""
        described = self._manager.described_topics().get(self._topic)
        return None if described is None else len(described.partitions)

    def found(self) -> tuple[int, ...]:
        """Returns the partitions of the topic according to the directories, for a topic not in ``topics.json``."""
        return self._manager.partitions_found(self._topic)

    def checkpointed(self) -> list[int]:
        """Returns the topic's partitions in the recovery points, which list partitions with a lost directory too."""
        points = self._manager.offsets(file_names.RECOVERY_POINT_CHECKPOINT)
        return sorted(partition for topic, partition in points if topic == self._topic)

    def undescribed(self) -> int | None:
        """Returns the number of partitions of a topic not in ``topics.json``; None if it cannot be determined."""
        if self._brokers_count == _UNREAD:
            found = read_metadata_log(self._manager.directory, self._manager.filesystem)
            self._brokers_count = found.partitions.get(self._topic)
        return self._by_names() if self._brokers_count is None else self._brokers_count

    def _by_names(self) -> int | None:
        by_partition = self.names()
        least = max((*by_partition, *self.checkpointed()), default=-1) + 1
        default = max(INTERNAL_PARTITIONS, least)
        if _fitting(range(default, default + 1), by_partition):
            return default
        fitting = _fitting(range(least, COUNT_MAX + 1), by_partition)
        return fitting[0] if len(fitting) == 1 else None

    def names(self) -> dict[int, set[str]]:
        """Returns the names stored in each partition of the directory; an empty set for an unreadable partition.

        The error of an unreadable partition is logged, and raised when a name in it is asked for.
        """
        found: dict[int, set[str]] = {}
        for partition in self.found():
            try:
                found[partition] = self._names_in(partition)
            except LogStoreError as error:
                logger.warning(
                    "%s-%d cannot be read, so the names in it are unknown: %s", self._topic, partition, error
                )
                found[partition] = set()
        return found

    def describe(self, count: int) -> TopicDescription:
        """Adds the topic to ``topics.json`` with ``count`` partitions, some of which may be elsewhere; durable.

        Raises TopicExistsError if the number is known, InvalidConfigError if the partitions here contradict it,
        UnknownTopicOrPartitionError if the topic does not exist, and LogDirLockedError while a broker runs here.
        """
        self._manager.check_writable()
        with self._manager.root_lock():
            described, here = self._manager.described_topics(), self.found()
            if self._topic in described:
                known = len(described[self._topic].partitions)
                raise TopicExistsError(f"topics.json lists {self._topic} with {known} partitions already")
            if not here:
                raise UnknownTopicOrPartitionError(f"no topic {self._topic!r} in {self._manager.directory}")
            self._check_count(count, here)
            topic = self._manager.topics()[self._topic]
            topic = replace(topic, partitions=tuple(range(count)), topic_id=self._topic_id(here[0]))
            self._manager.describe_topics({**described, self._topic: topic})
            return topic

    def _check_count(self, count: int, here: Collection[int]) -> None:
        if not max(here) < count <= PARTITIONS_MAX:
            raise InvalidConfigError(
                f"{self._topic} cannot have {count} partitions: the directory has partition {max(here)}; give a number "
                f"from {max(here) + 1} to {PARTITIONS_MAX}"
            )
        for partition, found in self.names().items():
            for name in found:
                if partition_for(name, count) != partition:
                    raise InvalidConfigError(
                        f"{self._topic} cannot have {count} partitions: {name!r} would be in partition "
                        f"{partition_for(name, count)}, but is in {partition}; give the number that the topic has in "
                        "Kafka"
                    )

    def _topic_id(self, partition: int) -> str:
        return partition_topic_id(self._manager, self._topic, partition) or checkpoints.encode_id(uuid4())


def _fitting(counts: range, by_partition: Mapping[int, Collection[str]]) -> list[int]:
    """Returns the numbers of partitions in ``counts`` with which every name belongs where it was found."""
    fitting = np.arange(counts.start, counts.stop)
    for partition, found in by_partition.items():
        for name in found:
            fitting = fitting[positive_hash(name) % fitting == partition]
    return fitting.tolist()
