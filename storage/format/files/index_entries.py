"""Entries of ``.index``, ``.timeindex`` and ``.txnindex``.

The files hold nothing but sorted entries, without a header or a checksum. Decoded arrays are in native byte order;
encoded ones have the byte order of the files.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from ...errors import CorruptIndexError
from ...filesystem.port import Buffer
from ..constants import INT32_MAX
from ..tables import Int64s

# Nothing in these layouts may change.
OFFSET_ENTRY = np.dtype(
    [  #                            byte  meaning
        ("relative_offset", ">i4"),  # 0   last offset of a batch, above the segment's base offset
        ("position", ">i4"),  #        4   first byte of that batch in the .log
    ]
)
assert OFFSET_ENTRY.itemsize == 8
_OFFSET_ENTRY = struct.Struct(">ii")

TIME_ENTRY = np.dtype(
    [  #                            byte  meaning
        ("timestamp", ">i8"),  #       0   ms: no record up to the offset has a later one
        ("relative_offset", ">i4"),  # 8   last offset of the first batch that reached the timestamp, above the base
    ]
)
assert TIME_ENTRY.itemsize == 12
_TIME_ENTRY = struct.Struct(">qi")

TXN_ENTRY = np.dtype(
    [  #                              byte  meaning
        ("version", ">i2"),  #            0  0
        ("producer_id", ">i8"),  #        2
        ("first_offset", ">i8"),  #      10  first data record of the transaction
        ("last_offset", ">i8"),  #       18  the ABORT marker
        ("last_stable_offset", ">i8"),  # 26  last stable offset when the marker was appended
    ]
)
assert TXN_ENTRY.itemsize == 34

TXN_VERSION = 0


@dataclass(frozen=True, slots=True)
class AbortedTxn:
    """An aborted transaction, as recorded in a ``.txnindex``."""

    producer_id: int
    first_offset: int
    last_offset: int  # of the ABORT marker
    last_stable_offset: int

    def __str__(self) -> str:
        return (
            f"the aborted transaction of producer {self.producer_id}, offsets {self.first_offset} to "
            f"{self.last_offset}, last stable offset {self.last_stable_offset}"
        )


def encode_offset_entries(base_offset: int, offsets: Int64s, positions: Int64s) -> bytes:
    """Returns the bytes of entries for batches that end with ``offsets`` and begin at ``positions``, shape (n,).

    Positions are below 2^31: a segment never grows beyond that.
    """
    entries = np.empty(len(offsets), dtype=OFFSET_ENTRY)
    entries["relative_offset"] = offsets - base_offset
    entries["position"] = positions
    return entries.tobytes()


def encode_offset_entry(base_offset: int, offset: int, position: int) -> bytes:
    """Returns the bytes of one entry: see :func:`encode_offset_entries`."""
    return _OFFSET_ENTRY.pack(offset - base_offset, position)


def decode_offset_entries(base_offset: int, data: Buffer) -> tuple[Int64s, Int64s]:
    """Returns (offsets, positions), each of shape (n,), native int64; ignores bytes after the last whole entry."""
    entries = np.frombuffer(data, dtype=OFFSET_ENTRY, count=len(data) // OFFSET_ENTRY.itemsize)
    return entries["relative_offset"].astype(np.int64) + base_offset, entries["position"].astype(np.int64)


def encode_time_entries(base_offset: int, timestamps: Int64s, offsets: Int64s) -> bytes:
    """Returns the bytes of entries; in each, no record up to the offset is later than the timestamp (ms).

    ``timestamps`` and ``offsets`` have shape (n,).
    """
    entries = np.empty(len(offsets), dtype=TIME_ENTRY)
    entries["timestamp"] = timestamps
    entries["relative_offset"] = offsets - base_offset
    return entries.tobytes()


def encode_time_entry(base_offset: int, timestamp: int, offset: int) -> bytes:
    """Returns the bytes of one entry: see :func:`encode_time_entries`."""
    return _TIME_ENTRY.pack(timestamp, offset - base_offset)


def decode_time_entries(base_offset: int, data: Buffer) -> tuple[Int64s, Int64s]:
    """Returns (timestamps, offsets), each of shape (n,), native int64; ignores bytes after the last whole entry."""
    entries = np.frombuffer(data, dtype=TIME_ENTRY, count=len(data) // TIME_ENTRY.itemsize)
    return entries["timestamp"].astype(np.int64), entries["relative_offset"].astype(np.int64) + base_offset


def encode_aborted(transactions: list[AbortedTxn]) -> bytes:
    """Returns the bytes of a ``.txnindex`` with an entry for each of ``transactions``."""
    rows = [(TXN_VERSION, t.producer_id, t.first_offset, t.last_offset, t.last_stable_offset) for t in transactions]
    return np.array(rows, dtype=TXN_ENTRY).tobytes()


def decode_aborted(data: Buffer) -> list[AbortedTxn]:
    """Returns the entries of a ``.txnindex``; ignores part of an entry at the end, which a crash may leave.

    Raises CorruptIndexError, with the position, for an entry of an unknown version.
    """
    entries = np.frombuffer(data, dtype=TXN_ENTRY, count=len(data) // TXN_ENTRY.itemsize)
    unknown = np.flatnonzero(entries["version"] != TXN_VERSION)
    if len(unknown):
        at = int(unknown[0])
        reason = f"entry {at} has version {int(entries['version'][at])}, but only {TXN_VERSION} is known"
        raise CorruptIndexError(reason, position=at * TXN_ENTRY.itemsize)
    return [AbortedTxn(*row[1:]) for row in entries.tolist()]


def fits(base_offset: int, offset: int) -> bool:
    """Whether a segment with ``base_offset`` can hold ``offset``: it is 0 to 2^31 - 1 above the base."""
    return 0 <= offset - base_offset <= INT32_MAX
