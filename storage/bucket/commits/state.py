"""The state of a log on an object store after a commit; it follows only from the commits up to that one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ...format.tables import Int64s
from .commit import ClientTransaction, GroupOffset, Segment, StagedObject
from .producers import Producers
from .rows import Rows

# Columns of a partition's slices in a state, shape (slices, 7); the object is an index into the state's objects.
BASE, OBJECT, POSITION, BYTES, RECORDS, BATCHES, MAX_TIMESTAMP = range(7)
SLICE_COLUMNS = 7
Key = tuple[str, int]  # topic id, partition
OBJECT_COLUMNS = 5  # columns of the state's objects: write (index into the state's), task, attempt, sequence, size


class Topic(NamedTuple):
    """A topic with the settings that differ from the defaults."""

    name: str
    topic_id: str
    partitions: int
    configs: Mapping[str, str]


class App(NamedTuple):
    """The progress of an exactly-once writer."""

    epoch: int
    version: int | None  # the last one committed
    query: str | None
    run: str | None


class Slice(NamedTuple):
    """Adjacent record batches in a staged object; their base offsets there begin at 0."""

    base: int  # offset in the partition
    key: str
    position: int
    size: int  # bytes
    records: int
    batches: int
    max_timestamp: int

    @property
    def end(self) -> int:
        return self.base + self.records


class PartitionState:
    """A partition: slices and segments that cover its offsets without a gap.

    They begin at the log start offset, or a little before it, and reach to the log end.
    """

    __slots__ = ("changes", "end", "is_unfinished", "log_start", "segments", "slices", "undecided")

    def __init__(
        self, log_start: int = 0, end: int = 0, slices: Rows | None = None, segments: list[Segment] | None = None
    ) -> None:
        self.log_start, self.end = log_start, end
        self.slices = Rows(SLICE_COLUMNS) if slices is None else slices
        self.segments = [] if segments is None else segments  # by base
        self.undecided: dict[str, int] = {}  # the first offset of each open transaction, by its app
        self.is_unfinished = False  # its copy into this log is not finished: no one else reads or writes it
        self.changes = 0  # transactions that ended here, as far as this process has read

    def copy(self) -> PartitionState:
        copied = PartitionState(self.log_start, self.end, self.slices.copy(), list(self.segments))
        copied.undecided, copied.changes = dict(self.undecided), self.changes
        copied.is_unfinished = self.is_unfinished
        return copied

    @property
    def stable_end(self) -> int:
        """The first offset of an open transaction; the end if there is none."""
        return max(min(self.undecided.values(), default=self.end), self.log_start)

    def slice_range(self, base: int, end: int) -> tuple[int, int]:
        """Returns the index range [from, to) of the slices whose base offset is in [``base``, ``end``)."""
        first, last = np.searchsorted(self.slices.table[:, BASE], (base, end))
        return int(first), int(last)

    def segment_range(self, base: int, end: int) -> tuple[int, int]:
        """Returns the index range [from, to) of the segments whose base offset is in [``base``, ``end``)."""
        bases = np.array([segment.base for segment in self.segments], np.int64)
        first, last = np.searchsorted(bases, (base, end))
        return int(first), int(last)

    @property
    def clean_end(self) -> int | None:
        """The end offset of the compacted segments at the start of the log; None if there are none."""
        end, slices = None, self.slices.table[:1, BASE].tolist()
        for segment in self.segments:
            is_next = segment.base == end or (end is None and segment.base <= min(slices, default=segment.base))
            if not is_next or not segment.is_compacted:
                break
            end = segment.end
        return end

    def is_boundary(self, offset: int) -> bool:
        """Whether a slice or segment begins at ``offset``, or the last one ends there."""
        first, last = self.slice_range(offset, offset + 1)
        return offset == self.end or last > first or any(segment.base == offset for segment in self.segments)


@dataclass
class OpenTransaction:
    """The content of a client's transaction in the log so far."""

    transaction: ClientTransaction
    number: int  # of the commit that began it
    began_ms: int  # by the clock of that commit's writer; only for display
    slices: dict[Key, list[int]] = field(default_factory=dict)  # base offsets
    offsets: dict[str, dict[str, tuple[int, GroupOffset]]] = field(default_factory=dict)  # with the commit that has it

    def copy(self) -> OpenTransaction:
        """Returns a copy, which stays the same when this one changes."""
        slices = {key: list(bases) for key, bases in self.slices.items()}
        offsets = {group: dict(each) for group, each in self.offsets.items()}
        return replace(self, slices=slices, offsets=offsets)


@dataclass
class State:
    """The state of the log after commit ``number``. :func:`apply` updates it by the next commit."""

    log_id: str
    number: int = 0
    uid: str = ""
    topics: dict[str, Topic] = field(default_factory=dict)  # by id
    topic_ids: dict[str, str] = field(default_factory=dict)  # by name
    partitions: dict[tuple[str, int], PartitionState] = field(default_factory=dict)
    apps: dict[str, App] = field(default_factory=dict)
    groups: dict[str, dict[str, GroupOffset]] = field(default_factory=dict)
    open: dict[str, OpenTransaction] = field(default_factory=dict)  # transactions of clients, by app
    void: set[str] = field(default_factory=set)  # writes and segments that must never be committed
    dropped: dict[str, int] = field(default_factory=dict)  # writes and segments, by the commit that needed them last
    writes: list[str] = field(default_factory=list)
    objects: Rows = field(default_factory=lambda: Rows(OBJECT_COLUMNS))
    uses: Counter[str] = field(default_factory=Counter)  # slices of each write in the log; 1 for a segment in it
    producers: Producers = field(default_factory=dict)
    topics_changed: int = 0  # the last commit that changed topics, as far as this process has read

    def __post_init__(self) -> None:
        self.uid = self.uid or self.log_id  # the first commit names the log as its predecessor

    def copy(self) -> State:
        """Returns a copy of the state, which stays the same when this one changes."""
        return replace(
            self,
            topics=dict(self.topics),
            topic_ids=dict(self.topic_ids),
            partitions={key: partition.copy() for key, partition in self.partitions.items()},
            apps=dict(self.apps),
            groups={group: dict(offsets) for group, offsets in self.groups.items()},
            open={app: each.copy() for app, each in self.open.items()},
            void=set(self.void),
            dropped=dict(self.dropped),
            producers=dict(self.producers),
            writes=list(self.writes),
            objects=self.objects.copy(),
            uses=self.uses.copy(),
        )

    def slices(self, topic_id: str, partition: int, base: int = 0, end: int = 2**63 - 1) -> list[Slice]:
        """Returns the slices of a partition whose base offset is in [``base``, ``end``), by offset."""
        found = self.partitions[topic_id, partition]
        first, last = found.slice_range(base, end)
        return [
            Slice(start, self._key(number), *rest) for start, number, *rest in found.slices.table[first:last].tolist()
        ]

    def _key(self, number: int) -> str:
        write, *rest = self.objects.table[number].tolist()
        return StagedObject(*rest).key(self.writes[write])

    def named_objects(self) -> set[str]:
        """Returns the names of all objects with records of the log; names of segments are without suffixes."""
        numbers = np.unique(self._slice_numbers())
        segments = {
            segment.key(topic_id, number)
            for (topic_id, number), partition in self.partitions.items()
            for segment in partition.segments
        }
        return {self._key(number) for number in numbers.tolist()} | segments

    def release(self, slices: Int64s, segments: Iterable[Segment]) -> None:
        """Notes that the log no longer has these objects, as of the next commit."""
        writes, counts = np.unique(self.objects.table[slices[:, OBJECT], 0], return_counts=True)
        released = [(self.writes[write], count) for write, count in zip(writes.tolist(), counts.tolist(), strict=True)]
        for each, count in [*released, *((segment.uuid, 1) for segment in segments)]:
            self.uses[each] -= count
            if not self.uses[each]:
                del self.uses[each]
                self.dropped[each] = self.number + 1

    def count_uses(self) -> None:
        """Computes ``uses`` from slices and segments."""
        counts = np.bincount(self.objects.table[self._slice_numbers(), 0], minlength=len(self.writes)).tolist()
        self.uses = Counter({write: count for write, count in zip(self.writes, counts, strict=True) if count})
        self.uses.update(segment.uuid for each in self.partitions.values() for segment in each.segments)

    def forget_unnamed(self) -> None:
        """Drops objects and writes that no slice names; keeps the order of the others."""
        is_named = np.zeros(len(self.objects), bool)
        is_named[self._slice_numbers()] = True
        if is_named.all():
            return
        objects, numbers = self.objects.table[is_named], np.cumsum(is_named) - 1
        kept, objects[:, 0] = np.unique(objects[:, 0], return_inverse=True)
        for partition in self.partitions.values():
            table = partition.slices.table
            table[:, OBJECT] = numbers[table[:, OBJECT]]
        self.objects = Rows(OBJECT_COLUMNS, objects)
        self.writes = [self.writes[number] for number in kept.tolist()]

    def _slice_numbers(self) -> Int64s:
        """Returns the object numbers of all slices, by partition."""
        empty = np.empty(0, np.int64)
        return np.concatenate([empty, *(each.slices.table[:, OBJECT] for each in self.partitions.values())])
