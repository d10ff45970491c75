"""Encodes the answers to plain Produce requests, for the tables of ``requests``."""

from __future__ import annotations

import numpy as np

from ..arrays import Bytes
from ..compiling import jit
from ..memory import copy_bytes
from .columns import (
    ACKS,
    ANSWER_AT,
    BATCH_FIRST,
    BATCH_STOP,
    CORRELATION,
    FLEXIBLE_FROM,
    FRAME_FIRST,
    FRAME_STOP,
    LOG_START,
    OFFSET,
    OPENS,
    OUT,
    OUT_STOP,
    P_NUMBER,
    PART,
    TOPIC_AT,
    TOPIC_BYTES,
    VERSION,
)
from .requests import Table

OFFSET_AT = 6  # of a partition's offset among its bytes in an answer, after its number and the error


@jit
def encode_answers(
    count: int, received: Bytes, connections: Table, frames: Table, batches: Table, partitions: Table, out: Bytes
) -> None:
    """Writes the answers to the appended requests of the first ``count`` connections to ``out``.

    Notes where each batch has its offset, from the first answer to its connection on.
    """
    at = np.int64(0)
    for c in range(count):
        connections[c, OUT] = at
        for frame in range(connections[c, FRAME_FIRST], connections[c, FRAME_STOP]):
            if frames[frame, ACKS] != 0:
                at = _put_answer(received, frames, frame, batches, partitions, out, at, connections[c, OUT])
        connections[c, OUT_STOP] = at


@jit
def _put_answer(
    received: Bytes, frames: Table, frame: int, batches: Table, partitions: Table, out: Bytes, start: int, origin: int
) -> int:
    """Writes the answer to one request, with its length; returns the position after it."""
    version, first, stop = frames[frame, VERSION], frames[frame, BATCH_FIRST], frames[frame, BATCH_STOP]
    is_flexible = version >= FLEXIBLE_FROM
    at = put(out, start + 4, frames[frame, CORRELATION], 4)
    if is_flexible:
        at = put(out, at, 0, 1)
    topics = np.int64(0)
    for row in range(first, stop):
        topics += batches[row, OPENS] > 0
    at = _put_count(out, at, topics, is_flexible)
    for row in range(first, stop):
        if batches[row, OPENS] > 0:
            size = batches[row, TOPIC_BYTES]
            at = _put_uvarint(out, at, size + 1) if is_flexible else put(out, at, size, 2)
            copy_bytes(out, at, received, batches[row, TOPIC_AT], size)
            at = _put_count(out, at + size, batches[row, OPENS], is_flexible)
        batches[row, ANSWER_AT] = at + OFFSET_AT - origin
        at = _put_partition(out, at, batches, row, partitions, version)
        if is_flexible and (row + 1 == stop or batches[row + 1, OPENS] > 0):
            at = put(out, at, 0, 1)
    at = put(out, at, 0, 4)  # throttled for no time
    if is_flexible:
        at = put(out, at, 0, 1)
    put(out, start, at - start - 4, 4)
    return at


@jit
def _put_partition(out: Bytes, at: int, batches: Table, row: int, partitions: Table, version: int) -> int:
    at = put(out, at, partitions[batches[row, PART], P_NUMBER], 4)
    at = put(out, at, 0, 2)  # no error
    at = put(out, at, batches[row, OFFSET], 8)
    at = put(out, at, -1, 8)  # the log did not set the time
    if version >= 5:
        at = put(out, at, batches[row, LOG_START], 8)
    if version >= FLEXIBLE_FROM:
        return put(out, at, 1 << 16, 3)  # no errors of records, no message, no tags
    if version >= 8:
        at = put(out, at, 0, 4)
        at = put(out, at, -1, 2)
    return at


@jit
def put(target: Bytes, at: int, value: int, size: int) -> int:
    """Writes a big-endian number of ``size`` bytes; returns the position after it."""
    for i in range(size):
        target[at + i] = (np.int64(value) >> (8 * (size - 1 - i))) & 0xFF
    return at + size


@jit
def _put_uvarint(target: Bytes, at: int, value: int) -> int:
    while value >= 0x80:
        target[at] = (value & 0x7F) | 0x80
        value >>= 7
        at += 1
    target[at] = value
    return at + 1


@jit
def _put_count(target: Bytes, at: int, count: int, is_flexible: bool) -> int:
    return _put_uvarint(target, at, count + 1) if is_flexible else put(target, at, count, 4)
