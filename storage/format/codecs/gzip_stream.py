"""gzip: one member, no name, no time. Reading accepts further members and ignores anything else after a member."""

from __future__ import annotations

import zlib

import numpy as np

from ..tables import Bytes
from .refusals import refuse, too_large

_MEMBER = 31  # zlib's window bits for a gzip member
_START = b"\x1f\x8b\x08"


def compress(data: memoryview, level: int, magic: int) -> bytes:
    """Returns ``data`` as a stream, of batches of format ``magic``."""
    member = zlib.compressobj(level, zlib.DEFLATED, _MEMBER)
    return member.compress(data) + member.flush()


def decompress(data: Bytes, limit: int, _magic: int) -> Bytes:
    """Returns the content of a stream, at most ``limit`` bytes. Raises InvalidRecordError."""
    rest: Bytes | bytes = data
    pieces: list[bytes] = []
    remaining = limit
    while not pieces or rest[:3] == _START:
        member = zlib.decompressobj(_MEMBER)
        try:
            pieces.append(member.decompress(rest, remaining + 1))
        except zlib.error as error:
            refuse("gzip", error)
        remaining -= len(pieces[-1])
        if remaining < 0:
            too_large("gzip", limit)
        if not member.eof:
            refuse("gzip", f"it ends inside a member, after {len(data)} bytes")
        rest = member.unused_data
    return np.frombuffer(pieces[0] if len(pieces) == 1 else b"".join(pieces), dtype=np.uint8)
