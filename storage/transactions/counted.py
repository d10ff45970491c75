"""Whether the committed offsets of groups count all records that a transactional id has written to a partition.

A transaction that commits offsets writes to the group's partition of ``__consumer_offsets`` too, and each transaction
has a higher epoch than those before. So no partition knows the producer with a newer epoch than that partition does.
One that does has records that the offsets do not count: its directory is newer than the rest of the log (restored from
a copy, next to an older copy), and an application that continues from the offsets would write these records again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark_commitlog.storage.errors import LogStoreError, ProgressMismatchError
from pyspark_commitlog.storage.format.internal import TransactionLogValue
from pyspark_commitlog.storage.log import Log
from pyspark_commitlog.storage.manager import TopicPartition
from pyspark_commitlog.storage.producers import ProducerState
from pyspark_commitlog.storage.transactions.states import TransactionStates, told


def check_counted(
    states: TransactionStates,
    transactional_id: str,
    newest: TransactionLogValue,
    logs: Mapping[TopicPartition, Log],
    *,
    counted: Collection[TopicPartition],
    offsets: Collection[TopicPartition],
) -> None:
    """Raise ProgressMismatchError for the first of ``counted`` whose records the committed offsets do not all count.

    ``newest`` is the Complete state of the transactional id, ``offsets`` the partitions of ``__consumer_offsets`` that
    hold its groups. If they do not know the producer, since idle ones are forgotten, its state decides. A state alone
    that is an older copy does no harm. Costs one lookup per partition.
    """
    seen = [state.epoch for place in offsets if (state := _state(logs[place], newest)) is not None]
    reached = max(seen, default=newest.producer_epoch)
    for place in counted:
        state = _state(logs[place], newest)
        if state is not None and state.epoch > reached and not _is_shared(states, transactional_id, state):
            raise _uncounted(transactional_id, newest, place, state, offsets, reached)


def _state(log: Log, newest: TransactionLogValue) -> ProducerState | None:
    return log.producers.last_entry(newest.producer_id)


def _is_shared(states: TransactionStates, transactional_id: str, state: ProducerState) -> bool:
    """Whether the epoch is that of another transactional id.

    Two may have the same producer id if ``producer_ids.json`` was lost or set back in between.
    """
    unreadable: list[LogStoreError] = []  # a damaged partition explains nothing
    return any(
        name != transactional_id and other.producer_id == state.producer_id and other.producer_epoch >= state.epoch
        for name, other in states.all(unreadable)
    )


def _uncounted(
    transactional_id: str,
    newest: TransactionLogValue,
    place: TopicPartition,
    state: ProducerState,
    offsets: Collection[TopicPartition],
    reached: int,
) -> ProgressMismatchError:
    names = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(offsets))
    return ProgressMismatchError(
        f"partition {place[1]} of topic {place[0]} has transactions of producer {state.producer_id} up to epoch "
        f"{state.epoch}, but transactional id {transactional_id!r} has {told(newest)}, and {names}, where its progress "
        f"is committed, has epoch {reached}: the partition's directory is newer than these, or comes from another log. "
        "Continuing might write records again that the partition has. Restore directories of one moment. To continue "
        f"anyway, delete the offsets of group {transactional_id!r}"
    )
