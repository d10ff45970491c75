"""Checks that the committed offsets of groups count all records that a transactional id has written to a partition.

A transaction that commits offsets also writes to the group's partition of ``__consumer_offsets``, and each transaction
has a higher epoch than the one before. So no data partition can know a newer epoch of the producer than the partition
of ``__consumer_offsets`` knows. If one does, its directory is newer than the rest of the log: it was restored from a
newer copy. An application that continues from the committed offsets would write the newer records again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..errors import LogStoreError, ProgressMismatchError
from ..format.files.file_names import TopicPartition
from ..format.internal.internal_topics import TransactionLogValue
from ..writing import Log
from .producer_ids import is_of_driver
from .states import TransactionStates, state_text

LOOK_BYTES = 1 << 20  # read after the counted records of a partition that has forgotten the producer
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

    Costs one lookup per partition. With ``look``, a partition that does not know the producer is read too, from the end
    of its counted records on, up to :data:`LOOK_BYTES`.
    """
    reached = max((_known_epoch(logs[partition], newest.producer_id) for partition in offsets), default=UNKNOWN)
    if reached == UNKNOWN and not counted and is_of_driver(newest.producer_id):
        counted, look = (
            {partition: log.log_end_offset for partition, log in logs.items() if _is_active(log, newest)},
            False,
        )
    elif reached == UNKNOWN:
        reached = newest.producer_epoch
    for partition, end in sorted(counted.items()):
        epoch = _known_epoch(logs[partition], newest.producer_id)
        if epoch == UNKNOWN and look:
            epoch = _epoch_after(logs[partition], newest.producer_id, end)
        if epoch > reached and not _is_shared(states, transactional_id, newest.producer_id, epoch):
            raise _uncounted(transactional_id, newest, partition, epoch, offsets, reached)


def _is_active(log: Log, newest: TransactionLogValue) -> bool:
    """Whether a partition knows the producer and it has not expired: recovery may find producers that expired since."""
    return newest.producer_id in log.active_producers(log.context.clock.now_ms())


def _known_epoch(log: Log, producer_id: int) -> int:
    known = log.producers.last_entry(producer_id)
    return UNKNOWN if known is None else known.epoch


def _epoch_after(log: Log, producer_id: int, end: int) -> int:
    """Returns the newest epoch of a producer in the first :data:`LOOK_BYTES` from offset ``end`` on.

    Returns UNKNOWN if the producer wrote no batch there. Raises CorruptionError.
    """
    start = max(end, log.log_start_offset)
    if start >= log.log_end_offset:
        return UNKNOWN
    try:
        window = next(log.segments.reaching(start)[0].from_index(start, window_bytes=LOOK_BYTES), None)
    except FileNotFoundError:  # retention has just removed it: its records need no reader any more
        return UNKNOWN
    if window is None:
        return UNKNOWN
    table = window.headers.table
    epochs = table["producer_epoch"][(table["producer_id"] == producer_id) & (table["base_offset"] >= start)]
    return int(epochs.max(initial=UNKNOWN))


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
) -> ProgressMismatchError:
    names = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(offsets))
    there = "no record of this producer" if reached == UNKNOWN else f"epoch {reached}"
    return ProgressMismatchError(
        f"partition {partition[1]} of topic {partition[0]} has transactions of producer {newest.producer_id} up to "
        f"epoch {epoch}, but transactional id {transactional_id!r} has {state_text(newest)}, and {names}, where its "
        f"progress is committed, has {there}: the partition's directory is newer than these, or comes from another "
        "log. Continuing might write records again that the partition has. Restore all directories from copies of the "
        "same moment. To continue anyway, use another transactional id (txnAppId)"
    )
