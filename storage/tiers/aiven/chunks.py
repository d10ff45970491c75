"""PlainChunks: shows the segments of Aiven's plugin as if they were stored plainly."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import zstandard

from ...bucket.files.parts import PART_BYTES
from ...bucket.stores.port import ListingStore, ObjectFacts
from ...errors import CorruptionError
from .chunk_index import ChunkIndex
from .keys import Keys, decrypted
from .manifest import Manifest

DAMAGED_READS = 3  # a chunk is read this often before it is called damaged


class StoredSegment(NamedTuple):
    """The parameters for decoding the objects of a segment."""

    manifest: Manifest
    key: bytes | None  # None: it is not encrypted

    @property
    def chunks(self) -> ChunkIndex:
        return self.manifest.chunks

    @property
    def part_bytes(self) -> int:
        """How many bytes of the segment to read at once: whole chunks."""
        return max(1, PART_BYTES // self.chunks.chunk_bytes) * self.chunks.chunk_bytes


class PlainChunks:
    """Ranges of segments, decrypted and decompressed, by the key of the ``.log`` object; see ``bucket.ObjectStore``.

    A position is one in the segment. A chunk that cannot be decoded is read again before it counts as damaged, because
    it may have been damaged on its way.
    """

    def __init__(self, store: ListingStore, keys: Keys, segment_of: Callable[[str], StoredSegment]) -> None:
        self._store, self._keys, self._segment_of = store, keys, segment_of

    @property
    def url(self) -> str:
        return self._store.url

    def head(self, key: str) -> ObjectFacts | None:
        """Returns the facts of an object, with the size of the segment.

        Raises CorruptionError if the object has another size than the manifest says.
        """
        facts, chunks = self._store.head(key), self._segment_of(key).chunks
        if facts is None:
            return None
        if facts.size != chunks.stored_bytes:
            raise CorruptionError(
                f"the object has {facts.size} bytes, but its manifest says {chunks.stored_bytes}: restore it",
                path=f"{self.url}/{key}",
            )
        return facts._replace(size=chunks.file_bytes)

    def get_range(self, key: str, start: int, length: int) -> memoryview:
        if not length:
            return memoryview(b"")
        segment = self._segment_of(key)
        chunks = segment.chunks.chunks_of(start, length)
        first = int(segment.chunks.starts[chunks.start])
        stored = int(segment.chunks.starts[chunks.stop]) - first
        for again in range(DAMAGED_READS - 1, -1, -1):
            try:
                return self._decoded(key, segment, chunks, (first, stored), (start, length))
            except CorruptionError:
                if not again:
                    raise
        raise AssertionError

    def _decoded(
        self, key: str, segment: StoredSegment, chunks: range, stored: tuple[int, int], wanted: tuple[int, int]
    ) -> memoryview:
        data, starts = self._store.get_range(key, *stored), segment.chunks.starts
        plain = []
        for chunk in chunks:
            low, high = int(starts[chunk]) - stored[0], int(starts[chunk + 1]) - stored[0]
            try:
                plain.append(decode_chunk(segment, data[low:high], segment.chunks.size_of(chunk)))
            except CorruptionError as error:
                raise CorruptionError(error.reason, path=f"{self.url}/{key}", position=int(starts[chunk])) from None
        whole = memoryview(plain[0] if len(plain) == 1 else b"".join(plain))
        from_ = wanted[0] - chunks.start * segment.chunks.chunk_bytes
        return whole[from_ : from_ + wanted[1]]


def decode_chunk(segment: StoredSegment, data: memoryview, size: int) -> bytes | memoryview:
    """Returns the bytes of a chunk, which must be ``size``. Raises CorruptionError, without the path."""
    encryption = segment.manifest.encryption
    plain: bytes | memoryview = data
    if encryption is not None and segment.key is not None:
        plain = decrypted(segment.key, encryption.aad, data)
    if segment.manifest.is_compressed:
        plain = decompressed(plain, size)
    if len(plain) != size:
        raise CorruptionError(f"the chunk has {len(plain)} bytes, but its manifest says {size}: restore the object")
    return plain


def decompressed(data: bytes | memoryview, size: int) -> bytes:
    """Returns the content of a frame of zstd of at most ``size`` bytes. Raises CorruptionError, without the path."""
    try:
        if zstandard.frame_content_size(data) > size:
            raise CorruptionError(
                f"the chunk has more than the {size} bytes that its manifest says: restore the object"
            )
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=max(size, 1))
    except zstandard.ZstdError as error:
        raise CorruptionError(f"the compressed chunk is damaged ({error}): restore the object") from None
