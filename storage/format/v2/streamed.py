"""Surveys the records of a compressed batch while they are decompressed, without holding them.

Like :func:`.canonical.survey` over all records, but in the memory of a few chunks, however large the batch is.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from math import inf
from typing import NamedTuple

import lz4.frame
import numpy as np
import zstandard

from ...errors import DecompressedSizeError, InvalidRecordError
from ...kernels import canonical
from ...kernels.arrays import frozen
from ..codecs import lz4_stream, zstd_stream
from ..compression import decompress
from ..constants import INT32_MAX, Codec
from ..tables import Bytes

CHUNK_BYTES = 1 << 20
WINDOW_BYTES_MAX = 1 << 27  # the window of zstd's highest level; Kafka's reader accepts no larger one
LARGE_HEADERS_MAX = 1000  # headers of a record that is larger than a chunk
_GROWTH = {Codec.GZIP: 1032, Codec.SNAPPY: 22, Codec.LZ4: 255}  # at most, by the codec's format
_BARE_BYTES = 1 << 15  # bytes that a codec may add to a small stream
_NOT_CANONICAL = None


class Survey(NamedTuple):
    """Facts about all records of a batch."""

    largest_timestamp: int
    smallest_timestamp: int  # other than -1; ``canonical.LATEST``: none
    keyless: int
    size: int  # of the records, decompressed


def grows_to(codec: int, size: int) -> float:
    """Returns the most bytes that a stream of this many bytes can hold."""
    return size * _GROWTH.get(Codec(codec), inf) + _BARE_BYTES


def survey_stream(codec: int, data: Bytes, count: int, base_timestamp: int, limit: int) -> Survey | None:
    """Returns the survey; None if the records are not canonical, do not decompress, or exceed ``limit`` bytes."""
    try:
        return _Surveying(chunks(codec, data, limit), count, base_timestamp).run()
    except InvalidRecordError:
        return _NOT_CANONICAL


def chunks(codec: int, data: Bytes, limit: int) -> Iterator[Bytes]:
    """Yields the decompressed stream in chunks. Raises InvalidRecordError if it is damaged or exceeds the limit."""
    readers = {Codec.GZIP: _gzip, Codec.LZ4: _lz4, Codec.ZSTD: _zstd}
    if codec not in readers:  # snappy grows by a small factor only
        yield decompress(codec, data, limit=limit)
        return
    size = 0
    try:
        for chunk in readers[Codec(codec)](np.ascontiguousarray(data)):
            size += len(chunk)
            if size > limit:
                raise DecompressedSizeError(f"the stream holds more than the {limit} bytes allowed")
            yield np.frombuffer(chunk, dtype=np.uint8)
    except (zlib.error, RuntimeError, zstandard.ZstdError, EOFError) as error:
        raise InvalidRecordError(f"the stream does not decompress: {error}") from error


def _gzip(data: Bytes) -> Iterator[bytes]:
    rest: bytes | memoryview = memoryview(data)
    while rest:
        member = zlib.decompressobj(31)
        while not member.eof:
            yield (chunk := member.decompress(rest, CHUNK_BYTES))
            rest = member.unconsumed_tail
            if not chunk and not member.eof and not rest:
                raise EOFError("it ends inside a member")
        rest = member.unused_data
        if rest[:3] != b"\x1f\x8b\x08":
            return


def _lz4(data: Bytes) -> Iterator[bytes]:
    _, stop, _ = lz4_stream.measure(data)
    frame = lz4.frame.LZ4FrameDecompressor()
    rest: bytes | memoryview = memoryview(data)[:stop]
    while not frame.eof:
        chunk = frame.decompress(rest, max_length=CHUNK_BYTES)
        rest = b""
        if not chunk and not frame.eof and frame.needs_input:
            raise EOFError("it ends inside the frame")
        yield chunk


def _zstd(data: Bytes) -> Iterator[bytes]:
    raw, at = memoryview(data), 0
    while at < len(raw):  # the library does not distinguish a truncated stream from one that ends
        at, _ = zstd_stream.measure(raw, at, INT32_MAX)
    library = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX)
    with library.stream_reader(raw, read_across_frames=True, closefd=False) as reader:
        while chunk := reader.read(CHUNK_BYTES):
            yield chunk


class _Surveying:
    """One survey; ``_window`` has the decompressed bytes that are not checked yet."""

    def __init__(self, parts: Iterator[Bytes], count: int, base_timestamp: int) -> None:
        self._parts, self._count, self._base_timestamp = parts, count, base_timestamp
        self._window, self._size = np.empty(0, dtype=np.uint8), 0
        self._index, self._keyless = 0, 0
        self._largest, self._smallest = canonical.EARLIEST, canonical.LATEST

    def run(self) -> Survey | None:
        while self._read_on():
            self._survey_window()
            while len(self._window) >= CHUNK_BYTES:
                if not self._passes_large():
                    return _NOT_CANONICAL
                self._survey_window()
        if self._index < self._count or len(self._window):
            return _NOT_CANONICAL
        return Survey(int(self._largest), int(self._smallest), int(self._keyless), self._size)

    def _survey_window(self) -> None:
        """Moves the window to its first record that is not whole, or not canonical."""
        at, index, largest, smallest, keyless = canonical.survey(
            frozen(self._window), 0, len(self._window), self._index, self._count, self._base_timestamp
        )
        self._note(index, largest, smallest, keyless)
        self._window = self._window[at:]

    def _note(self, index: int, largest: int, smallest: int, keyless: int) -> None:
        self._index, self._keyless = index, self._keyless + keyless
        self._largest, self._smallest = max(self._largest, largest), min(self._smallest, smallest)

    def _read_on(self) -> bool:
        """Appends a chunk to the window; returns False at the end of the stream."""
        chunk = next(self._parts, None)
        if chunk is None:
            return False
        self._size += len(chunk)
        self._window = np.concatenate((self._window, chunk)) if len(self._window) else chunk
        return True

    # A record that is larger than the window

    def _passes_large(self) -> bool:
        """Whether the window begins with a canonical record; moves the window to its end."""
        if self._index == self._count:
            return False
        size = self._number()
        end = self._position + size
        if size < 1 or self._byte() != 0:  # the attributes
            return False
        delta, offset = self._number(), self._number()
        key_size = self._number()
        is_fine = offset == self._index and self._skip(key_size, least=-1) and self._skip(self._number(), least=-1)
        header_count = self._number() if is_fine else -1
        if not 0 <= header_count <= LARGE_HEADERS_MAX:
            return False
        if not all(self._skip(self._number()) and self._skip(self._number(), least=-1) for _ in range(header_count)):
            return False
        timestamp = (self._base_timestamp + delta + 2**63) % 2**64 - 2**63
        smallest = canonical.LATEST if timestamp == -1 else timestamp
        self._note(self._index + 1, timestamp, smallest, int(key_size < 0))
        return self._position == end

    @property
    def _position(self) -> int:
        return self._size - len(self._window)

    def _byte(self) -> int:
        """Reads a byte; -1 if the stream ends."""
        if not len(self._window) and not self._read_on():
            return -1
        byte = int(self._window[0])
        self._window = self._window[1:]
        return byte

    def _number(self) -> int:
        """Reads a number; -2, which no field may have, if it is padded or the stream ends."""
        value = 0
        for at in range(10):
            byte = self._byte()
            if byte < 0:
                return -2
            value |= (byte & 0x7F) << 7 * at
            if byte < 0x80:
                return -2 if at and not byte else (value >> 1) ^ -(value & 1)
        return -2

    def _skip(self, size: int, *, least: int = 0) -> bool:
        """Moves over ``size`` bytes; returns False for a size below ``least``, or if there are not as many."""
        if size < least:
            return False
        rest = max(size, 0)
        while rest > len(self._window):
            rest -= len(self._window)
            self._window = self._window[:0]
            if not self._read_on():
                return False
        self._window = self._window[rest:]
        return True
