"""PositionTopics: the topics of a log directory of Kafka 0.7, and readers of their partitions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from ...storage.directory.topics_file import TopicDescription
from ...storage.errors import NotALogDirError, UnknownTopicOrPartitionError, did_you_mean
from ...storage.filesystem.local import LocalFileSystem
from ...storage.filesystem.port import FileSystem
from ...storage.format.files.file_names import TopicPartition
from ...storage.paths import local_path
from .directory import position_partitions
from .reader import PositionLogReader

if TYPE_CHECKING:
    from ...storage.finding.bounds import Bounds
    from ...storage.finding.conditions import Condition
    from ...storage.finding.partition_search import Report
    from .search import PositionSearch


class PositionTopics:
    """Reads the topics of a directory of 0.7, by its directories' names: the counterpart of LogManager."""

    def __init__(self, directory: str, filesystem: FileSystem | None = None) -> None:
        """Raises NotALogDirError if there is no such directory."""
        self.directory, self._filesystem = local_path(directory), filesystem or LocalFileSystem()
        status = self._filesystem.status(self.directory)
        if status is None or not status.is_directory:
            raise NotALogDirError(f"{self.directory}: no such directory")

    @cached_property
    def paths(self) -> Mapping[TopicPartition, str]:
        """The directory of each partition. Raises NotALogDirError if one is there twice."""
        names = position_partitions(self._filesystem, self.directory)
        return {TopicPartition(*partition): f"{self.directory}/{name}" for name, partition in names.items()}

    def topics(self) -> Mapping[str, TopicDescription]:
        """Returns the topics by name, sorted."""
        return self._topics

    @cached_property
    def _topics(self) -> Mapping[str, TopicDescription]:
        partitions: dict[str, list[int]] = {}
        for topic, partition in sorted(self.paths):
            partitions.setdefault(topic, []).append(partition)
        return {name: TopicDescription(name, tuple(numbers)) for name, numbers in partitions.items()}

    def topic(self, name: str) -> TopicDescription:
        """Returns one topic. Raises UnknownTopicOrPartitionError, with the most similar name."""
        topics = self.topics()
        if name not in topics:
            hint = did_you_mean(name, topics) or f"; it holds {', '.join(topics) or 'no topics'}"
            raise UnknownTopicOrPartitionError(f"no topic {name!r} of Kafka 0.7 in {self.directory}{hint}")
        return topics[name]

    def open_reader(self, topic: str, partition: int) -> PositionLogReader:
        """Opens a partition as it is now. Raises UnknownTopicOrPartitionError, and the errors of PositionLogReader."""
        self.topic(topic).check_partition(partition, self.directory)
        return PositionLogReader(self.paths[TopicPartition(topic, partition)], self._filesystem)

    def search(
        self, partition: TopicPartition, condition: Condition, bounds: Bounds, report: Report, *, newest_first: bool
    ) -> PositionSearch:
        """Opens a search in a partition, for :class:`Search`. Raises errors like :class:`PositionSearch`."""
        from .search import PositionSearch  # noqa: PLC0415  loads what reads today's logs

        reader = self.open_reader(*partition)
        return PositionSearch(partition, reader, condition, bounds, report, newest_first=newest_first)
