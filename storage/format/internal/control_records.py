"""Control records: the markers that end transactions, and KRaft's own (Kafka's ControlRecordType)."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from ...errors import InvalidRecordError
from .. import v2
from ..constants import CONTROL_MASK, TRANSACTIONAL_MASK, Codec
from ..record_columns import fill
from ..tables import BatchHeaders, Bytes

KEY_BYTES_MIN = 4  # version i16, type i16
MARKER_VALUE_BYTES_MIN = 6  # version i16, coordinator epoch i32
CONTROL_BYTES_MAX = 2**20  # limit for decompressing a control batch; Kafka never compresses one


class ControlType(IntEnum):
    """The kind of a control record; a number that is not listed counts as UNKNOWN and is ignored."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class MarkerRecord(NamedTuple):
    """The content of a transaction marker."""

    is_commit: bool  # otherwise an abort
    coordinator_epoch: int
    timestamp: int  # ms


def parse_key(key: bytes | None) -> ControlType:
    """Returns the type in a control record's key.

    Raises InvalidRecordError if the key is null, short or of version < 0.
    """
    if key is None or len(key) < KEY_BYTES_MIN:
        raise InvalidRecordError(
            f"the key of a control record has {len(key or b'')} bytes, but needs at least {KEY_BYTES_MIN}"
        )
    version, kind = (int.from_bytes(key[at : at + 2], "big", signed=True) for at in (0, 2))
    if version < 0:
        raise InvalidRecordError(f"the key of a control record has version {version}, which is negative")
    return ControlType(kind) if kind in ControlType.__members__.values() else ControlType.UNKNOWN


def parse_marker_value(value: bytes | None) -> int:
    """Returns the coordinator epoch in a marker's value; newer versions are read like version 0.

    Raises InvalidRecordError for a null, short or malformed value.
    """
    if value is None or len(value) < MARKER_VALUE_BYTES_MIN:
        raise InvalidRecordError(
            f"the value of a marker has {len(value or b'')} bytes, but needs at least {MARKER_VALUE_BYTES_MIN}"
        )
    version = int.from_bytes(value[:2], "big", signed=True)
    if version < 0:
        raise InvalidRecordError(f"the value of a marker has version {version}, which is negative")
    return int.from_bytes(value[2:6], "big", signed=True)


def parse(key: bytes | None, value: bytes | None) -> tuple[ControlType, int | None]:
    """Returns the type of a control record, and the coordinator epoch if it is a COMMIT or ABORT, else None."""
    kind = parse_key(key)
    return kind, parse_marker_value(value) if kind in (ControlType.COMMIT, ControlType.ABORT) else None


def read_marker(buffer: Bytes, headers: BatchHeaders) -> MarkerRecord | None:
    """Returns the marker in one control batch, as :func:`read_markers` does for many."""
    return read_markers(buffer, headers)[0]


def read_markers(buffer: Bytes, headers: BatchHeaders) -> list[MarkerRecord | None]:
    """Returns the marker in each of these control batches; None for empty batches and other control records.

    Raises InvalidRecordError, with its position, for a batch that does not parse, not always the first such batch.
    """
    if len(headers) > 1 and (headers.codec != Codec.NONE).any():  # bounds how much is decompressed at a time
        return [read_marker(buffer, headers[row : row + 1]) for row in range(len(headers))]
    records = fill(v2.parts(buffer, headers, CONTROL_BYTES_MAX), ("key", "value"))
    assert records.keys is not None
    assert records.values is not None
    keys, values, timestamps = records.keys.to_list(), records.values.to_list(), records.timestamps.tolist()
    counts = headers.table["count"]
    found: list[MarkerRecord | None] = []
    for row, (first, count) in enumerate(zip((np.cumsum(counts) - counts).tolist(), counts.tolist(), strict=True)):
        try:
            found.append(_marker(keys[first], values[first], timestamps[first]) if count else None)
        except InvalidRecordError as error:
            raise InvalidRecordError(error.reason, position=int(headers.table["position"][row])) from error
    return found


def _marker(key: bytes | None, value: bytes | None, timestamp: int) -> MarkerRecord | None:
    kind, coordinator_epoch = parse(key, value)
    if coordinator_epoch is None:
        return None
    return MarkerRecord(kind is ControlType.COMMIT, coordinator_epoch, timestamp)


def end_transaction_marker(
    *,
    commit: bool,
    offset: int,
    leader_epoch: int,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
) -> Bytes:
    """Returns the bytes of the batch that ends a transaction: a transaction marker of 78 bytes."""
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    key, value = b"\0\0" + kind.to_bytes(2), b"\0\0" + coordinator_epoch.to_bytes(4, signed=True)
    batch = v2.encode_small(
        [(key, value)],
        timestamp_ms,
        attributes=TRANSACTIONAL_MASK | CONTROL_MASK,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    return np.frombuffer(bytearray().join(v2.placed(memoryview(batch), offset, leader_epoch)), dtype=np.uint8)
