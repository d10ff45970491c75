"""The files of a partition: its slices as ``.log`` files of at most 1 GiB, and its segments unchanged.

The last file is always empty, and its name is the log end offset, so readers find the log end without reading the end
of the previous file.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from ...format.constants import INT32_MAX
from ...format.files import file_names as names
from ...format.tables import Int64s
from ..commits.commit import ClientTransaction, Segment, StagedObject
from ..commits.state import BASE, BATCHES, BYTES, MAX_TIMESTAMP, OBJECT, POSITION, RECORDS, PartitionState, State
from ..commits.transactions import EMPTY_BYTES

SEGMENT_BYTES_MAX = 1 << 30  # of slices that are shown as one .log


@dataclass(frozen=True, eq=False)
class MadeSegment:
    """Adjacent slices, shown as one ``.log``."""

    base: int
    slices: Int64s  # (slices, 7), columns as in a state
    objects: Int64s  # (slices, 5): the object of each slice, columns as in a state
    writes: list[str]

    @cached_property
    def starts(self) -> Int64s:
        """The position of each slice in the ``.log``, and its end; shape (slices + 1,)."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.slices[:, BYTES])])

    @property
    def size(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def inode(self) -> int:
        first = self.slices[:1, [BASE, POSITION]].ravel().tolist()  # without the object's number, which may change
        empty = self.slices[
            self.slices[:, BYTES] == EMPTY_BYTES, BASE
        ].tolist()  # an aborted one is shorter than it was
        return _inode(*map(str, [*first, *empty]), self.key(0) if len(self.slices) else "")

    def key(self, index: int) -> str:
        """Returns the name of the object that has a slice."""
        write, *rest = self.objects[index].tolist()
        return StagedObject(*rest).key(self.writes[write])

    def object_size(self, index: int) -> int:
        return int(self.objects[index, 4])

    @cached_property
    def indexed(self) -> tuple[Int64s, Int64s]:
        """Offsets and positions of an index: an entry for the first batch of each slice except the first slice.

        The offset is the batch's last one if it is alone in its slice, otherwise its first one.
        """
        rows = self.slices[1:]
        lasts = rows[:, BASE] + np.where(rows[:, BATCHES] == 1, rows[:, RECORDS] - 1, 0)
        return lasts, self.starts[1:-1]

    @cached_property
    def timed(self) -> tuple[Int64s, Int64s]:
        """Timestamps and offsets of a time index: an entry for each slice that raises the largest time so far."""
        largest = np.maximum.accumulate(self.slices[:, MAX_TIMESTAMP])
        rises = np.diff(largest, prepend=-1) > 0
        return largest[rises], (self.slices[:, BASE] + self.slices[:, RECORDS] - 1)[rises]


ShownSegment = MadeSegment | Segment


@dataclass(frozen=True, eq=False)
class PartitionFiles:
    """The files in a partition's directory."""

    topic_id: str
    partition: int
    log_start: int
    end: int
    segments: dict[int, ShownSegment]  # by base offset, ascending; the last one is empty
    undecided: list[tuple[ClientTransaction, int]]  # open transactions with their first offsets
    is_compacted: bool  # so that offsets may be missing anywhere
    number: int  # of the commit after which it was first seen

    @cached_property
    def inode(self) -> int:
        return _inode(self.topic_id, str(self.partition))

    @cached_property
    def last_put(self) -> Segment | None:
        """The last segment that was put as an object of its own; None if there is none."""
        put = [each for each in self.segments.values() if isinstance(each, Segment)]
        return put[-1] if put else None


def objects_of(shown: ShownSegment | None) -> set[str]:
    """Returns the keys of the objects with a segment's records."""
    if isinstance(shown, MadeSegment):
        return {shown.key(index) for index in range(len(shown.slices))}
    return set() if shown is None else {shown.uuid}


def objects_in(files: PartitionFiles) -> set[str]:
    """Returns the keys of the objects with a partition's records."""
    return set().union(*map(objects_of, files.segments.values()))


def has_holes(segments: Iterable[Segment]) -> bool:
    """Whether offsets may be missing in one of these segments, because it was compacted."""
    return any(each.records < each.end - each.base for each in segments)


def token_of(partition: PartitionState) -> tuple[object, ...]:
    """Returns a value that changes whenever the files of a partition change."""
    uuids = tuple(segment.uuid for segment in partition.segments)
    ended = partition.changes, len(partition.undecided)
    return partition.log_start, partition.end, len(partition.slices), ended, uuids


def files_of(state: State, topic_id: str, number: int) -> PartitionFiles:
    """Returns the files of a partition; they do not refer to parts of the state that may change."""
    partition = state.partitions[topic_id, number]
    slices = partition.slices.table.copy()
    objects = state.objects.table[slices[:, OBJECT]]
    made = [
        MadeSegment(int(slices[first, BASE]), slices[first:last], objects[first:last], state.writes)
        for first, last in _runs(slices, [segment.base for segment in partition.segments])
    ]
    end = MadeSegment(partition.end, slices[:0], objects[:0], state.writes)
    shown: list[ShownSegment] = sorted([*partition.segments, *made, end], key=lambda each: each.base)
    by_base = {each.base: each for each in shown}
    undecided = [(state.open[app].transaction, first) for app, first in partition.undecided.items()]
    is_compacted = partition.clean_end is not None or has_holes(partition.segments)
    ends = partition.log_start, partition.end
    return PartitionFiles(topic_id, number, *ends, by_base, undecided, is_compacted, state.number)


def _runs(slices: Int64s, segments: list[int]) -> Iterator[tuple[int, int]]:
    """Yields the index range [from, to) of the slices in each ``.log``; no range spans a segment."""
    bounds = [0, *np.searchsorted(slices[:, BASE], segments).tolist(), len(slices)]
    ends, lasts = np.cumsum(slices[:, BYTES]), slices[:, BASE] + slices[:, RECORDS] - 1
    for start, stop in pairwise(bounds):
        first = start
        while first < stop:
            before = int(ends[first] - slices[first, BYTES])
            fits = np.searchsorted(ends, before + SEGMENT_BYTES_MAX, side="right")
            near = np.searchsorted(lasts, slices[first, BASE] + INT32_MAX, side="right")
            last = min(max(first + 1, int(min(fits, near))), stop)
            yield first, last
            first = last


def names_in(files: PartitionFiles) -> list[str]:
    """Returns the names in a partition's directory."""
    found = [
        names.LEADER_EPOCH_CHECKPOINT,
        names.PARTITION_METADATA_FILE,
        names.segment_file(files.end, names.SNAPSHOT),
    ]
    for base in files.segments:
        found += [names.segment_file(base, kind) for kind in (names.LOG, names.INDEX, names.TIME_INDEX)]
    return sorted(found)


def _inode(*parts: str) -> int:
    return zlib.crc32("\0".join(parts).encode())
