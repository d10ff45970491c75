"""CoordinatorLogs: finds the partition of ``__consumer_offsets`` or ``__transaction_state`` that holds a name.

The name is a group's or a transactional id. Its hash modulo the topic's number of partitions (``partition_count``)
determines the partition. The directory may have fewer partitions than the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ..directory.manager import INTERNAL_PARTITIONS, LOST, LogManager
from ..directory.topics_file import TopicDescription
from ..errors import (
    CorruptionError,
    InvalidRecordError,
    LogStoreError,
    UnknownTopicOrPartitionError,
    kept_in,
)
from ..format.files import file_names
from ..format.files.file_names import TopicPartition
from ..format.internal.internal_topics import partition_for
from .compacted_values import LatestByKey
from .partition_count import PartitionCount

K = TypeVar("K")
V = TypeVar("V")

KEPT_MAX = 4 << 20  # characters of names whose partitions are cached
SHOWN_MAX = 10  # partitions listed in a message


@dataclass
class _Look(Generic[K, V]):
    """The values found within one :meth:`CoordinatorLogs.one_look`."""

    has_no_topic: bool = False
    seen: dict[int, Mapping[K, V] | LogStoreError] = field(default_factory=dict)  # by partition
    named: dict[int, dict[str, dict[K, V]]] = field(default_factory=dict)  # the same by name


class CoordinatorLogs(Generic[K, V]):
    """One coordinator's topic in a log directory.

    The manager caches values, so that each call reads only newer records.
    """

    def __init__(
        self,
        manager: LogManager,
        topic: str,
        *,
        decode_key: Callable[[bytes], K | None],
        decode_value: Callable[[K, bytes], V],
        name_of: Callable[[K], str],
        partitions: int = INTERNAL_PARTITIONS,
    ) -> None:
        """Reads nothing yet. ``name_of`` returns the group or transactional id of a key.

        ``partitions``: how many the topic gets if this object creates it.
        """
        self.manager = manager
        self._new_partitions = partitions
        self.topic = topic
        self._decode_key = decode_key
        self._decode_value = decode_value
        self._name_of = name_of
        self._count = PartitionCount(manager, topic, self._names_in)
        self._look: _Look[K, V] | None = None
        self._homes: dict[str, int] = {}  # partitions by name
        self._kept = 0  # characters of these names

    @contextmanager
    def one_look(self) -> Iterator[None]:
        """Within the block, all reads share one read of the log; nothing may be written there.

        A client may name thousands of groups in one request, and most of them need not exist.
        """
        self._look = _Look()
        try:
            yield
        finally:
            self._look = None

    # The partition of a name

    def partition_of(self, name: str, *, create: bool = False) -> int | None:
        """Returns the number of the partition that holds a name; None if the topic does not exist.

        With ``create``, creates the topic if it does not exist. Raises UnknownTopicOrPartitionError if the partition is
        missing from the directory or cannot be determined. Caches the result.
        """
        found = self._homes.get(name)
        if found is not None or (self._look is not None and self._look.has_no_topic and not create):
            return found
        found = self._partition_of(name, create=create)
        if found is not None:
            self._keep(name, found)
        elif self._look is not None:
            self._look.has_no_topic = True
        return found

    def known_partition(self, name: str) -> int | None:
        """Returns the partition of a name if it is known already; reads nothing."""
        return self._homes.get(name)

    def _keep(self, name: str, partition: int) -> None:
        """Caches the partition of a name; clients choose the names, so the cache is bounded."""
        self._kept += len(name)
        if self._kept > KEPT_MAX:
            self._homes.clear()
            self._kept = len(name)
        self._homes[name] = partition

    def partition_to_write(self, name: str) -> TopicPartition:
        """Returns the partition that holds a name; creates a missing topic.

        Raises the errors of :meth:`partition_of`.
        """
        partition = self.partition_of(name, create=True)
        assert partition is not None  # the topic exists now
        return TopicPartition(self.topic, partition)

    def _partition_of(self, name: str, *, create: bool) -> int | None:
        count = self._count.described()
        if count is None and not self._count.found():
            if lost := [each for each in self._count.checkpointed() if not self.manager.is_here(self.topic, each)]:
                was = f"{self.manager.directory} had partitions {_listed(lost)} of it, as the recovery points show"
                raise UnknownTopicOrPartitionError(f"{self.topic} holds {name!r}, and {was}; {LOST}")
            if not create:
                return None
            count = len(self.manager.ensure_topic(self.topic, partitions=self._new_partitions).partitions)
        if count is None:
            return self._partition_found(name)
        number = partition_for(name, count)
        if not self.manager.is_here(self.topic, number):
            raise UnknownTopicOrPartitionError(f"{self._missing_home(name, number, count)}; {LOST}")
        return number

    def _partition_found(self, name: str) -> int:
        """Returns the partition that holds a name, for a topic that ``topics.json`` does not list.

        Uses the number of partitions, if it can be determined, else the only partition in which the name is stored.
        """
        count = self._count.undescribed()
        here = self._count.found()
        number = None if count is None else partition_for(name, count)
        if number is not None and number in here:
            return number
        homes = [each for each, found in self._count.names().items() if name in found]
        if len(homes) == 1:
            return homes[0]
        if count is None:
            raise UnknownTopicOrPartitionError(f"{self._uncounted(name, homes)}; {_say_so(self.topic)}")
        assert number is not None
        raise UnknownTopicOrPartitionError(
            f"{self._missing_home(name, number, count)}: it may be in another of the broker's log.dirs; "
            f"if the topic has another number of partitions, {_say_so(self.topic)}"
        )

    def latest(self, partition: int) -> LatestByKey[K, V]:
        """Returns the cache of the newest values in one partition; it is read by :meth:`LatestByKey.catch_up`."""
        topic_partition = (self.topic, partition)
        return self.manager.kept(
            topic_partition,
            lambda: LatestByKey(
                self.manager, *topic_partition, decode_key=self._decode_key, decode_value=self._decode_value
            ),
        )

    def values(self, name: str) -> Mapping[K, V]:
        """Returns the current values in the partition that holds a name, including those of other names.

        Empty if the topic does not exist. Raises the errors of :meth:`partition_of` and :meth:`LatestByKey.catch_up`,
        and InvalidRecordError if the value of a key of that name cannot be read: its state is unknown, and not missing.
        """
        partition = self.partition_of(name)
        return {} if partition is None else self._readable(partition, self._seen(partition, self._current), name)

    def _current(self, partition: int) -> Mapping[K, V]:
        return self.latest(partition).catch_up()

    def _seen(self, partition: int, read: Callable[[int], Mapping[K, V]]) -> Mapping[K, V]:
        """Returns the result of ``read``, or raises its error; within :meth:`one_look`, reads a partition once."""
        if self._look is None:
            return read(partition)
        seen = self._look.seen
        if partition not in seen:
            try:
                seen[partition] = read(partition)
            except LogStoreError as error:
                seen[partition] = error
        found = seen[partition]
        if isinstance(found, LogStoreError):
            raise found
        return found

    def _readable(self, partition: int, values: Mapping[K, V], name: str) -> Mapping[K, V]:
        for key, error in self.latest(partition).unreadable.items():
            if self._name_of(key) == name:
                raise error
        return values

    def values_to_write(self, name: str) -> Mapping[K, V]:
        """Like :meth:`values`, for a caller that writes to the partition.

        A power cut may leave a damaged batch before a sound one, both never synced. A reader refuses that, and the
        caller must read before it writes. So the partition is opened for writing, which cuts off records that were
        never synced; damage to synced records stays an error.
        """
        partition = self.partition_of(name)
        return {} if partition is None else self._readable(partition, self.seen_to_write(partition), name)

    def named_to_write(self, name: str) -> Mapping[K, V]:
        """Returns the values of :meth:`values_to_write` that belong to the name."""
        values, partition = self.values_to_write(name), self.partition_of(name)
        if self._look is None or partition is None:
            return {key: value for key, value in values.items() if self._name_of(key) == name}
        if partition not in self._look.named:
            found = self._look.named[partition] = {}
            for key, value in values.items():
                found.setdefault(self._name_of(key), {})[key] = value
        return self._look.named[partition].get(name, {})

    def seen_to_write(self, partition: int) -> Mapping[K, V]:
        """Like :meth:`current_to_write`, once in :meth:`one_look`."""
        return self._seen(partition, self.current_to_write)

    def current_to_write(self, partition: int) -> Mapping[K, V]:
        """Like :meth:`values_to_write`, for a partition."""
        try:
            return self.latest(partition).catch_up()
        except CorruptionError:
            self.manager.open_log(self.topic, partition)
            return self.latest(partition).catch_up()

    # All partitions

    def each(self, failures: list[LogStoreError] | None = None) -> Iterator[Mapping[K, V]]:
        """Yields the current values in each partition of the directory; :meth:`missing` describes other partitions.

        Leaves out unreadable records, which :meth:`unreadable` returns.

        Raises LogStoreError if a partition cannot be read; with ``failures``, adds the error to that list instead and
        continues with the next partition.
        """
        for partition in self.here():
            values = None
            with kept_in(failures):
                values = self.latest(partition).catch_up()
            if values is not None:
                yield values

    def unreadable(self, partitions: Iterable[int] | None = None) -> list[InvalidRecordError]:
        """Returns the errors of unreadable records in partitions, as of their last read; None: in all partitions."""
        latest = [self.latest(each) for each in (self.here() if partitions is None else partitions)]
        return [error for each in latest for error in (*each.unreadable.values(), *each.nameless)]

    def here(self) -> list[int]:
        """Returns the numbers of the topic's partitions in this directory, ascending."""
        count = self._count.described()
        if count is None:
            return list(self._count.found())
        listed = {*self.manager.filesystem.list(self.manager.directory)}
        return [number for number in range(count) if file_names.partition_directory(self.topic, number) in listed]

    def missing(self) -> str | None:
        """Returns a sentence about partitions missing from the directory; None if it has all, or there is no topic."""
        here, count = self.here(), self._count.described()
        if count is None:
            count = self._count.undescribed() if here else 0
        if count is None:
            return f"{self._known(here)}, and it is unknown whether it has more; {_say_so(self.topic)}"
        gone = [number for number in range(count) if number not in here]
        if not gone:
            return None
        are = "is" if len(gone) == 1 else "are"
        where = f"{are} not in {self.manager.directory}: {_listed(gone)}"
        return f"{len(gone)} of the {count} partitions of {self.topic} {where}"

    def describe(self, count: int) -> TopicDescription:
        """Adds the topic to ``topics.json``: see :meth:`PartitionCount.describe`."""
        return self._count.describe(count)

    def _names_in(self, partition: int) -> set[str]:
        return {self._name_of(key) for key in self.latest(partition).catch_up()}

    # Messages

    def _missing_home(self, name: str, number: int, count: int) -> str:
        return (
            f"{self.topic}-{number}, which holds {name!r}, is not in {self.manager.directory}, "
            f"where {len(self.here())} of its {count} partitions are"
        )

    def _uncounted(self, name: str, homes: Collection[int]) -> str:
        why = f"{name!r} is in several of them: {_listed(homes)}" if homes else f"it is unknown which holds {name!r}"
        return f"{self._known(self._count.found())}, and {why}"

    def _known(self, here: Collection[int]) -> str:
        return f"{self.topic} has partitions {_listed(here)} in {self.manager.directory}"


def _say_so(topic: str) -> str:
    return f"state how many it has: commitlog topics --create --topic {topic} --partitions NUMBER"


def _listed(partitions: Collection[int]) -> str:
    shown = ", ".join(map(str, list(partitions)[:SHOWN_MAX]))
    return shown if len(partitions) <= SHOWN_MAX else f"{shown} and {len(partitions) - SHOWN_MAX} more"
