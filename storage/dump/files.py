"""Reads a segment's files for a dump: as they are, even if damaged, and one window at a time."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from .. import format as formats
from ..errors import CorruptRecordError, NotALogDirError, StorageError
from ..filesystem.port import File, FileSystem
from ..format.constants import HEADER_UP_TO_MAGIC, INT32_MAX, LENGTH_AT, LOG_OVERHEAD
from ..format.tables import BatchHeaders, Bytes

WINDOW_BYTES = 1 << 20  # per read; a larger batch is read whole
HEADERS_WINDOW_BYTES = 1 << 22  # if no records are shown, so that a window gives few lines
WHOLE_OR_TORN = (formats.StopReason.END, formats.StopReason.TRUNCATED)
ENTRY_LENGTH_MIN = 14  # of the length field: the smallest message of magic 0

_LENGTH_TO_DELTA = struct.Struct(">i4xb6xi")  # from the length field: length, magic, last offset delta (magic 2)
_HEADER_READ_BYTES = LENGTH_AT + _LENGTH_TO_DELTA.size


class Window(NamedTuple):
    """Consecutive whole batches in a file."""

    position: int  # in the file, of the first byte in the buffer
    buffer: Bytes
    headers: BatchHeaders


@contextmanager
def opened(filesystem: FileSystem, path: str) -> Iterator[File]:
    """A context with the file at ``path``, open for reading. Raises StorageError if it cannot be read."""
    try:
        with filesystem.open(path, "read") as file:
            yield file
    except FileNotFoundError:
        raise StorageError(f"{path}: there is no such file") from None
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from error


def base_offset_of(path: str) -> int:
    """Returns the number at the beginning of a file's name. Raises NotALogDirError if there is none."""
    stem = path.rpartition("/")[2].partition(".")[0]
    if not (stem.isascii() and stem.isdigit()):
        raise NotALogDirError(f"{path}: a segment's file is named after its base offset: 00000000000000000000.log")
    return int(stem)


def sibling(path: str, suffix: str) -> str:
    """Returns the path of the same segment's file with another suffix."""
    directory, slash, name = path.rpartition("/")
    return directory + slash + name.partition(".")[0] + suffix


def windows(file: File, end: int, window_bytes: int) -> Iterator[Window]:
    """Yields the whole batches in ``file`` up to position ``end``, about ``window_bytes`` at a time.

    Like Kafka's file reader, ends silently if the rest is no whole batch. Raises CorruptRecordError, with path and
    position, for an invalid length or magic, after yielding the batches before it.
    """
    position, wanted = 0, window_bytes
    while position < end:
        buffer = np.frombuffer(file.read(position, min(wanted, end - position)), dtype=np.uint8)
        scan = formats.scan(buffer)
        if len(scan.headers):
            yield Window(position, buffer, scan.headers)
        if scan.reason not in WHOLE_OR_TORN:
            raise formats.stop_error(scan, buffer).located(file.path, position)
        if scan.end:
            position, wanted = position + scan.end, window_bytes
            continue
        size = _size_of_first(buffer)
        if size <= len(buffer) or position + size > end:
            return  # a torn tail
        wanted = size


def _size_of_first(buffer: Bytes) -> int:
    """Returns the size of the batch at the beginning of ``buffer``; 0 if its length field is not in the buffer."""
    if len(buffer) <= HEADER_UP_TO_MAGIC:
        return 0
    return int.from_bytes(buffer[LENGTH_AT:LOG_OVERHEAD].tobytes(), "big", signed=True) + LOG_OVERHEAD


class BatchAt(NamedTuple):
    """Position, size and last offset of a batch, from its first bytes."""

    position: int
    size: int
    last_offset: int


def batches_from(file: File, position: int, end: int) -> Iterator[BatchAt]:
    """Yields the whole batches from ``position`` to ``end``; reads only the first bytes of each."""
    while position < end - HEADER_UP_TO_MAGIC:
        head = bytes(file.read(position, _HEADER_READ_BYTES)).ljust(_HEADER_READ_BYTES, b"\0")
        offset = int.from_bytes(head[:LENGTH_AT], "big", signed=True)
        length, magic, last_offset_delta = _LENGTH_TO_DELTA.unpack_from(head, LENGTH_AT)
        if length < ENTRY_LENGTH_MIN:
            reason = f"the length field is {length}, below the smallest possible, {ENTRY_LENGTH_MIN}"
            raise CorruptRecordError(reason, path=file.path, position=position)
        if length > end - position - LOG_OVERHEAD:
            return
        yield BatchAt(position, length + LOG_OVERHEAD, offset + last_offset_delta if magic >= 2 else offset)
        position += length + LOG_OVERHEAD


def end_of(file: File, max_bytes: int = INT32_MAX) -> int:
    """Returns the position where a dump of ``file`` ends: its size, or ``max_bytes`` if that is less."""
    return min(file.size(), max_bytes)
