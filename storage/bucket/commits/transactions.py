"""Open transactions of clients: in a state, in its checkpoint, and how they end.

The slices of an open transaction have their offsets in the log. Each is followed in its object by an empty batch with
as many offsets, as compaction leaves it; if the transaction is aborted, the empty batch replaces the slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...errors import CorruptionError
from ...format import v2
from .commit import APP_PREFIX, ClientTransaction, GroupOffset
from .fields import Fields
from .state import BATCHES, BYTES, MAX_TIMESTAMP, POSITION, Key, OpenTransaction, PartitionState, State

EMPTY_BYTES = v2.LAYOUT.itemsize  # of a batch without records


def app_of(transactional_id: str) -> str:
    """Returns the app of a transactional id."""
    return APP_PREFIX + transactional_id


def problem_of(state: State, app: str, epoch: int, version: int) -> str | None:
    """Returns the reason why the open transaction of an app cannot be this one; None if it can."""
    known = state.apps.get(app)
    if known is None or known.epoch != epoch:
        return f"app {app!r} is not open in epoch {epoch}"
    if version != (0 if known.version is None else known.version + 1):
        return f"version {version} of app {app!r} does not follow"
    return None


def opened(state: State, transaction: ClientTransaction, time_ms: int) -> OpenTransaction:
    """Returns the content of a transaction; a new one begins with the next commit.

    ``time_ms``: the time of that commit.
    """
    return state.open.setdefault(transaction.app, OpenTransaction(transaction, state.number + 1, time_ms))


def add_slices(opened: OpenTransaction, key: Key, partition: PartitionState, bases: Iterable[int]) -> None:
    """Adds slices of a partition, which are in the log, to an open transaction."""
    known = opened.slices.setdefault(key, [])
    known += bases
    partition.undecided[opened.transaction.app] = known[0]


def stage_offsets(opened: OpenTransaction, number: int, group: str, offsets: Mapping[str, GroupOffset]) -> None:
    """Adds offsets of a group, by the commit with that number, to an open transaction."""
    opened.offsets.setdefault(group, {}).update({partition: (number, each) for partition, each in offsets.items()})


def end(state: State, app: str, *, is_commit: bool) -> dict[str, dict[str, GroupOffset]]:
    """Ends the open transaction of an app, if there is one; returns the offsets of groups that count from now on."""
    ended = state.open.pop(app, None)
    if ended is None:
        return {}
    for key, bases in ended.slices.items():
        partition = state.partitions.get(key)
        if partition is not None:
            partition.undecided.pop(app, None)
            partition.changes += 1
            _empty(partition, () if is_commit else bases)
    return _counting(state, ended) if is_commit else {}


def _empty(partition: PartitionState, bases: Iterable[int]) -> None:
    """Replaces slices by their empty batches, as far as retention has not dropped them."""
    for base in bases:
        first, last = partition.slice_range(base, base + 1)
        for row in partition.slices.table[first:last]:
            row[POSITION] += row[BYTES]
            row[BYTES], row[BATCHES], row[MAX_TIMESTAMP] = EMPTY_BYTES, 1, -1


def _counting(state: State, ended: OpenTransaction) -> dict[str, dict[str, GroupOffset]]:
    """Returns the offsets that a committed transaction sets; offsets that others staged earlier will never count."""
    for group, offsets in ended.offsets.items():
        for partition, (number, _) in offsets.items():
            forget_offset(state, group, partition, before=number)
    return {group: {name: each for name, (_, each) in found.items()} for group, found in ended.offsets.items()}


def forget_offset(state: State, group: str, partition: str, before: int | None = None) -> None:
    """Drops the offsets that open transactions staged for a partition, because a later write wins.

    ``before``: only those of commits with smaller numbers.
    """
    for each in state.open.values():
        staged = each.offsets.get(group, {})
        if partition in staged and (before is None or staged[partition][0] < before):
            del staged[partition]


def forget_topic(state: State, topic_id: str, partitions: Iterable[str]) -> None:
    """Drops the content of open transactions in a deleted topic; ``partitions``: its partitions' names in offsets."""
    names = set(partitions)
    for each in state.open.values():
        for key in [key for key in each.slices if key[0] == topic_id]:
            del each.slices[key]
        for staged in each.offsets.values():
            for name in names.intersection(staged):
                del staged[name]


def undecided_offsets(state: State, group: str) -> set[str]:
    """Returns the partitions for which open transactions have offsets of a group."""
    return {name for each in state.open.values() for name in each.offsets.get(group, ())}


# In a checkpoint


def to_json(state: State) -> list[Any]:
    """Returns the open transactions for a checkpoint."""
    return [
        [
            list(each.transaction),
            each.number,
            each.began_ms,
            [[*key, bases] for key, bases in each.slices.items()],
            [
                [group, name, number, *offset]
                for group, found in each.offsets.items()
                for name, (number, offset) in found.items()
            ],
        ]
        for each in state.open.values()
    ]


def from_json(fields: Fields) -> list[OpenTransaction]:
    """Parses the output of :func:`to_json`. Raises CorruptionError."""
    return [_read(fields, value) for value in fields.values("open")] if fields.has("open") else []


def _read(fields: Fields, value: Any) -> OpenTransaction:
    match value:
        case [list(transaction), int(number), int(began_ms), list(slices), list(offsets)]:
            found = OpenTransaction(read_transaction(transaction), number, began_ms)
        case _:
            raise fields.wrong("open", "a list of open transactions")
    for row in slices:
        match row:
            case [str(topic_id), int(partition), [int(), *_] as bases] if all(type(each) is int for each in bases):
                found.slices[topic_id, partition] = bases
            case _:
                raise fields.wrong("open", "the slices of open transactions")
    for row in offsets:
        match row:
            case [str(group), str(name), int(staged), int(offset), str(metadata)]:
                found.offsets.setdefault(group, {})[name] = staged, GroupOffset(offset, metadata)
            case _:
                raise fields.wrong("open", "the offsets of open transactions")
    return found


def read_transaction(value: Any) -> ClientTransaction:
    """Returns the transaction in a commit or checkpoint. Raises CorruptionError."""
    match value:
        case [str(), *numbers] if len(numbers) == len(ClientTransaction._fields) - 1:
            if all(type(each) is int and 0 <= each < 2**63 for each in numbers):
                return ClientTransaction(*value)
    raise CorruptionError(f"has {str(value)[:80]!r} where an open transaction is expected")
