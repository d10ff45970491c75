"""The file of a key filter: whether a segment may have a record with a key.

A filter says nothing about other segments, and nothing once its segment has changed. Therefore it names the file that
it was made from by base offset, size, time and inode (on an object store, by the name of the object), and is believed
only beside that file. A copy of a directory has other inodes: there, filters are made again.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Self

import numpy as np

from ..errors import CorruptionError
from ..filesystem.port import FileStatus
from ..format.checksums import crc32c
from ..format.tables import Bytes
from ..kernels import frozen
from ..kernels.finding import key_filter as kernel

MAGIC = b"KEYFLTR2"
LAYOUT = np.dtype(
    [                               # byte  meaning
        ("magic", "S8"),            #  0    with the version of this layout
        ("crc", ">u4"),             #  8    CRC-32C of everything after it
        ("rounds", "u1"),           # 12    bits that are set for a key
        ("reserved", "V3"),         # 13
        ("base_offset", ">i8"),     # 16    of the segment, as in its name
        ("log_size", ">i8"),        # 24    bytes of the .log
        ("log_modified_ms", ">i8"), # 32    its modification time
        ("log_inode", ">u8"),       # 40
        ("keys", ">i8"),            # 48    distinct keys
        ("next_offset", ">i8"),     # 56    behind the last batch; a log without holes goes on there
    ]
)  # fmt: skip
HEADER = struct.Struct(">8sIB3xqqqQqq")  # the same, for one file
CHECKED_FROM = 12
BITS_PER_KEY = 12  # of the whole file, from 128 keys on
ROUNDS = 8  # the best number for 12 bits: 3 of 1,000 absent keys seem to be there
BITS_BYTES_MIN = 16
KEYS_MAX = 1 << 24  # a segment with more gets no filter: its hashes are in memory while the filter is made
_LOW_64 = 2**64 - 1
FILE_BYTES_MAX = KEYS_MAX * BITS_PER_KEY // 8 + LAYOUT.itemsize


class SegmentId(NamedTuple):
    """What a filter was made from: the ``.log`` of a segment, which is another file once it is replaced."""

    base_offset: int
    size: int
    modified_ms: int
    inode: int

    @classmethod
    def of(cls, base_offset: int, status: FileStatus) -> Self:
        return cls(base_offset, *status[:3])


class KeyHash(NamedTuple):
    """The two hashes of a key from which the positions of its bits follow."""

    first: int
    step: int

    @classmethod
    def of(cls, key: bytes) -> Self:
        first = kernel.hash_of(key)
        return cls(first, kernel.step_of(first))


class KeyFilter(NamedTuple):
    """A Bloom filter of the keys in a segment."""

    segment: SegmentId
    keys: int  # distinct ones
    next_offset: int  # behind the last batch
    rounds: int
    bits: Bytes

    @classmethod
    def of(cls, segment: SegmentId, hashes: kernel.Uint64s, next_offset: int) -> Self:
        """Returns the filter of keys with these distinct hashes, in a segment that ends before ``next_offset``."""
        size = len(hashes) * BITS_PER_KEY // 8 - LAYOUT.itemsize
        bits = np.zeros(max(size, len(hashes), BITS_BYTES_MIN), dtype=np.uint8)  # of few keys, 8 bits a key
        kernel.add_all(bits, frozen(hashes), ROUNDS)
        return cls(segment, len(hashes), next_offset, ROUNDS, bits)

    def may_hold(self, hashes: kernel.Uint64s) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Returns for each hash of a key whether the segment may have a record with that key."""
        found = np.empty(len(hashes), dtype=np.bool_)
        kernel.holds(frozen(self.bits), frozen(hashes), self.rounds, found)
        return found

    def may_hold_one(self, key: KeyHash) -> bool:
        """Whether the segment may have a record with this key; for an absent one, few bits are read."""
        bits, at, count = self.bits.data, key.first, 8 * len(self.bits)
        for _ in range(self.rounds):
            position = at % count
            if not bits[position >> 3] >> (position & 7) & 1:
                return False
            at = (at + key.step) & _LOW_64
        return True

    def encode(self) -> bytes:
        """Returns the content of the file."""
        header = np.zeros(1, dtype=LAYOUT)
        header["magic"], header["rounds"], header["keys"] = MAGIC, self.rounds, self.keys
        header["base_offset"], header["log_size"] = self.segment.base_offset, self.segment.size
        header["next_offset"] = self.next_offset
        header["log_modified_ms"], header["log_inode"] = self.segment.modified_ms, self.segment.inode
        data = bytearray(header.tobytes() + self.bits.tobytes())
        data[8:CHECKED_FROM] = crc32c(memoryview(data)[CHECKED_FROM:]).to_bytes(4, "big")
        return bytes(data)


def decode(data: bytes | memoryview, path: str) -> KeyFilter:
    """Returns the filter in a file. Raises CorruptionError for one that is damaged or of another version."""
    if len(data) < LAYOUT.itemsize + 1 or bytes(data[: len(MAGIC)]) != MAGIC:
        raise CorruptionError("not a key filter of this version", path=path)
    _, crc, rounds, *segment, keys, next_offset = HEADER.unpack_from(data)
    if crc32c(memoryview(data)[CHECKED_FROM:]) != crc:
        raise CorruptionError("the key filter does not match its checksum", path=path)
    bits = np.frombuffer(data, dtype=np.uint8, offset=LAYOUT.itemsize)
    return KeyFilter(SegmentId(*segment), keys, next_offset, rounds, bits)
