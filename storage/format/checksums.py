"""The checksums of Kafka's files: CRC-32C from magic 2 on, CRC-32 for older messages."""

from __future__ import annotations

from collections.abc import Callable

from crc32c import crc32c
from fastcrc.crc32 import iso_hdlc as crc32

from .tables import Bytes, Int64s

__all__ = ["crc32", "crc32c", "of_parts"]


def of_parts(checksum: Callable[[memoryview], int], buffer: Bytes, starts: Int64s, ends: Int64s) -> list[int]:
    """Returns the checksum of each ``buffer[start:end]``, shape (parts,), like ``starts`` and ``ends``."""
    view = memoryview(buffer)
    return [checksum(view[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
