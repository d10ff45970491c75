"""Search: finds the records of a topic that satisfy a condition, in all of its partitions or in that of a key."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from heapq import merge
from typing import NamedTuple, Protocol, Self

from ..directory.manager import LogManager
from ..directory.topics_file import TopicDescription
from ..errors import CorruptionError
from ..format.files.file_names import TopicPartition
from ..format.tables import Records
from ..reading.aborted import Isolation
from ..reading.reader import LogReader
from .bounds import Bounds
from .conditions import Condition
from .keys import partitions_of_keys
from .partition_search import PartitionSearch, Report, Unsearched


class FoundRecords(NamedTuple):
    """Some of the records found: those of one partition, in the order of the search."""

    partition: TopicPartition
    records: Records


class LogSearch(Protocol):
    """A search in one log, up to the end that it had when the search was made."""

    partition: TopicPartition
    end: int

    @property
    def log_bytes(self) -> int:
        """The bytes to search."""

    def found(self) -> Iterator[Records]:
        """Yields the matching records in the order of the search."""

    def close(self) -> None:
        """Closes the files."""


class SearchedTopics(Protocol):
    """Topics of another kind of log, which bring a search of their own, and no keys that choose a partition."""

    directory: str

    def topic(self, name: str) -> TopicDescription:
        """Returns one topic. Raises UnknownTopicOrPartitionError."""

    def search(
        self, partition: TopicPartition, condition: Condition, bounds: Bounds, report: Report, *, newest_first: bool
    ) -> LogSearch:
        """Opens a search in one log. Raises CorruptionError if its damage makes that impossible."""


class Search:
    """Finds records of a topic, up to the ends that its logs have when the search is created.

    Iterating yields records as they are found: partition by partition in the order of offsets or, with
    ``newest_first``, from the ends of all logs at once, by time. Takes no lock and changes nothing. Parts that cannot
    be read, because they are damaged, deleted, or only in a broker's remote storage, are in :attr:`unsearched`, which
    is complete when the iteration has ended.

    A context manager that closes the logs; belongs to one thread.
    """

    def __init__(
        self,
        manager: LogManager | SearchedTopics,
        topic: str,
        condition: Condition,
        bounds: Bounds | None = None,
        *,
        partitions: Collection[int] | None = None,
        all_partitions: bool = False,
        newest_first: bool = False,
        isolation: Isolation = Isolation.READ_COMMITTED,
        report: Callable[[Unsearched], None] | None = None,
        starts: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """``partitions``: those to search; None: where the Java producer puts ``condition.key``, or all.

        ``all_partitions``: search all of them, even for a key. ``report`` is called with each part that is not
        searched, when that is known. ``starts``: offsets that replace the start of the bounds, such as the :attr:`ends`
        of an earlier search, which this one then continues. Raises UnknownTopicOrPartitionError and
        InvalidConfigError.
        """
        description, self._bounds = manager.topic(topic), bounds or Bounds()
        self._condition = condition
        self._newest_first, self._isolation, self._also_report = newest_first, isolation, report
        self.unsearched: list[Unsearched] = []
        self._starts = starts or {}
        self.partitions = _chosen(manager, description, condition, partitions, all_partitions=all_partitions)
        self._logs = [log for each in self.partitions if (log := self._open(manager, each)) is not None]

    def _open(self, manager: LogManager | SearchedTopics, partition: TopicPartition) -> LogSearch | None:
        """Opens a partition; None if its damage makes that impossible, which is reported."""
        try:
            if isinstance(manager, LogManager):
                return self._search(partition, manager.open_reader(*partition, reports_remote=False))
            return manager.search(
                partition,
                self._condition,
                self._bounds_of(partition),
                self._report,
                newest_first=self._newest_first,
            )
        except CorruptionError as error:
            self._report(Unsearched(partition, None, "damaged", str(error)))
            return None

    def _search(self, partition: TopicPartition, reader: LogReader) -> PartitionSearch:
        return PartitionSearch(
            partition,
            reader,
            self._condition,
            self._bounds_of(partition),
            self._isolation,
            self._report,
            newest_first=self._newest_first,
        )

    def _bounds_of(self, partition: TopicPartition) -> Bounds:
        return self._bounds._replace(start=self._starts.get(partition, self._bounds.start))

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The offset up to which each partition is searched; the start of the search if it could not be opened."""
        return {**self._starts, **{log.partition: log.end for log in self._logs}}

    def _report(self, part: Unsearched) -> None:
        self.unsearched.append(part)
        if self._also_report is not None:
            self._also_report(part)

    @property
    def log_bytes(self) -> int:
        """The bytes of the segments to search."""
        return sum(log.log_bytes for log in self._logs)

    def __iter__(self) -> Iterator[FoundRecords]:
        if self._newest_first and len(self._logs) > 1:
            yield from merge(*map(_one_by_one, self._logs), key=_age)
            return
        for log in self._logs:
            for records in log.found():
                yield FoundRecords(log.partition, records)

    def close(self) -> None:
        """Closes the logs."""
        for log in self._logs:
            log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _one_by_one(log: LogSearch) -> Iterator[FoundRecords]:
    for records in log.found():
        for row in range(len(records)):
            yield FoundRecords(log.partition, records.slice(row, row + 1))


def _age(found: FoundRecords) -> int:
    return -int(found.records.timestamps[0])


def _chosen(
    manager: LogManager | SearchedTopics,
    topic: TopicDescription,
    condition: Condition,
    wanted: Collection[int] | None,
    *,
    all_partitions: bool,
) -> list[TopicPartition]:
    """Returns the partitions to search, ascending."""
    if wanted is not None:
        for number in wanted:
            topic.check_partition(number, manager.directory)
        return [TopicPartition(topic.name, number) for number in sorted({*wanted})]
    if condition.key is None or all_partitions or not isinstance(manager, LogManager):
        return topic.topic_partitions
    return partitions_of_keys(topic, [condition.key])
