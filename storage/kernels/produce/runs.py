"""Gives the batches of requests that follow each other their offsets, for the tables of ``requests``."""

from __future__ import annotations

from ..arrays import Bytes
from ..compiling import jit
from .answers import put
from .columns import (
    AT,
    BATCH_FIRST,
    BATCH_STOP,
    EPOCH,
    ID_BYTES,
    IS_WHOLE,
    LOG_START,
    MAX_TIMESTAMP,
    OFFSET,
    PART,
    PRODUCER,
    RECORDS,
    SEQUENCE,
    SIZE,
)
from .requests import Table

LEADER_EPOCH_AT = 12  # in a batch
SEQUENCES = 2**31  # after the last one, they begin with 0


@jit
def take_run(
    received: Bytes,
    frames: Table,
    batches: Table,
    frame: int,
    stop: int,
    end_offset: int,
    offset_max: int,
    bytes_left: int,
    entries_left: int,
    since_entry: int,
    interval: int,
    latest_ms: int,
    leader_epoch: int,
    log_start: int,
) -> tuple[int, int, int, int]:
    """Takes requests from ``frame`` on that have one batch each, of the same producer for the same partition.

    Ends before ``stop``, or before the first that is otherwise, has no right checksum or sequence, or that the segment
    has no room for. The sequence of the first is right. Returns how many were taken, the offset after them, and what
    is left of ``entries_left`` and ``since_entry``.
    """
    first, count = frames[frame, BATCH_FIRST], 0
    part, producer, epoch, sequence = (
        batches[first, PART],
        batches[first, PRODUCER],
        batches[first, EPOCH],
        batches[first, SEQUENCE],
    )
    while frame + count < stop:
        row, at = first + count, batches[first + count, AT]
        size, last_offset = batches[row, SIZE], end_offset + batches[row, RECORDS] - 1
        if (
            frames[frame + count, BATCH_STOP] != row + 1
            or frames[frame + count, ID_BYTES] != 0
            or batches[row, PART] != part
            or batches[row, PRODUCER] != producer
            or batches[row, EPOCH] != epoch
            or (producer >= 0 and batches[row, SEQUENCE] != sequence)
            or batches[row, IS_WHOLE] == 0
            or size > bytes_left
            or last_offset > offset_max
            or entries_left == 0
            or batches[row, MAX_TIMESTAMP] > latest_ms
        ):
            break
        put(received, at, end_offset, 8)
        put(received, at + LEADER_EPOCH_AT, leader_epoch, 4)
        batches[row, OFFSET], batches[row, LOG_START] = end_offset, log_start
        if since_entry > interval:
            since_entry, entries_left = 0, entries_left - 1
        since_entry, bytes_left = since_entry + size, bytes_left - size
        sequence = (sequence + batches[row, RECORDS]) % SEQUENCES
        end_offset, count = last_offset + 1, count + 1
    return count, end_offset, entries_left, since_entry
