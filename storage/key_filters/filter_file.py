"""A file of key filters, each of which tells whether a segment may have a record with a key.

A file has the filters of one segment or of several: a table, and after it the bits of one filter after the other. A
filter is valid for its segment only, and no longer once the segment has changed. Therefore it identifies the file that
it was made from by base offset, size, time and inode (on an object store, by the name of the object), and is used only
beside that file. A copy of a directory has other inodes: there, filters are made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ..errors import CorruptionError
from ..filesystem.port import File, FileStatus
from ..format.checksums import crc32c, of_parts
from ..format.tables import Bytes, Int64s
from ..kernels.arrays import frozen
from ..kernels.finding import key_filter as kernel

MAGIC = b"KEYFLTR3"
HEADER = np.dtype(
    [                               # byte  meaning
        ("magic", "S8"),            #  0    with the version of this layout
        ("crc", ">u4"),             #  8    CRC-32C of the number and the table
        ("filters", ">u4"),         # 12    how many rows the table has
    ]
)  # fmt: skip
ROW = np.dtype(
    [                               # byte  meaning
        ("base_offset", ">i8"),     #  0    of the segment, as in its name
        ("log_size", ">i8"),        #  8    bytes of the .log
        ("log_modified_ms", ">i8"), # 16    its modification time
        ("log_inode", ">u8"),       # 24
        ("next_offset", ">i8"),     # 32    behind the last batch; a log without holes goes on there
        ("bytes", ">u4"),           # 40    of its bits
        ("crc", ">u4"),             # 44    CRC-32C of its bits
    ]
)  # fmt: skip
CHECKED_FROM = 12
BITS_PER_KEY = 12  # at most, counting the whole file, for 128 keys or more
BITS_BYTES_MIN = 16
KEYS_MAX = 1 << 24  # a segment with more keys gets no filter, because its hashes are in memory while a filter is made
FILE_BYTES_MAX = 64 << 20  # of a file that is read

_HEAD = HEADER.itemsize


class SegmentId(NamedTuple):
    """The file that a filter was made from: the ``.log`` of a segment, which is another file once it is replaced."""

    base_offset: int
    size: int
    modified_ms: int
    inode: int

    @classmethod
    def of(cls, base_offset: int, status: FileStatus) -> Self:
        return cls(base_offset, *status[:3])


class KeyFilter(NamedTuple):
    """A Bloom filter of the keys in a segment."""

    segment: SegmentId
    next_offset: int  # behind the last batch
    bits: Bytes

    @classmethod
    def of(cls, segment: SegmentId, hashes: kernel.Uint64s, next_offset: int) -> Self:
        """Returns the filter of keys with these distinct hashes, in a segment that ends before ``next_offset``."""
        size = len(hashes) * BITS_PER_KEY // 8 - ROW.itemsize - _HEAD
        bits = np.zeros(max(size, len(hashes), BITS_BYTES_MIN), dtype=np.uint8)  # for a few keys, 8 bits per key
        kernel.add_all(bits, frozen(hashes))
        return cls(segment, next_offset, bits)

    @property
    def size(self) -> int:
        """The bytes that the filter takes in a file."""
        return ROW.itemsize + len(self.bits)

    def holds_all(self, hashes: kernel.Uint64s) -> bool:
        """Whether the segment may have records with all keys that have these hashes."""
        return bool(kernel.holds_all(frozen(self.bits), frozen(hashes)))


def encode(filters: Sequence[KeyFilter]) -> bytes:
    """Returns the content of a file with these filters."""
    table = np.zeros(len(filters), dtype=ROW)
    for row, each in zip(table, filters, strict=True):
        row["base_offset"], row["log_size"], row["log_modified_ms"], row["log_inode"] = each.segment
        row["next_offset"], row["bytes"], row["crc"] = each.next_offset, len(each.bits), crc32c(each.bits)
    head = np.zeros(1, dtype=HEADER)
    head["magic"], head["filters"] = MAGIC, len(filters)
    head["crc"] = _checksum(head, table)
    return b"".join([head.tobytes(), table.tobytes(), *(each.bits.tobytes() for each in filters)])


def _checksum(head: npt.NDArray[np.void], table: npt.NDArray[np.void]) -> int:
    return crc32c(table.tobytes(), crc32c(head.tobytes()[CHECKED_FROM:]))


class FilterFile:
    """An open file of key filters, whose table was read."""

    def __init__(self, file: File) -> None:
        """Raises CorruptionError for a file whose table is damaged, or of another version."""
        self._file, self.path = file, file.path
        head = np.zeros(1, dtype=HEADER)
        data = file.read(0, _HEAD)
        if len(data) == _HEAD:
            head = np.frombuffer(data, dtype=HEADER)
        if head["magic"][0] != MAGIC:
            raise CorruptionError("not a file of key filters of this version", path=self.path)
        size = int(head["filters"][0]) * ROW.itemsize
        data = file.read(_HEAD, size) if _HEAD + size <= file.size() else memoryview(b"")
        self.table = np.frombuffer(data, dtype=ROW)
        if len(data) != size or _checksum(head, self.table) != head["crc"][0]:
            raise CorruptionError("the table of key filters does not match its checksum", path=self.path)
        self._bounds: Int64s = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.table["bytes"], dtype=np.int64)])
        self._bits_at = _HEAD + size
        if self.size > FILE_BYTES_MAX or not self.table["bytes"].all():
            raise CorruptionError("the table of key filters has impossible sizes", path=self.path)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def size(self) -> int:
        """The bytes that the file should have."""
        return self._bits_at + int(self._bounds[-1])

    def row_of(self, base_offset: int) -> int | None:
        """Returns the row of a segment in the table; None if it has none."""
        rows = np.flatnonzero(self.table["base_offset"] == base_offset)
        return int(rows[0]) if len(rows) else None

    def segment(self, row: int) -> SegmentId:
        """Returns the segment that the filter of a row was made from."""
        return SegmentId(*self.table[row].tolist()[:4])

    def filter(self, row: int) -> KeyFilter:
        """Returns the filter of a row. Raises CorruptionError if its bits are damaged."""
        start, end = self._bounds[row : row + 2].tolist()
        bits = np.frombuffer(self._file.read(self._bits_at + start, end - start), dtype=np.uint8)
        if len(bits) != end - start or crc32c(bits) != self.table["crc"][row]:
            what = f"the filter of the segment at offset {self.table['base_offset'][row]} does not match its checksum"
            raise CorruptionError(what, path=self.path)
        return KeyFilter(self.segment(row), int(self.table["next_offset"][row]), bits)

    def lacking(self, hashes: kernel.Uint64s) -> npt.NDArray[np.void]:
        """Returns the rows of the table whose segments have no record with one of these keys.

        Reads the whole file. Ignores a filter with damaged bits.
        """
        bits = np.frombuffer(self._file.read(self._bits_at, int(self._bounds[-1])), dtype=np.uint8)
        lacking = np.zeros(len(self.table), dtype=np.bool_)
        whole = int(np.searchsorted(self._bounds, len(bits), "right")) - 1  # a truncated file has only the first ones
        kernel.find_lacking(frozen(bits), frozen(self._bounds), frozen(hashes), lacking[:whole])
        rows = np.flatnonzero(lacking)
        found = np.array(of_parts(crc32c, bits, self._bounds[rows], self._bounds[rows + 1]), dtype=np.int64)
        sound: npt.NDArray[np.void] = self.table[rows[found == self.table["crc"][rows]]]
        return sound
