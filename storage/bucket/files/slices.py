"""Slices of staged objects as the bytes of a ``.log``: base offsets, which begin at 0 in a slice, are raised."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import numpy as np

from ... import format as formats
from ...errors import CorruptionError
from ...format.tables import Bytes, Int64s
from ..commits.state import BASE, BATCHES, BYTES, POSITION
from ..staged_objects import Footer
from .layout import MadeSegment, objects_of
from .parts import AHEAD_PARTS, PART_BYTES, Part, Parts, Progress

OFFSET_BYTES = 8  # of a base offset, at the beginning of a batch
KNOWN_SLICES = 64  # slices whose batches a file remembers


class SliceBytes:
    """The bytes of a made segment. For any thread."""

    def __init__(self, segment: MadeSegment, parts: Parts, footers: Callable[[str, int], Footer]) -> None:
        self._segment, self._parts, self._footers = segment, parts, footers
        self._starts: OrderedDict[int, Int64s] = OrderedDict()  # of the batches in a slice
        self._progress = Progress()

    def read(self, position: int, length: int) -> memoryview:
        """Returns the bytes from ``position`` on, fewer at the end. Raises the errors of :meth:`Parts.get`."""
        end = min(position + length, self._segment.size)
        if position >= end:
            return memoryview(b"")
        ahead = self._progress.ahead_of(position, length)
        first, last = self._slice_at(position), self._slice_at(end - 1)
        found: Bytes = np.empty(end - position, np.uint8)
        starts = self._segment.starts
        for index in range(first, last + 1):
            start, stop = max(position, int(starts[index])), min(end, int(starts[index + 1]))
            if (index - first) % AHEAD_PARTS == 0:
                self._begin(start, end, ahead if last - index < AHEAD_PARTS else 0)
            self._read_slice(index, start - int(starts[index]), found[start - position : stop - position])
        return found.data

    def forget(self) -> None:
        """Drops the cached parts of its objects."""
        self._starts.clear()
        self._parts.forget(objects_of(self._segment))

    def _slice_at(self, position: int) -> int:
        return int(np.searchsorted(self._segment.starts, position, side="right")) - 1

    def _begin(self, position: int, end: int, ahead: int) -> None:
        """Starts reading the parts from ``position`` to ``end``, and ``ahead`` bytes after them."""
        wanted = self._parts_of(position, end, AHEAD_PARTS)
        behind = self._parts_of(end, min(end + ahead, self._segment.size), AHEAD_PARTS)
        self._parts.get((), [*wanted, *behind])

    def _parts_of(self, position: int, end: int, most: int) -> list[Part]:
        found: list[Part] = []
        index = self._slice_at(position)
        while position < end and len(found) < most:
            start = int(self._segment.starts[index])
            number = (position - start) // PART_BYTES
            part = self._part(index, number)
            found.append(part)
            position = start + number * PART_BYTES + part.length
            index += position >= self._segment.starts[index + 1]
        return found

    def _part(self, index: int, number: int) -> Part:
        row, start = self._segment.slices[index], number * PART_BYTES
        length = min(PART_BYTES, int(row[BYTES]) - start)
        return Part(self._segment.key(index), int(row[POSITION]) + start, length, self._segment.object_size(index))

    def _read_slice(self, index: int, first: int, into: Bytes) -> None:
        """Fills ``into`` with the bytes of a slice, beginning at its position ``first``."""
        end = first + len(into)
        starts = self._batch_starts(index)
        low, high = _around(starts, first), _around(starts, end)
        from_, to = (first if low is None else low), (end if high is None else high + OFFSET_BYTES)
        to = min(to, int(self._segment.slices[index, BYTES]))
        data = into if to - from_ == len(into) else np.empty(to - from_, np.uint8)
        self._copy(index, from_, data)
        inside = starts[np.searchsorted(starts, from_) : np.searchsorted(starts, to - OFFSET_BYTES, side="right")]
        _move(data, inside - from_, int(self._segment.slices[index, BASE]))
        if data is not into:
            into[:] = data[first - from_ : end - from_]

    def _copy(self, index: int, first: int, into: Bytes) -> None:
        """Fills ``into`` with the object's bytes, with unchanged offsets."""
        end = first + len(into)
        numbers = range(first // PART_BYTES, (end - 1) // PART_BYTES + 1)
        parts = self._parts.get([self._part(index, number) for number in numbers])
        for number, part in zip(numbers, parts, strict=True):
            start = number * PART_BYTES
            low, high = max(first, start), min(end, start + len(part))
            into[low - first : high - first] = np.frombuffer(part, np.uint8)[low - start : high - start]

    def _batch_starts(self, index: int) -> Int64s:
        known = self._starts.get(index)
        if known is None:
            known = self._starts[index] = self._find_starts(index)
            if len(self._starts) > KNOWN_SLICES:
                self._starts.popitem(last=False)
        return known

    def _find_starts(self, index: int) -> Int64s:
        """Returns the start of each batch in a slice: by the batches' lengths in a small slice, else by the footer."""
        row = self._segment.slices[index]
        if row[BATCHES] == 1:
            return np.zeros(1, np.int64)
        if row[BYTES] <= PART_BYTES:
            (data,) = self._parts.get([self._part(index, 0)])
            return formats.scan(np.frombuffer(data, np.uint8)).headers.table["position"].astype(np.int64)
        key, place = self._segment.key(index), (int(row[POSITION]), int(row[BYTES]))
        footer = self._footers(key, self._segment.object_size(index))
        found = {(at, size): sizes for (_, _, at, size), sizes in zip(footer.slices, footer.sizes, strict=True)}
        if (sizes := found.get(place)) is None:
            raise CorruptionError(
                "the footer does not have the slice that the log names: restore it", path=key, position=place[0]
            )
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)[:-1]])


def _around(starts: Int64s, position: int) -> int | None:
    """Returns the batch whose base offset lies across ``position``; None: there is none."""
    index = int(np.searchsorted(starts, position)) - 1
    is_across = index >= 0 and starts[index] + OFFSET_BYTES > position
    return int(starts[index]) if is_across else None


def _move(data: Bytes, starts: Int64s, base: int) -> None:
    """Adds ``base`` to the base offsets of the batches that begin at ``starts``."""
    places = starts[:, None] + np.arange(OFFSET_BYTES)
    offsets = np.ascontiguousarray(data[places]).view(">i8")[:, 0].astype(np.int64) + base
    data[places] = offsets.astype(">i8").view(np.uint8).reshape(-1, OFFSET_BYTES)
