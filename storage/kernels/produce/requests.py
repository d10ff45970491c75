"""Finds the plain Produce requests among the bytes that have arrived at many connections.

:func:`find_requests` takes the bytes of each connection: whole requests, and perhaps the beginning of another one. It
lists the plain requests with their batches, up to the first request that is not plain; other code handles that one and
all after it.

A request is plain if it is a Produce request of version 3 to 11 without tagged fields, that has one batch for each of a
few partitions, all of them in the table; if its batches are transactional exactly if it has a transactional id; and if
the log stores each batch unchanged. The caller checks the checksum, the records of compressed batches, whether the
transaction is open, and everything that depends on the log (offsets, sequences, room).

Each table is an array of numbers, with a row for each thing; ``columns`` has its columns.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..arrays import Bytes
from ..canonical import survey
from ..compiling import inlined, jit
from ..scan import read_i32, read_i64
from .columns import (
    ACKS,
    AFTER_MS,
    AT,
    BATCH_BYTES_MAX,
    BATCH_FIRST,
    BATCH_STOP,
    BATCHES_MAX,
    BEFORE_MS,
    CODEC,
    CODECS,
    CORRELATION,
    CRC,
    END,
    EPOCH,
    FLEXIBLE_FROM,
    FRAME_BYTES_MAX,
    FRAME_BYTES_MIN,
    FRAME_END,
    FRAME_FIRST,
    FRAME_STOP,
    FRAMES_MAX,
    FULL,
    HEADER_BYTES,
    ID_AT,
    ID_BYTES,
    ID_BYTES_MAX,
    LATEST,
    MAX_TIMESTAMP,
    NAME_AT,
    NAME_BYTES,
    NEEDS_KEYS,
    NUMBER,
    OPENS,
    OTHER,
    P_NUMBER,
    P_TOPIC_BYTES,
    PART,
    PARTIAL,
    PRODUCER,
    RECORDS,
    SEQUENCE,
    SIZE,
    SMALLEST,
    START,
    STATE,
    STOP,
    TOPIC_AT,
    TOPIC_BYTES,
    TOPIC_BYTES_MAX,
    TRANSACTIONAL,
    VERSION,
    ZSTD,
    ZSTD_FROM,
)

Table = npt.NDArray[np.int64]

_LEFT = -1  # in place of a number of batches


@inlined
def _hash(source: Bytes, start: int, size: int, number: int) -> int:
    found = (np.int64(number) + 2166136261) & 0xFFFFFFFF
    for i in range(size):
        found = ((found ^ np.int64(source[start + i])) * 16777619) & 0xFFFFFFFF
    return found ^ (found >> 15)


def bucket_of(source: Bytes, start: int, size: int, number: int, buckets: Table) -> int:
    """Returns where the search for a partition begins. Plain Python: it is called once for each partition."""
    return int(getattr(_hash, "py_func", _hash)(source, start, size, number)) & (len(buckets) - 1)


@jit
def _are_same(one: Bytes, at: int, other: Bytes, other_at: int, size: int) -> bool:
    same = 0
    while same < size and one[at + same] == other[other_at + same]:
        same += 1
    return same == size


@jit
def find_partition(
    source: Bytes, start: int, size: int, number: int, names: Bytes, buckets: Table, partitions: Table
) -> int:
    """Returns the row of a partition, by the bytes of its topic's name; -1: it is not in the table."""
    mask = len(buckets) - 1
    at = _hash(source, start, size, number) & mask
    while buckets[at] != 0:
        row = buckets[at] - 1
        is_alike = partitions[row, P_NUMBER] == number and partitions[row, P_TOPIC_BYTES] == size
        if is_alike and _are_same(names[row], 0, source, start, size):
            return row
        at = (at + 1) & mask
    return np.int64(-1)


@jit
def find_requests(
    count: int,
    now_ms: int,
    received: Bytes,
    connections: Table,
    frames: Table,
    batches: Table,
    names: Bytes,
    buckets: Table,
    partitions: Table,
) -> int:
    """Lists the plain requests of the first ``count`` connections, and their batches; returns the number of batches."""
    frame, row = np.int64(0), np.int64(0)
    for c in range(count):
        at, end = connections[c, START], connections[c, END]
        connections[c, FRAME_FIRST], connections[c, NAME_BYTES] = frame, 0
        connections[c, STATE] = PARTIAL
        while end - at >= 4:
            length = read_i32(received, at)
            if length < FRAME_BYTES_MIN or length > FRAME_BYTES_MAX:
                connections[c, STATE] = OTHER
                break
            if end - at - 4 < length:
                break
            is_full = frame - connections[c, FRAME_FIRST] >= connections[c, FRAMES_MAX]
            if is_full or frame == len(frames) or len(batches) - row < BATCHES_MAX:
                connections[c, STATE] = FULL
                break
            stop = at + 4 + length
            found = _check_request(
                received, at + 4, stop, now_ms, connections, c, frames, frame, batches, row, names, buckets, partitions
            )
            if found < 0:
                connections[c, STATE] = OTHER
                break
            frame, row, at = frame + 1, found, stop
        connections[c, FRAME_STOP], connections[c, STOP] = frame, at
    return row


@jit
def find_request(
    now_ms: int,
    received: Bytes,
    connections: Table,
    frames: Table,
    batches: Table,
    names: Bytes,
    buckets: Table,
    partitions: Table,
) -> int:
    """Lists one request, of any size and without its length, if it is plain; returns the number of its batches."""
    stop = len(received)
    connections[0, START], connections[0, END], connections[0, FRAMES_MAX] = 0, stop, 1
    connections[0, FRAME_FIRST], connections[0, NAME_BYTES] = 0, 0
    found = _check_request(received, 0, stop, now_ms, connections, 0, frames, 0, batches, 0, names, buckets, partitions)
    is_plain = found > 0
    connections[0, FRAME_STOP], connections[0, STOP] = is_plain, stop if is_plain else 0
    connections[0, STATE] = PARTIAL if is_plain else OTHER
    return max(found, np.int64(0))


@jit
def _check_request(
    source: Bytes,
    start: int,
    stop: int,
    now_ms: int,
    connections: Table,
    connection: int,
    frames: Table,
    frame: int,
    batches: Table,
    first: int,
    names: Bytes,
    buckets: Table,
    partitions: Table,
) -> int:
    """Checks the request in ``source[start:stop]``, and lists its batches from ``first`` on.

    Returns the number of the batch after them; negative: the request is not plain.
    """
    version, id_at, id_bytes, body = _check_header(source, start, stop)
    is_flexible = version >= FLEXIBLE_FROM
    topics, at = _read_count(source, body, stop, is_flexible)
    row = np.int64(first)
    for _ in range(topics):
        size, at = _read_name(source, at, stop, is_flexible)
        name, opens = at, row
        count, at = _read_count(source, at + size if at >= 0 else at, stop, is_flexible)
        if at < 0 or count < 1 or count > BATCHES_MAX - (row - first):
            return np.int64(_LEFT)
        for _ in range(count):
            number, records, bytes_, at = _read_partition(source, at, stop, is_flexible)
            if at < 0:
                return np.int64(_LEFT)
            part = find_partition(source, name, size, number, names, buckets, partitions)
            if part < 0:
                connections[connection, NAME_AT], connections[connection, NAME_BYTES] = name, size
                connections[connection, NUMBER] = number
                return np.int64(_LEFT)
            kind = np.int64(TRANSACTIONAL) if id_bytes else np.int64(0)
            if not _check_batch(source, records, bytes_, version, kind, now_ms, partitions, part, batches, row):
                return np.int64(_LEFT)
            batches[row, PART], batches[row, TOPIC_AT], batches[row, TOPIC_BYTES] = part, name, size
            batches[row, OPENS] = count if row == opens else 0
            row += 1
        if is_flexible:
            at = _after_no_tags(source, at, stop)
    if is_flexible:
        at = _after_no_tags(source, at, stop)
    if at != stop or row == first or _has_repetition(source, batches, first, row):
        return np.int64(_LEFT)
    frames[frame, FRAME_END], frames[frame, VERSION] = stop, version
    frames[frame, CORRELATION] = read_i32(source, start + 4)
    frames[frame, ID_AT], frames[frame, ID_BYTES] = id_at, id_bytes
    frames[frame, ACKS] = _read_i16(source, body - 6)
    frames[frame, BATCH_FIRST], frames[frame, BATCH_STOP] = first, row
    return row


@jit
def _check_header(source: Bytes, start: int, stop: int) -> tuple[int, int, int, int]:
    """Reads up to the timeout; returns the version, where the transactional id is and how long, and what follows.

    An id of no bytes is none. The last one is negative if the request is not plain.
    """
    none = np.int64(0)
    version = _read_i16(source, start + 2)
    client = _read_i16(source, start + 8)
    at = start + 10 + max(client, 0)
    if _read_i16(source, start) != 0 or version < 3 or version > 11 or client < -1 or at + 10 > stop:
        return none, none, none, np.int64(_LEFT)
    for i in range(start + 10, at):
        if source[i] >= 0x80:  # for others to decode
            return version, none, none, np.int64(_LEFT)
    if version >= FLEXIBLE_FROM:
        if source[at] != 0:  # tags
            return version, none, none, np.int64(_LEFT)
        size, at = _read_uvarint(source, at + 1, stop)
        size -= 1
    else:
        size, at = _read_i16(source, at), at + 2
    id_at, at = at, at + max(size, 0)
    if id_at < 0 or size < -1 or size == 0 or size > ID_BYTES_MAX or at + 6 > stop:
        return version, none, none, np.int64(_LEFT)
    for i in range(id_at, at):
        if source[i] >= 0x80:
            return version, none, none, np.int64(_LEFT)
    if _read_i16(source, at) not in (-1, 0, 1):  # acks
        return version, none, none, np.int64(_LEFT)
    return version, id_at, max(size, np.int64(0)), at + 6


@jit
def _read_partition(source: Bytes, at: int, stop: int, is_flexible: bool) -> tuple[int, int, int, int]:
    """Reads a partition of a request: its number, where its records begin, how many bytes they have, and what follows.

    The last one is negative if the request is not plain.
    """
    if at < 0 or at + 8 > stop:
        return np.int64(0), np.int64(0), np.int64(0), np.int64(_LEFT)
    number = read_i32(source, at)
    if is_flexible:
        size, records = _read_uvarint(source, at + 4, stop)
        size -= 1
    else:
        size, records = read_i32(source, at + 4), at + 8
    if records < 0 or size <= HEADER_BYTES or size > stop - records:
        return number, np.int64(0), np.int64(0), np.int64(_LEFT)
    after = records + size
    if is_flexible:
        after = _after_no_tags(source, after, stop)
    return number, records, size, after


@jit
def _has_repetition(source: Bytes, batches: Table, first: int, stop: int) -> bool:
    """Whether a request names a partition or a topic twice; its answer can have each topic only once."""
    for row in range(first + 1, stop):
        for before in range(first, row):
            if batches[before, PART] == batches[row, PART]:
                return True
            size = batches[row, TOPIC_BYTES]
            is_alike = batches[row, OPENS] > 0 and batches[before, OPENS] > 0 and batches[before, TOPIC_BYTES] == size
            if is_alike and _are_same(source, batches[before, TOPIC_AT], source, batches[row, TOPIC_AT], size):
                return True
    return False


@jit
def _check_batch(
    source: Bytes,
    at: int,
    size: int,
    version: int,
    kind: int,
    now_ms: int,
    partitions: Table,
    part: int,
    batches: Table,
    row: int,
) -> bool:
    """Whether the log stores a batch unchanged, like ``writing.check_batch``.

    Does not check its checksum, nor the records and times of a compressed batch. ``kind``: the required attributes,
    except the codec.
    """
    records, codec = read_i32(source, at + 57), _read_i16(source, at + 21) - kind
    if codec < 0 or codec > ZSTD or (codec == ZSTD and version < ZSTD_FROM):
        return False
    if (
        not partitions[part, CODECS] >> codec & 1
        or size > partitions[part, BATCH_BYTES_MAX]
        or source[at + 16] != 2
        or read_i64(source, at) != 0
        or read_i32(source, at + 8) != size - 12
        or records <= 0
        or read_i32(source, at + 23) != records - 1
    ):
        return False
    producer, epoch, sequence = read_i64(source, at + 43), _read_i16(source, at + 51), read_i32(source, at + 53)
    has_none = kind == 0 and producer == -1 and epoch == -1 and sequence == -1
    if not has_none and (producer < 0 or epoch < 0 or sequence < 0):
        return False
    if codec == 0 and not _check_records(source, at, size, now_ms, partitions, part, batches, row):
        return False
    batches[row, AT], batches[row, SIZE], batches[row, RECORDS] = at, size, records
    batches[row, MAX_TIMESTAMP], batches[row, PRODUCER] = read_i64(source, at + 35), producer
    batches[row, EPOCH], batches[row, SEQUENCE], batches[row, CODEC] = epoch, sequence, codec
    batches[row, CRC] = read_i32(source, at + 17) & 0xFFFFFFFF
    return True


@jit
def _check_records(
    source: Bytes, at: int, size: int, now_ms: int, partitions: Table, part: int, batches: Table, row: int
) -> bool:
    """Whether the log stores the records of an uncompressed batch unchanged; notes their smallest time."""
    records, stop, largest = read_i32(source, at + 57), at + size, read_i64(source, at + 35)
    end, index, found, smallest, keyless = survey(
        source, at + HEADER_BYTES, stop, np.int64(0), records, read_i64(source, at + 27)
    )
    if end != stop or index != records or found != largest or (keyless > 0 and partitions[part, NEEDS_KEYS] != 0):
        return False
    batches[row, SMALLEST] = smallest
    earliest = max(now_ms - partitions[part, BEFORE_MS], np.int64(0))
    after_ms = partitions[part, AFTER_MS]
    latest = np.int64(LATEST) if after_ms > LATEST - now_ms else now_ms + after_ms
    return smallest >= earliest and largest <= latest


@inlined
def _read_i16(source: Bytes, at: int) -> int:
    raw = (np.int64(source[at]) << 8) | np.int64(source[at + 1])
    return raw - ((raw & 0x8000) << 1)


@jit
def _read_uvarint(source: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Reads an unsigned number of up to four bytes, and the position after it; that is negative if there is none."""
    value = np.int64(0)
    for i in range(4):
        if at < 0 or at + i >= stop:
            return np.int64(0), np.int64(_LEFT)
        byte = np.int64(source[at + i])
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value, at + i + 1
    return np.int64(0), np.int64(_LEFT)


@jit
def _read_count(source: Bytes, at: int, stop: int, is_flexible: bool) -> tuple[int, int]:
    """Reads the number of elements of an array, and the position after it; that is negative if there is none."""
    if is_flexible:
        count, at = _read_uvarint(source, at, stop)
        return count - 1, at
    if at < 0 or at + 4 > stop:
        return np.int64(0), np.int64(_LEFT)
    return read_i32(source, at), at + 4


@jit
def _read_name(source: Bytes, at: int, stop: int, is_flexible: bool) -> tuple[int, int]:
    """Reads the length of a topic's name, and where it begins; that is negative if there is no such name."""
    if is_flexible:
        size, at = _read_uvarint(source, at, stop)
        size -= 1
    elif at < 0 or at + 2 > stop:
        return np.int64(0), np.int64(_LEFT)
    else:
        size, at = _read_i16(source, at), at + 2
    if at < 0 or size < 1 or size > TOPIC_BYTES_MAX or size > stop - at:
        return np.int64(0), np.int64(_LEFT)
    return size, at


@inlined
def _after_no_tags(source: Bytes, at: int, stop: int) -> int:
    return at + 1 if 0 <= at < stop and source[at] == 0 else np.int64(_LEFT)
