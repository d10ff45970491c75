"""Checks that the committed offsets of groups count all records that a transactional id has written to a partition.

A transaction that commits offsets also writes to the group's partition of ``__consumer_offsets``, and each transaction
has a higher epoch than the one before. So no data partition can know a newer epoch of the producer than the partition
of ``__consumer_offsets`` knows. If one does, its directory is newer than the rest of the log: it was restored from a
newer copy. An application that continues from the committed offsets would write the newer records again.

A batch outside a transaction is no evidence of this: any client that may write to the partition can send one, with any
producer id and epoch, if it writes through a broker or an older version of the gateway. Nor is a transaction that a
marker has aborted, since readers of committed records do not see its records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice

import numpy as np

from ..errors import LogStoreError, ProgressMismatchError
from ..format.files.file_names import TopicPartition
from ..format.internal.internal_topics import TransactionLogValue
from ..recovery.segment_recovery import read_markers
from ..segment.walk import WINDOW_BYTES, Window
from ..writing.log import Log
from .producer_ids import is_of_driver
from .states import TransactionStates, state_text
from .transaction import abort_command

LOOK_BYTES = 1 << 20  # bytes read after the counted records of a partition that has forgotten the producer
UNKNOWN = -1


def check_counted(
    states: TransactionStates,
    transactional_id: str,
    newest: TransactionLogValue,
    logs: Mapping[TopicPartition, Log],
    *,
    counted: Mapping[TopicPartition, int],
    offsets: Collection[TopicPartition],
    look: bool,
) -> None:
    """Raises ProgressMismatchError for the first partition with records that the committed offsets do not count.

    ``counted`` maps each counted partition to the offset at which its counted records end. ``newest`` is the Complete
    state of the transactional id. ``offsets`` are the partitions of ``__consumer_offsets`` that hold its groups. If
    these do not know the producer, because idle producers are forgotten, the epoch of ``newest`` is the limit. An older
    copy of ``__transaction_state`` alone does no harm.

    If ``counted`` is empty and ``offsets`` do not know the producer, none of ``logs`` may know it either. This does not
    hold for the producer of a broker or a client, which need not commit offsets.

    Costs one lookup per partition, and reads from the end of its counted records on only if it knows a newer epoch.
    With ``look``, a partition that does not know the producer is read too, up to :data:`LOOK_BYTES`.
    """
    reached = max((_known_epoch(logs[partition], newest.producer_id) for partition in offsets), default=UNKNOWN)
    if reached == UNKNOWN and not counted and is_of_driver(newest.producer_id):
        counted, look = (
            {partition: 0 for partition, log in logs.items() if _is_active(log, newest)},
            False,
        )
    elif reached == UNKNOWN:
        reached = newest.producer_epoch
    for partition, end in sorted(counted.items()):
        epoch = _known_epoch(logs[partition], newest.producer_id)
        if epoch > reached:
            epoch = _epoch_after(logs[partition], newest.producer_id, end)
        elif epoch == UNKNOWN and look:
            epoch = _epoch_after(logs[partition], newest.producer_id, end, windows_max=1, window_bytes=LOOK_BYTES)
        if epoch > reached and not _is_shared(states, transactional_id, newest.producer_id, epoch):
            way_out = _way_out(states, partition, logs[partition], newest.producer_id)
            raise _uncounted(transactional_id, newest, partition, epoch, offsets, reached, way_out)


def _is_active(log: Log, newest: TransactionLogValue) -> bool:
    """Whether a partition knows the producer and it has not expired: recovery may find producers that expired since."""
    return newest.producer_id in log.active_producers(log.context.clock.now_ms())


def _known_epoch(log: Log, producer_id: int) -> int:
    known = log.producers.last_entry(producer_id)
    return UNKNOWN if known is None else known.epoch


def _epoch_after(
    log: Log, producer_id: int, end: int, *, windows_max: int | None = None, window_bytes: int = WINDOW_BYTES
) -> int:
    """Returns the newest epoch of a producer's transactions from offset ``end`` on that are not aborted.

    Returns UNKNOWN if there are none. ``windows_max``: how much is read; None: all. Raises CorruptionError.
    """
    newest = undecided = UNKNOWN
    for window in islice(_windows(log, max(end, log.log_start_offset), window_bytes), windows_max):
        for epoch, is_commit in _steps(window, producer_id, end):
            if is_commit is None:
                undecided = max(undecided, epoch)
            else:
                newest = max(newest, undecided, epoch) if is_commit else newest
                undecided = UNKNOWN
    return max(newest, undecided)


def _windows(log: Log, start: int, window_bytes: int) -> Iterator[Window]:
    if start >= log.log_end_offset:
        return
    for segment in log.segments.reaching(start):
        try:
            yield from segment.from_index(start, window_bytes=window_bytes)
        except FileNotFoundError:  # retention has just removed it: its records need no reader any more
            continue


def _steps(window: Window, producer_id: int, start: int) -> Iterator[tuple[int, bool | None]]:
    """Yields the epoch of each batch of a producer's transactions, and its kind: a commit, an abort, or records."""
    headers = window.headers
    table = headers.table
    is_its = (table["producer_id"] == producer_id) & (table["base_offset"] >= start) & headers.is_transactional
    if not is_its.any():
        return
    markers, _ = read_markers(window, passes_bad=True)
    for row in np.flatnonzero(is_its).tolist():
        marker = markers.get(int(table["base_offset"][row]))
        if marker is not None or not headers.is_control[row]:
            yield int(table["producer_epoch"][row]), None if marker is None else marker.is_commit


def _is_shared(states: TransactionStates, transactional_id: str, producer_id: int, epoch: int) -> bool:
    """Whether another transactional id has the same producer id and may have written this epoch.

    Two ids may have the same producer id if ``producer_ids.json`` was lost or set back in between.
    """
    unreadable: list[LogStoreError] = []  # a damaged partition explains nothing
    return any(
        name != transactional_id and other.producer_id == producer_id and other.producer_epoch >= epoch
        for name, other in states.all(unreadable)
    )


def _uncounted(
    transactional_id: str,
    newest: TransactionLogValue,
    partition: TopicPartition,
    epoch: int,
    offsets: Collection[TopicPartition],
    reached: int,
    way_out: str,
) -> ProgressMismatchError:
    names = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(offsets))
    there = "no record of this producer" if reached == UNKNOWN else f"epoch {reached}"
    return ProgressMismatchError(
        f"partition {partition[1]} of topic {partition[0]} has transactions of producer {newest.producer_id} up to "
        f"epoch {epoch}, but transactional id {transactional_id!r} has {state_text(newest)}, and {names}, where its "
        f"progress is committed, has {there}: the partition's directory is newer than these, or comes from another "
        "log. Continuing might write records again that the partition has. Restore all directories from copies of the "
        f"same moment. To continue anyway, use another transactional id (txnAppId){way_out}"
    )


def _way_out(states: TransactionStates, partition: TopicPartition, log: Log, producer_id: int) -> str:
    """Returns further advice if the newest transaction is open, because it may be another writer's; otherwise ""."""
    known = log.producers.last_entry(producer_id)
    if known is None or not known.in_transaction:
        return ""
    command = abort_command(states.manager.directory, *partition, known.current_txn_first_offset)
    return f"; if another program wrote the transaction that is open there, abort it: {command}"
