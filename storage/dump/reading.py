"""Reading a segment's files for a dump: as they are, damaged ones too, and never more than a window of them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.errors import CorruptRecordError, NotALogDirError, StorageError
from pyspark_commitlog.storage.filesystem import File, FileSystem
from pyspark_commitlog.storage.format.fields import HEADER_UP_TO_MAGIC, INT32_MAX, LENGTH_AT, LOG_OVERHEAD
from pyspark_commitlog.storage.format.tables import BatchHeaders, Bytes

WINDOW_BYTES = 1 << 20  # read at once; a larger batch is read whole
HEADERS_WINDOW_BYTES = 1 << 22  # where records are not shown, and so a window makes few lines
WHOLE_OR_TORN = (formats.StopReason.END, formats.StopReason.TRUNCATED)
ENTRY_LENGTH_MIN = 14  # of the length field: the smallest message of magic 0

_LENGTH_TO_DELTA = struct.Struct(">i4xb6xi")  # from the length field: length, magic, last offset delta (magic 2)
_HEADER_READ_BYTES = LENGTH_AT + _LENGTH_TO_DELTA.size


class Window(NamedTuple):
    """Whole batches that follow one another in a file."""

    position: int  # in the file, of the first byte of the buffer
    buffer: Bytes
    headers: BatchHeaders


@contextmanager
def opened(filesystem: FileSystem, path: str) -> Iterator[File]:
    """The file at ``path``; StorageError where it cannot be read."""
    try:
        with filesystem.open(path, "read") as file:
            yield file
    except FileNotFoundError:
        raise StorageError(f"{path}: there is no such file") from None
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from error


def base_offset_of(path: str) -> int:
    """The number a file's name begins with; NotALogDirError if it has none."""
    stem = path.rpartition("/")[2].partition(".")[0]
    if not (stem.isascii() and stem.isdigit()):
        raise NotALogDirError(f"{path}: the name of a segment's file is its base offset, as 00000000000000000000.log")
    return int(stem)


def sibling(path: str, suffix: str) -> str:
    """The file of the same segment with another suffix."""
    directory, slash, name = path.rpartition("/")
    return directory + slash + name.partition(".")[0] + suffix


def windows(file: File, end: int, window_bytes: int) -> Iterator[Window]:
    """The whole batches in ``file`` up to position ``end``, of about ``window_bytes`` at a time.

    Ends silently where what is left is no whole batch, as Kafka's file reader does. Raises CorruptRecordError, with
    path and position, where a length or a magic cannot be right; the batches before it have been given by then.
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
    """Bytes of the entry at the beginning of ``buffer``; 0 if it is too short to tell."""
    if len(buffer) <= HEADER_UP_TO_MAGIC:
        return 0
    return int.from_bytes(buffer[LENGTH_AT:LOG_OVERHEAD].tobytes(), "big", signed=True) + LOG_OVERHEAD


class BatchAt(NamedTuple):
    """What the first bytes of a batch tell."""

    position: int
    size: int
    last_offset: int


def batches_from(file: File, position: int, end: int) -> Iterator[BatchAt]:
    """The batches from ``position`` on, by their first bytes only, to the last whole one before ``end``."""
    while position < end - HEADER_UP_TO_MAGIC:
        head = bytes(file.read(position, _HEADER_READ_BYTES)).ljust(_HEADER_READ_BYTES, b"\0")
        offset = int.from_bytes(head[:LENGTH_AT], "big", signed=True)
        length, magic, last_offset_delta = _LENGTH_TO_DELTA.unpack_from(head, LENGTH_AT)
        if length < ENTRY_LENGTH_MIN:
            reason = f"record size {length}, the smallest there can be is {ENTRY_LENGTH_MIN}"
            raise CorruptRecordError(reason, path=file.path, position=position)
        if length > end - position - LOG_OVERHEAD:
            return
        yield BatchAt(position, length + LOG_OVERHEAD, offset + last_offset_delta if magic >= 2 else offset)
        position += length + LOG_OVERHEAD


def end_of(file: File, max_bytes: int = INT32_MAX) -> int:
    """Where a dump of ``file`` ends: its size, or less if less was asked for."""
    return min(file.size(), max_bytes)
