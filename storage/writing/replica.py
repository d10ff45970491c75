"""Transfers batches between a log and a broker's log, in both directions.

:func:`append_fetched` appends what a broker answers to a fetch, as a replica does (Kafka's ReplicaFetcherThread and
Partition): batches keep their offsets, times, producers and markers, and the next fetch begins at the log end.
:func:`producer_batches` encodes records for produce requests.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import format as formats
from ..format import v2
from ..format.constants import NO_LEADER_EPOCH
from ..format.tables import BatchHeaders, Records
from ..recovery.producer_state import Origin
from .log import Log


def append_fetched(log: Log, fetched: bytes, fetch_offset: int, log_end_offset: int) -> bool:
    """Appends a broker's answer to a fetch at ``fetch_offset``, without a partial last batch; synced on return.

    Returns False, with nothing appended, if the log does not end at ``log_end_offset``, its end at the time of the
    request: another process follows the broker too.

    A broker whose log start is inside a batch sends the whole batch. An empty log then begins with that batch, and its
    log start is raised to ``fetch_offset``; a crash in between leaves some records that the broker would not show.
    Raises UnexpectedAppendOffsetError if a non-empty log ends inside a batch of the broker, and otherwise as
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
    """Lets a log that never had records begin at ``offset``; returns False, with the log unchanged, if it had some.

    A log whose records retention has deleted is recognized by its leader epoch.
    """
    with log.exclusively():
        is_new = log.log_start_offset == log.log_end_offset and log.epochs.latest is None
        if is_new:
            log.truncate_fully_and_start_at(offset)
    return is_new


def fetched_records(fetched: bytes) -> Records:
    """Returns the records of all whole batches in an answer to a fetch, those of any transaction too.

    Raises CorruptRecordError.
    """
    buffer = np.frombuffer(fetched, dtype=np.uint8)
    headers = formats.scan(buffer).headers
    formats.verify(buffer, headers)
    data = BatchHeaders(headers.table[~headers.is_control])
    return formats.decode(buffer, data).records


def producer_batches(records: Records, fields: v2.BatchFields, *, batch_bytes_max: int) -> Iterator[tuple[bytes, int]]:
    """Yields encoded batches for produce requests, with offsets from 0, and the number of records in each."""
    buffer, headers = v2.encode_batches(records, fields, batch_bytes_max=batch_bytes_max)
    for row in range(len(headers)):
        (batch,) = v2.stamp(buffer, headers[row : row + 1], base_offset=0, leader_epoch=NO_LEADER_EPOCH).table
        start, end = int(batch["position"]), int(batch["position"] + batch["size"])
        yield buffer[start:end].tobytes(), int(batch["count"])
