"""Walking through a segment: reading the batches of a ``.log`` in order, from a position or from an offset.

A segment contains complete batches in offset order, from its base offset on. A walk needs no lock: it reads complete
batches up to a given size of the file.

Only the ``.log`` is synced before records are acknowledged, so an index may be wrong after a power cut. Therefore a
position from an index is used only if a batch with a correct checksum begins there; otherwise the ``.log`` is read from
its beginning.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np

from .. import format as formats
from ..bytes_read import counted
from ..clock import Clock
from ..config import INT64_MAX, LogConfig
from ..errors import CorruptionError, CorruptRecordError, SegmentRemovedError
from ..filesystem.operations import forget_read, shown_path
from ..filesystem.port import File, FileStatus, FileSystem, Held
from ..format import StopReason, v2
from ..format.constants import LENGTH_AT
from ..format.files import file_names
from ..format.tables import BatchHeaders, Bytes, Int64s, Records
from .joining import Damage, Holes, check_wrapped, find_damage, hides_its_first, inside_segments, size_at_start
from .offset_index import OffsetIndex, OffsetPosition
from .resync import Search
from .time_index import TimeIndex
from .txn_index import TransactionIndex

logger = logging.getLogger(__name__)

WINDOW_BYTES = 4 * 1024 * 1024  # read at a time: enough to amortise a call, little enough to stay in the cache
PROBE_BYTES = 64 * 1024  # the same, if a few batches are enough: usually an index interval and one batch

Rows = slice | Int64s  # the rows of some batches in the headers of a window

# All files that a segment may have, in the order in which Kafka renames and removes them.
FILE_KINDS = (file_names.LOG, file_names.INDEX, file_names.TIME_INDEX, file_names.TXN_INDEX)


@dataclass(frozen=True)
class LogContext:
    """The common context of a log's segments: directory, settings, clock and file system."""

    directory: str
    config: LogConfig
    clock: Clock
    filesystem: FileSystem
    writable: bool = True
    holes: Callable[[], Holes] = inside_segments  # returns where offsets may be missing
    after_failure: bool = False  # a write of this process has failed, so loading cuts off what it left


class Window(NamedTuple):
    """Consecutive complete batches as stored in a segment.

    Positions in ``headers`` count from the start of ``buffer``, which may end with a part of the batch after them.
    """

    position: int  # of the buffer, in the file
    buffer: Bytes
    headers: BatchHeaders

    @property
    def whole(self) -> Bytes:
        """The bytes of the batches alone."""
        return self.buffer[: self.headers.end]


@dataclass
class LastSeen:
    """The last read, so that repeated questions about the same batches, as in a lookup, need no second read."""

    indexed: OffsetPosition | None = None  # an entry of the offset index that was checked and is correct
    decoded: tuple[int, Records | None] = (-1, None)  # position and records, without their columns
    timed: tuple[Window, Int64s] | None = None  # batches, without their bytes, and the times of their records
    following: dict[int, int] = field(default_factory=dict)  # offsets and positions of batches after those read last
    plain: tuple[int, int] = (0, 0)  # positions of a part without transactions


class SegmentWalk:
    """The files of a segment, opened when first needed, and walks through its batches."""

    _known_size: int | None = None
    _is_index_distrusted = False

    def __init__(self, context: LogContext, base_offset: int, suffix: str = "") -> None:
        """Opens no file. ``suffix`` is ``.cleaned`` or ``.swap`` while the segment is being swapped in."""
        self.context = context
        self.base_offset = base_offset
        self.suffix = suffix

    @cached_property
    def _last_seen(self) -> LastSeen:
        return LastSeen()

    # Files

    def path(self, kind: str) -> str:
        """The path of one of the segment's files; ``kind`` is one of :data:`FILE_KINDS`, such as ``.index``."""
        return file_names.join(self.context.directory, file_names.segment_file(self.base_offset, kind) + self.suffix)

    @property
    def shown_path(self) -> str:
        """The name of the ``.log`` in errors."""
        return shown_path(self.context.filesystem, self.path(file_names.LOG))

    def status(self) -> FileStatus:
        """Size, modification time and inode of the ``.log``. Raises SegmentRemovedError if the file does not exist."""
        status = self.context.filesystem.status(self.path(file_names.LOG))
        if status is None:
            raise self._removed("removed")
        return status

    def _removed(self, how: str) -> SegmentRemovedError:
        path = self.path(file_names.LOG)
        return SegmentRemovedError(f"{path}: the segment was {how} while this log was open; open the log again")

    @cached_property
    def _file(self) -> File:
        return self.context.filesystem.open(self.path(file_names.LOG), "write" if self.context.writable else "read")

    @property
    def size(self) -> int:
        """Bytes up to the end of the last batch known to be complete; at first, the length of the file."""
        if self._known_size is None:
            self._known_size = self._file.size()
        return self._known_size

    @property
    def file_size(self) -> int:
        """Bytes in the file: more than :attr:`size` if preallocated, torn, or being written by another process."""
        return self._file.size()

    def check_size(self) -> None:
        """Raises SegmentRemovedError if the file of a segment to which nobody appends has another size than before."""
        if self.file_size != self.size:
            raise self._removed("replaced")

    @cached_property
    def offset_index(self) -> OffsetIndex:
        context = self.context
        capacity = context.config.segment_index_bytes
        path = self.path(file_names.INDEX)
        return OffsetIndex(context.filesystem, path, self.base_offset, max_bytes=capacity, writable=context.writable)

    @cached_property
    def time_index(self) -> TimeIndex:
        context = self.context
        capacity = context.config.segment_index_bytes
        path = self.path(file_names.TIME_INDEX)
        return TimeIndex(context.filesystem, path, self.base_offset, max_bytes=capacity, writable=context.writable)

    @cached_property
    def txn_index(self) -> TransactionIndex:
        context = self.context
        path = self.path(file_names.TXN_INDEX)
        return TransactionIndex(context.filesystem, path, self.base_offset, writable=context.writable)

    def read_bytes(self, position: int, length: int) -> memoryview:
        """Reads ``length`` bytes of the ``.log`` at ``position``; returns fewer only at the end of the file."""
        return counted(self._file.read(position, length))

    def hold(self) -> Held:
        """Returns the descriptor of the ``.log``, which the caller releases. Raises io.UnsupportedOperation."""
        return self._file.hold()

    # Walking

    def batches(
        self,
        position: int = 0,
        end: int | None = None,
        window_bytes: int = WINDOW_BYTES,
        *,
        expected: int | None = None,
        until: int = INT64_MAX,
    ) -> Iterator[Window]:
        """Yields the batches between two positions of the ``.log``, in windows of about ``window_bytes``.

        Begins with the batch at ``position``; ends before position ``end`` (default: :attr:`size`), or with the batch
        that reaches offset ``until``. Each batch is checked: its checksum is correct, and it fits the batch before it.
        ``expected`` is the offset at which the first batch should begin, if known. A batch larger than ``window_bytes``
        gets a window of its own.

        Raises CorruptRecordError, UnsupportedMagicError or MissingSegmentError after the last correct batch, and
        SegmentRemovedError if the log was truncated while it was read. In a remote file, damaged bytes are first read
        again, because they may have been damaged on their way.
        """
        read_again_at = -1
        while True:
            try:
                for window in self._batches(position, end, window_bytes, expected, until):
                    yield window
                    position, expected = window.position + window.headers.end, window.headers.next_offset
                return
            except CorruptionError:
                if read_again_at == position or not forget_read(self._file):
                    raise
                read_again_at = position

    def _batches(
        self, position: int, end: int | None, window_bytes: int, expected: int | None, until: int
    ) -> Iterator[Window]:
        end = self.size if end is None else end
        expected = self.base_offset if position == 0 else expected
        for found in self.walk(position, end, window_bytes):
            window = found if until == INT64_MAX else up_to(found, until)
            damage = self._find_damage(window, expected, end)
            if damage is None:
                yield window
            else:
                if damage.row:
                    yield window._replace(headers=window.headers[: damage.row])
                raise damage.error
            position, expected = window.position + window.headers.end, window.headers.next_offset
            if expected > until:
                return
        if position < end:
            raise self._not_whole(position, end)

    def sound_batches(self, position: int = 0) -> Iterator[Window]:
        """Yields the batches from ``position`` on, like :meth:`batches`, but skips damage silently."""
        end = self.size
        while position < end:
            try:
                for window in self.batches(position, end):
                    position = window.position + window.headers.end
                    yield window
            except CorruptionError:
                found = self.search(end).next_sound(position + 1)
                position = end if found is None else found

    def _find_damage(self, window: Window, expected: int | None, end: int) -> Damage | None:
        """Returns the first batch of a window that has a wrong checksum or does not fit its neighbours.

        Returns None if all batches are right. The batch after the window counts as a neighbour if it begins before
        position ``end``.
        """
        following = self._overlapping(window, end)
        found = find_damage(window.buffer, window.headers, self.context.holes, expected=expected, following=following)
        if found is None:
            return None
        return Damage(found.row, found.error.located(self.shown_path, window.position))

    def _overlapping(self, window: Window, end: int) -> tuple[int, int] | None:
        """Returns the first and last offset of the batch after a window, if it is sound and overlaps it.

        Returns None otherwise.
        """
        window_end = window.position + window.headers.end
        if window_end >= end:
            return None
        data = window.buffer[window.headers.end : window.headers.end + LENGTH_AT].tobytes()
        if len(data) < LENGTH_AT:
            data = bytes(self._file.read(window_end, LENGTH_AT))
        if int.from_bytes(data, "big", signed=True) >= window.headers.next_offset:
            return None
        headers = self.search(end).sound_at(window_end)
        return None if headers is None else (int(headers.table["base_offset"][0]), headers.next_offset - 1)

    def search(self, end: int) -> Search:
        """Returns an object that finds sound batches in the first ``end`` bytes of the ``.log``."""
        return Search(self._file, self.base_offset, end)

    def _not_whole(self, position: int, end: int) -> CorruptRecordError | SegmentRemovedError:
        if self.file_size < end:
            return self._removed("truncated")
        reason = "the last batch is incomplete, or its length field is wrong"
        return CorruptRecordError(reason, path=self.shown_path, position=position)

    def walk(self, position: int, end: int, window_bytes: int = WINDOW_BYTES) -> Iterator[Window]:
        """Yields the batches between two positions like :meth:`batches`, but checks neither checksums nor neighbours.

        Ends silently at an incomplete batch.

        Raises CorruptRecordError or UnsupportedMagicError for an impossible header.
        """
        wanted = window_bytes
        while position < end:
            buffer = np.frombuffer(counted(self._file.read(position, min(wanted, end - position))), np.uint8)
            scan = formats.scan(buffer)
            if len(scan.headers):
                yield Window(position, buffer, scan.headers)
            if scan.reason not in (StopReason.END, StopReason.TRUNCATED):
                raise formats.stop_error(scan, buffer).located(self.shown_path, position)
            if scan.end:
                position, wanted = position + scan.end, window_bytes
            elif len(buffer) < wanted or (wanted := max(wanted + 1, size_at_start(buffer))) > end - position:
                return

    def position_before(self, offset: int) -> int:
        """Returns a position from which a walk finds the first batch that reaches ``offset``.

        The position comes from the offset index, if a sound batch begins there; otherwise it is 0.
        """
        if self._is_index_distrusted:
            return 0
        entry = self.offset_index.lookup(offset)
        if entry.position == 0 or (entry.offset <= offset and self._is_as_indexed(entry, offset)):
            return entry.position
        if self._is_sound_past(entry.position):  # otherwise a read from the beginning reports the damage of the log
            what = f"no sound batch is at position {entry.position}, where the index has one"
            logger.warning("%s: %s; the index is not used: rebuild it", self.offset_index.path, what)
        self._is_index_distrusted = True
        return 0

    def _is_sound_past(self, position: int) -> bool:
        """Whether the log is sound from its beginning up to ``position`` and beyond, or it ends before."""
        with suppress(CorruptionError, SegmentRemovedError):
            for window in self.batches():
                if window.position + window.headers.end > position:
                    break
            return True
        return False

    def _is_as_indexed(self, entry: OffsetPosition, offset: int) -> bool:
        """Whether an index entry is right: whether a sound batch at or after its position ends with its offset.

        The entry's offset, which is at most ``offset``, is the last one of an append, of one batch or several, or the
        first one of the batch. With older formats, an index may contain the first offset of a batch, which is in no
        header.
        """
        if self._last_seen.indexed != entry and entry.position >= 0:
            with suppress(CorruptionError, SegmentRemovedError):
                if self._reaches(entry, offset):
                    self._last_seen.indexed = entry
        return self._last_seen.indexed == entry

    def _reaches(self, entry: OffsetPosition, offset: int) -> bool:
        for window in self.batches(entry.position, window_bytes=PROBE_BYTES, until=entry.offset):
            is_right = self._is_right_there(entry, offset, window)
            if is_right is not None:
                return is_right
        return False

    def _is_right_there(self, entry: OffsetPosition, offset: int, window: Window) -> bool | None:
        """Whether the batches in ``window``, which begins at the entry's position, prove the index entry right.

        Returns True or False, or None if they end before the entry's offset.
        """
        first = window.headers.table[0]
        is_old = first["magic"] < v2.MAGIC
        if first["base_offset"] < self.base_offset or (is_old and first["last_offset"] > offset):
            return False
        if window.headers.next_offset > entry.offset:
            return bool(is_old or entry.offset in (first["base_offset"], window.headers.next_offset - 1))
        return None

    def from_index(
        self, offset: int, end: int | None = None, window_bytes: int = WINDOW_BYTES, *, until: int = INT64_MAX
    ) -> Iterator[Window]:
        """Yields batches like :meth:`batches`, from the position that :meth:`position_before` finds for ``offset``.

        ``until`` is at least ``offset``. The first window also shows whether the index entry is right, so that its
        batches are read only once.
        """
        entry = OffsetPosition(self.base_offset, 0) if self._is_index_distrusted else self.offset_index.lookup(offset)
        if entry.position > 0 and self._last_seen.indexed != entry and entry.offset <= offset:
            windows = self.batches(entry.position, end, window_bytes, until=until)
            with suppress(CorruptionError, SegmentRemovedError):
                first = next(windows, None)
                if first is not None and self._is_right_there(entry, offset, up_to(first, entry.offset)):
                    self._last_seen.indexed = entry
                    return chain((first,), windows)
        return self.batches(self.position_before(offset), end, window_bytes, until=until)

    def decode(
        self, window: Window, rows: Rows, columns: tuple[str, ...] = (), expected: int | None = None
    ) -> formats.Decoded:
        """Returns the records of the batches in ``rows`` of a window; ``columns`` names those to decode in full.

        ``expected`` is the offset at which the window should begin, if known. Raises CorruptRecordError and other
        CorruptionErrors, with path and position, for damage.
        """
        try:
            limit = self.context.config.max_decompressed_bytes
            found = formats.decode(
                window.buffer, window.headers[rows], columns=columns, decompressed_bytes_max=limit, is_verified=True
            )
            if len(window.headers) and window.position + int(window.headers.table["position"][0]) == 0:
                expected = self.base_offset
            check_wrapped(window.headers, rows, found, self.context.holes, lowest=self.base_offset, expected=expected)
            return found
        except CorruptionError as error:
            raise error.located(self.shown_path, window.position) from error

    def count_records(self, window: Window) -> int:
        """Returns the number of records in a window; decodes messages of magic 0 and 1, whose headers lack it."""
        table = window.headers.table
        is_old = table["magic"] < v2.MAGIC
        old = self.decode(window, np.flatnonzero(is_old)).counts.sum() if is_old.any() else 0
        return int(table["count"][~is_old].sum() + old)

    def check_wrapper_starts(self, window: Window, expected: int | None) -> None:
        """Raises MissingSegmentError if offsets are missing before a wrapper message of a log without holes.

        Headers cannot show it, so the wrapper messages are decoded; ``expected`` is as for :meth:`decode`.
        """
        rows = np.flatnonzero(hides_its_first(window.headers))
        if len(rows) and self.context.holes() is Holes.NOWHERE:
            self.decode(window, rows, expected=expected)


def up_to(window: Window, offset: int) -> Window:
    """Returns the window without the batches after the one that reaches ``offset``."""
    reaching = np.flatnonzero(window.headers.table["last_offset"] >= offset)
    return window._replace(headers=window.headers[: reaching[0] + 1]) if len(reaching) else window
