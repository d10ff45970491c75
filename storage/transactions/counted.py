"""Whether the committed offsets of groups count all records that a transactional id has written to a partition.

A transaction that commits offsets writes to the group's partition of ``__consumer_offsets`` too, and each transaction
has a higher epoch than those before. So no partition knows the producer with a newer epoch than that partition does.
One that does has records that the offsets do not count: its directory is newer than the rest of the log (restored from
a copy, next to an older copy), and an application that continues from the offsets would write these records again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..directory import TopicPartition
from ..errors import LogStoreError, ProgressMismatchError
from ..format.internal.internal_topics import TransactionLogValue
from ..writing import Log
from .producer_ids import FIRST_PRODUCER_ID
from .states import TransactionStates, told

LOOK_BYTES = 1 << 20  # behind the counted records of a partition that has forgotten the producer
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
    """Raise ProgressMismatchError for the first of ``counted`` whose records the committed offsets do not all count.

    ``newest`` is the Complete state of the transactional id, ``offsets`` the partitions of ``__consumer_offsets`` that
    hold its groups. If they do not know the producer, since idle ones are forgotten, its state decides. A state alone
    that is an older copy does no harm.

    If nothing is counted, and ``offsets`` know nothing of the producer, none of ``logs`` may know it either: they have
    its first batches. This does not hold for a broker's producer, which need not commit offsets.

    Costs one lookup per partition; with ``look``, one read too for each that does not know the producer and has records
    from the offset on that is its value in ``counted``, where the counted records end.
    """
    reached = max((_known_epoch(logs[place], newest.producer_id) for place in offsets), default=UNKNOWN)
    if reached == UNKNOWN and not counted and newest.producer_id >= FIRST_PRODUCER_ID:
        counted, look = {place: log.log_end_offset for place, log in logs.items() if _is_active(log, newest)}, False
    elif reached == UNKNOWN:
        reached = newest.producer_epoch
    for place, end in sorted(counted.items()):
        epoch = _known_epoch(logs[place], newest.producer_id)
        if epoch == UNKNOWN and look:
            epoch = _epoch_behind(logs[place], newest.producer_id, end)
        if epoch > reached and not _is_shared(states, transactional_id, newest.producer_id, epoch):
            raise _uncounted(transactional_id, newest, place, epoch, offsets, reached)


def _is_active(log: Log, newest: TransactionLogValue) -> bool:
    """Whether a partition still knows the producer, and not only because it had to be recovered."""
    return newest.producer_id in log.active_producers(log.context.clock.now_ms())


def _known_epoch(log: Log, producer_id: int) -> int:
    known = log.producers.last_entry(producer_id)
    return UNKNOWN if known is None else known.epoch


def _epoch_behind(log: Log, producer_id: int, end: int) -> int:
    """The newest epoch of a producer in the first batches from ``end`` on. Raises CorruptionError."""
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
    """Whether the epoch is that of another transactional id.

    Two may have the same producer id if ``producer_ids.json`` was lost or set back in between.
    """
    unreadable: list[LogStoreError] = []  # a damaged partition explains nothing
    return any(
        name != transactional_id and other.producer_id == producer_id and other.producer_epoch >= epoch
        for name, other in states.all(unreadable)
    )


def _uncounted(
    transactional_id: str,
    newest: TransactionLogValue,
    place: TopicPartition,
    epoch: int,
    offsets: Collection[TopicPartition],
    reached: int,
) -> ProgressMismatchError:
    names = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(offsets))
    there = "none of it" if reached == UNKNOWN else f"epoch {reached}"
    return ProgressMismatchError(
        f"partition {place[1]} of topic {place[0]} has transactions of producer {newest.producer_id} up to epoch "
        f"{epoch}, but transactional id {transactional_id!r} has {told(newest)}, and {names}, where its progress is "
        f"committed, has {there}: the partition's directory is newer than these, or comes from another log. Continuing "
        "might write records again that the partition has. Restore directories of one moment. To continue anyway, use "
        "another transactional id (txnAppId)"
    )
