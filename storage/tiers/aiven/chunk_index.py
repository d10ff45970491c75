"""The positions of a segment's chunks in its object (``chunkIndex`` in a manifest), by Aiven's ``ChunkIndex``."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import zstandard

from ...format.tables import Int64s

SIZES_BYTES_MAX = 64 << 20  # limit of an index with variable sizes: a 2 GiB segment in chunks of 512 bytes
_COUNT, _BASE, _LAST = 4, 4, 4  # bytes of the fields


@dataclass(frozen=True)
class ChunkIndex:
    """Chunks of a file, all of one size except the last one, and their sizes in the object."""

    chunk_bytes: int  # of a chunk of the file
    file_bytes: int
    stored: Int64s  # bytes of each chunk in the object, shape (chunks,)

    @cached_property
    def starts(self) -> Int64s:
        """Where each chunk begins in the object, and where the last one ends; shape (chunks + 1,)."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.stored)])

    @property
    def stored_bytes(self) -> int:
        """The size of the object."""
        return int(self.starts[-1])

    def chunks_of(self, position: int, length: int) -> range:
        """Returns the numbers of the chunks that have these bytes of the file, at least one."""
        return range(position // self.chunk_bytes, (position + length - 1) // self.chunk_bytes + 1)

    def size_of(self, chunk: int) -> int:
        """Returns how many bytes of the file a chunk has."""
        return min(self.chunk_bytes, self.file_bytes - chunk * self.chunk_bytes)


def parse_chunk_index(fields: Mapping[str, Any]) -> ChunkIndex:
    """Returns the index in a manifest. Raises ValueError, KeyError or TypeError for one that cannot be right."""
    chunk_bytes, file_bytes = int(fields["originalChunkSize"]), int(fields["originalFileSize"])
    if chunk_bytes <= 0 or file_bytes < 0:
        raise ValueError(f"chunks of {chunk_bytes} bytes, of a file of {file_bytes}")
    count = -(-file_bytes // chunk_bytes)
    if fields["type"] == "fixed":
        stored = np.full(max(count, 1), int(fields["transformedChunkSize"]), np.int64)
        stored[-1] = int(fields["finalTransformedChunkSize"])
    elif fields["type"] == "variable":
        stored = _decoded_sizes(fields["transformedChunks"])
    else:
        raise ValueError(f"an unknown type of chunks: {fields['type']!r}")
    if len(stored) != max(count, 1) or (stored < 0).any():
        raise ValueError(f"sizes of {len(stored)} chunks, where {count} are expected")
    return ChunkIndex(chunk_bytes, file_bytes, stored)


def _decoded_sizes(text: str) -> Int64s:
    """Decodes sizes by ``ChunkSizesBinaryCodec``: count, base, bytes of a difference, differences, last size."""
    try:
        packed = base64.b64decode(text, validate=True)
        data = zstandard.ZstdDecompressor().decompress(packed, max_output_size=SIZES_BYTES_MAX)
    except (binascii.Error, zstandard.ZstdError) as error:
        raise ValueError(f"transformedChunks: {error}") from None
    count = int.from_bytes(data[:_COUNT], "big")
    last = int.from_bytes(data[-_LAST:], "big")
    if count <= 1:
        expected, differences, base = _COUNT + _LAST * count, np.zeros(0, np.int64), 0
    else:
        width, start = data[_COUNT + _BASE], _COUNT + _BASE + 1
        expected, base = start + (count - 1) * width + _LAST, int.from_bytes(data[_COUNT : _COUNT + _BASE], "big")
        digits = np.frombuffer(data, np.uint8)[start : start + (count - 1) * width].astype(np.int64)
        weights = 256 ** np.arange(width)[::-1]
        differences = digits.reshape(count - 1, width) @ weights if len(data) == expected else np.zeros(0, np.int64)
    if len(data) != expected:
        raise ValueError(f"transformedChunks: {len(data)} bytes for {count} sizes")
    return np.concatenate([differences + base, [last] if count else []]).astype(np.int64)
