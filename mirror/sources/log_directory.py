"""A log directory as a source, read without a broker while others may write to it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from ...storage import (
    INTERNAL_TOPICS,
    FetchAnswer,
    Isolation,
    LogManager,
    LogWatcher,
    Marks,
    OffsetOutOfRangeError,
    StorageError,
    TopicDescription,
    TopicIds,
    TopicPartition,
    UnknownTopicOrPartitionError,
    find_made_again,
    topic_ids,
)
from ..brokers.connections import ListedTopic
from ..brokers.requests import EARLIEST, LATEST
from ..errors import RetriableError

_COMMITTED = Isolation.READ_COMMITTED


@dataclass(frozen=True)
class DirectorySources:
    """A log directory, or the URL of a log on an object store."""

    directory: str
    fetch_bytes: int = 1 << 20  # of a partition; a larger batch is read as a whole
    wait_ms: int = 100  # before looking again where nothing is new

    def open(self) -> DirectorySource:
        return DirectorySource(self)

    def __str__(self) -> str:
        return self.directory


class DirectorySource:
    """Readers of the logs of a directory, which take no lock; as :class:`Source`."""

    def __init__(self, settings: DirectorySources) -> None:
        """Raises as :meth:`LogManager.open`."""
        self._settings = settings
        self._manager = LogManager.open(settings.directory)
        self._topics: dict[str, TopicDescription] = {}
        self._logs: dict[TopicPartition, LogWatcher] = {}

    def topics(self) -> list[ListedTopic]:
        """A topic whose directory has no partition now is left out."""
        self._manager.catch_up()
        found = self._manager.topics()
        self._topics = {name: each for name, each in found.items() if name not in INTERNAL_TOPICS and each.partitions}
        ids = topic_ids(self._manager, (each for topic in self._topics.values() for each in topic.topic_partitions))
        return [ListedTopic(name, max(each.partitions) + 1, ids.get(name)) for name, each in self._topics.items()]

    def partitions(self, topic: ListedTopic) -> list[TopicPartition]:
        """Not all numbers, if the directory is that of one of several brokers."""
        return self._topics[topic.name].topic_partitions

    def configs(self, topic: str) -> Mapping[str, str]:
        found = self._manager.find_topic(topic)
        return {} if found is None else found.configs

    def offsets(self, partitions: Iterable[TopicPartition], at: int) -> dict[TopicPartition, int]:
        marks = self._marks()
        return {each: self._offset(self._log(each, marks), at) for each in partitions}

    def _offset(self, log: LogWatcher, at: int) -> int:
        if at == EARLIEST:
            return log.log_start_offset
        if at == LATEST:
            return log.stable_end(_COMMITTED)
        found = log.offset_for_timestamp(at, _COMMITTED)
        return -1 if found is None else found.offset

    def fetch(
        self, positions: Mapping[TopicPartition, int], ids: TopicIds | None = None
    ) -> dict[TopicPartition, FetchAnswer | None]:
        marks = self._marks()
        found: dict[TopicPartition, FetchAnswer | None] = {}
        for partition, offset in positions.items():
            try:
                answer = self._read(self._log(partition, marks), offset)
            except OffsetOutOfRangeError:
                found[partition] = None
            else:
                if answer is not None:
                    found[partition] = answer
        if not found:
            time.sleep(self._settings.wait_ms / 1000)
        # After the logs were read: an id never comes back, so what was read is of the topics that have their ids still.
        if text := find_made_again(ids or {}, topic_ids(self._manager, found)):
            raise RetriableError(f"{self._settings}: {text}")
        return found

    def _read(self, log: LogWatcher, offset: int) -> FetchAnswer | None:
        end = log.stable_end(_COMMITTED)
        found = log.read(offset, max_bytes=self._settings.fetch_bytes, isolation=_COMMITTED, up_to=end)
        log.rest(log.log_start_offset, end)
        if found is None:
            return None
        aborted = [(each.producer_id, each.first_offset) for each in found.aborted]
        return FetchAnswer(found.window.whole.tobytes(), offset, aborted)  # no batch after it, which may be damaged

    def _marks(self) -> dict[TopicPartition, Marks]:
        self._manager.catch_up()
        return self._manager.all_marks()

    def _log(self, partition: TopicPartition, marks: Mapping[TopicPartition, Marks]) -> LogWatcher:
        """Returns the reader of a partition, with what was appended. Raises RetriableError if it is gone."""
        try:
            if partition in self._logs:
                self._logs[partition].catch_up(marks.get(partition, Marks()))
            else:
                self._logs[partition] = self._manager.open_watcher(*partition)
        except (StorageError, UnknownTopicOrPartitionError) as error:
            self._forget(partition)
            with suppress(UnknownTopicOrPartitionError):
                if self._manager.is_here(*partition):
                    raise
            raise RetriableError(f"{partition} of {self._settings} is gone: {error}") from error
        return self._logs[partition]

    def _forget(self, partition: TopicPartition) -> None:
        if (log := self._logs.pop(partition, None)) is not None:
            log.close()

    def close(self) -> None:
        for partition in [*self._logs]:
            self._forget(partition)
        self._manager.close()
