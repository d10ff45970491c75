"""Transfers batches between a log and a broker's log, in both directions.

:func:`append_fetched` follows a broker's partition as its replicas do (Kafka's ReplicaFetcherThread and Partition):
batches keep their offsets, times, producers and markers, and the log end is the only record of its progress.
:func:`producer_batches` are what a producer sends.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import format as formats
from ..format import v2
from ..format.constants import NO_LEADER_EPOCH
from ..format.tables import BatchHeaders, Records
from ..recovery import Origin
from .log import Log


def append_fetched(log: Log, fetched: bytes, fetch_offset: int, log_end_offset: int) -> bool:
    """Append a broker's answer to a fetch at ``fetch_offset``; drops a partial last batch. Synced.

    Returns False, with nothing appended, if the log end is no longer ``log_end_offset``, the one at the time of the
    request: another process follows the broker too.

    A broker whose log begins inside a batch sends the whole batch. An empty log then begins with it, and its log start
    moves up to ``fetch_offset``; a crash in between leaves some records that the broker would not show. Raises
    UnexpectedAppendOffsetError if a non-empty log ends inside a batch of the broker, and otherwise as
    :meth:`Log.append`.
    """
    buffer = np.frombuffer(fetched, dtype=np.uint8)
    headers = formats.scan(buffer, batches_max=1).headers
    with log.exclusively():
        if log.log_end_offset != log_end_offset:
            return False
        first = int(headers.table["base_offset"][0]) if len(headers) else fetch_offset
        begins_inside = first < fetch_offset and log.log_start_offset == log_end_offset
        if begins_inside:
            log.truncate_fully_and_start_at(first)
        log.append(buffer, origin=Origin.REPLICATION)
        if begins_inside and log.context.config.delete:
            log.delete_records(fetch_offset)
    return True


def begin_at(log: Log, offset: int) -> bool:
    """Let a log that never held anything begin at ``offset``; returns False, unchanged, if it has held something.

    After retention has deleted everything, the leader epoch is still known.
    """
    with log.exclusively():
        is_new = log.log_start_offset == log.log_end_offset and log.epochs.latest is None
        if is_new:
            log.truncate_fully_and_start_at(offset)
    return is_new


def fetched_records(fetched: bytes) -> Records:
    """The records of the whole batches in an answer, including transactional ones. Raises CorruptRecordError."""
    buffer = np.frombuffer(fetched, dtype=np.uint8)
    headers = formats.scan(buffer).headers
    formats.verify(buffer, headers)
    data = BatchHeaders(headers.table[~headers.is_control])
    return formats.decode(buffer, data).records


def producer_batches(records: Records, fields: v2.BatchFields, *, batch_bytes_max: int) -> Iterator[tuple[bytes, int]]:
    """Batches for produce requests, each with offsets from 0, and the number of records in each."""
    buffer, headers = v2.encode_batches(records, fields, batch_bytes_max=batch_bytes_max)
    for row in range(len(headers)):
        (batch,) = v2.stamp(buffer, headers[row : row + 1], base_offset=0, leader_epoch=NO_LEADER_EPOCH).table
        start, end = int(batch["position"]), int(batch["position"] + batch["size"])
        yield buffer[start:end].tobytes(), int(batch["count"])
