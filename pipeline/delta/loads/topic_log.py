"""TopicLog: the log of a topic that a load reads, in a log directory or at brokers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from ....storage import Isolation, LogManager, TopicIds, topic_ids
from ..points import Points, Wanted, find_points
from ..reload import read_between
from ..table_ends import LastRow, check_same_log


class OpenLog(Protocol):
    """The partitions of a topic, as they are now."""

    def ids(self) -> TopicIds:
        """Returns the topic's id by its name; {} if it is not known, as at brokers."""

    def bounds(self) -> dict[int, tuple[int, int]]:
        """Returns the first offset of each partition, lost or not, and the one after its last committed record."""

    def points(self, wanted: Wanted) -> Points:
        """Returns where to load again. Raises the errors of :func:`find_points`."""

    def check_same(self, last: LastRow, path: str) -> None:
        """Raises ProgressMismatchError if the row at ``path`` did not come from this log."""


class TopicLog(Protocol):
    """The source of a topic's records."""

    @property
    def topic(self) -> str: ...

    def opened(self) -> AbstractContextManager[OpenLog]:
        """Opens the log to read its partitions."""

    def read_between(
        self, session: SparkSession, starts: Points, ends: Points, options: Mapping[str, str]
    ) -> DataFrame:
        """Returns the records from ``starts`` up to ``ends``, with a task for each partition or several."""


class DirectoryLog:
    """A topic of a log directory."""

    def __init__(self, log_dir: str, topic: str) -> None:
        self.log_dir, self.topic = log_dir, topic

    @contextmanager
    def opened(self) -> Iterator[OpenLog]:
        with LogManager.open(self.log_dir) as manager:
            yield _OpenDirectory(manager, self.topic)

    def read_between(
        self, session: SparkSession, starts: Points, ends: Points, options: Mapping[str, str]
    ) -> DataFrame:
        return read_between(session, self.log_dir, self.topic, starts, ends, options)

    def __str__(self) -> str:
        return self.log_dir


class _OpenDirectory:
    def __init__(self, manager: LogManager, topic: str) -> None:
        self._manager, self._topic = manager, topic

    def ids(self) -> TopicIds:
        return topic_ids(self._manager, self._manager.topic(self._topic).topic_partitions)

    def bounds(self) -> dict[int, tuple[int, int]]:
        return {number: self._bounds(number) for number in self._manager.topic(self._topic).partitions}

    def _bounds(self, number: int) -> tuple[int, int]:
        with self._manager.open_reader(self._topic, number) as reader:
            return reader.earliest_offset, reader.end_offset(Isolation.READ_COMMITTED)

    def points(self, wanted: Wanted) -> Points:
        return find_points(self._manager, self._topic, wanted)

    def check_same(self, last: LastRow, path: str) -> None:
        check_same_log(self._manager, self._topic, last, path)
