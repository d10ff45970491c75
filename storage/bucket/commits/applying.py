"""Applies commits to a state. All checks come first: an invalid commit leaves the state unchanged."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain

import numpy as np

from ...errors import CorruptionError
from . import transactions
from .commit import (
    BYTES as COMMIT_BYTES,
    OBJECT as COMMIT_OBJECT,
    POSITION as COMMIT_POSITION,
    RECORDS as COMMIT_RECORDS,
    ClientTransaction,
    Commit,
    DataChange,
    EndChange,
    FinishChange,
    GroupOffsets,
    OffsetsChange,
    OpenChange,
    PartitionSlices,
    RetainChange,
    Segment,
    StageChange,
    SwapChange,
    TopicChange,
    TransactionEnd,
    VoidChange,
    commit_key,
)
from .fields import INT64_MAX
from .producers import add_batches, drop_topic
from .state import OBJECT, OBJECT_COLUMNS, SLICE_COLUMNS, App, PartitionState, State, Topic


def apply(state: State, commit: Commit) -> None:
    """Applies one commit to the state. Raises CorruptionError, with the commit's name; then the state is unchanged."""
    check(state, commit)
    match commit.change:
        case DataChange() as change:
            _add_data(state, change, commit.time_ms)
        case StageChange(stages):
            for transaction, group, offsets in stages:
                opened = transactions.opened(state, transaction, commit.time_ms)
                transactions.stage_offsets(opened, commit.number, group, offsets)
        case EndChange(ends):
            for each in ends:
                _end(state, each)
        case OffsetsChange(offsets):
            _set_offsets(state, offsets)
        case TopicChange() as change:
            _change_topic(state, change)
        case FinishChange() as change:
            _partition(state, change).is_unfinished = False
        case OpenChange(app, epoch, query, run):
            transactions.end(state, app, is_commit=False)
            last = state.apps.get(app)
            state.apps[app] = App(epoch, last.version if last else None, query, run)
        case SwapChange() as change:
            _swap(state, _partition(state, change), change.segment)
        case RetainChange() as change:
            _retain(state, _partition(state, change), change.log_start)
        case VoidChange(writes):
            state.void.update([each for each in writes if state.dropped.pop(each, None) is None])
    state.number, state.uid = commit.number, commit.uid


def check(state: State, commit: Commit) -> None:
    """Raises CorruptionError unless the commit can follow the state."""
    try:
        _check_place(state, commit)
        match commit.change:
            case DataChange() as change:
                _check_data(state, change)
            case StageChange(stages):
                _check_transactions(state, {each.transaction for each in stages})
            case EndChange(ends):
                for each in ends:
                    _expect_none(transactions.problem_of(state, *each[:3]))
            case TopicChange() as change:
                _check_topic(state, change)
            case FinishChange() as change:
                _expect(_partition(state, change).is_unfinished, "finishes a partition that is not being copied")
            case OpenChange(app, epoch):
                last = state.apps.get(app)
                _expect(epoch == (last.epoch if last else 0) + 1, f"epoch {epoch} of app {app!r} does not follow")
            case SwapChange() as change:
                _check_swap(state, _partition(state, change), change)
            case RetainChange() as change:
                partition = _partition(state, change)
                is_inside = partition.log_start < change.log_start <= partition.end
                _expect(is_inside, f"log start {change.log_start} is not between the old one and the end")
            case VoidChange(writes):
                _expect(not state.uses.keys() & set(writes), "a write or a segment that the log needs is made void")
    except CorruptionError as error:
        raise CorruptionError(error.reason, path=commit_key(commit.number)) from None


def _expect(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise CorruptionError(otherwise)


def _expect_none(problem: str | None) -> None:
    if problem is not None:
        raise CorruptionError(problem)


def _check_transactions(state: State, transactions: Collection[ClientTransaction]) -> None:
    _expect(len({each.app for each in transactions}) == len(transactions), "two transactions of one app")
    for each in transactions:
        _check_transaction(state, each)


def _check_transaction(state: State, transaction: ClientTransaction) -> None:
    _expect_none(transactions.problem_of(state, transaction.app, transaction.epoch, transaction.version))
    opened = state.open.get(transaction.app)
    _expect(opened is None or opened.transaction == transaction, f"app {transaction.app!r} has another one open")


def _check_place(state: State, commit: Commit) -> None:
    _expect(commit.number == state.number + 1, f"says that it is commit {commit.number}")
    _expect(
        commit.previous == state.uid,
        f"follows another commit {state.number}: the objects are not of one log, or were restored from a copy",
    )


def _check_data(state: State, change: DataChange) -> None:
    _expect(change.write not in state.void, f"write {change.write} was void: its objects may be deleted")
    if change.app is not None:
        app = state.apps.get(change.app)
        _expect(
            app is not None and change.epoch == app.epoch, f"app {change.app!r} is not open in epoch {change.epoch}"
        )
        is_later = change.version is None or app is None or app.version is None or change.version > app.version
        _expect(is_later, f"version {change.version} of app {change.app!r} is committed already")
    for part in change.parts:
        partition = _partition(state, part)
        _expect(
            part.base_offset == partition.end,
            f"begins at offset {part.base_offset} of {_name(state, part)}, which ends at {partition.end}",
        )
        records = int(part.slices[:, COMMIT_RECORDS].sum(dtype=np.float64))  # does not wrap around
        _expect(records <= INT64_MAX - partition.end, f"more records than {_name(state, part)} has offsets for")
        _check_room(change, part)
    _check_transactions(state, change.transactions)


def _check_room(change: DataChange, part: PartitionSlices) -> None:
    """Raises CorruptionError unless slices of transactions are followed by their empty batches."""
    for row, number in zip(part.slices, part.transactions, strict=False):
        if number >= 0:
            end = int(row[COMMIT_POSITION] + row[COMMIT_BYTES]) + transactions.EMPTY_BYTES
            _expect(end <= change.objects[int(row[COMMIT_OBJECT])].size, "a slice without its empty batch")


def _check_topic(state: State, change: TopicChange) -> None:
    topic = state.topics.get(change.topic_id)
    if change.op == "create":
        _expect(topic is None, f"creates topic id {change.topic_id}, which exists")
        _expect(change.name not in state.topic_ids, f"creates topic {change.name}, which exists")
        return
    _expect(topic is not None and topic.name == change.name, f"names a topic {change.name} that is not there")
    if change.op == "partitions" and topic is not None:
        _expect(change.partitions > topic.partitions, f"topic {change.name} has {topic.partitions} partitions already")


def _check_swap(state: State, partition: PartitionState, change: SwapChange) -> None:
    uuid = change.segment.uuid
    _expect(uuid not in state.void, f"segment {uuid} was void: its objects may be deleted")
    _expect(uuid not in state.uses, f"segment {uuid} is in the log already")
    for offset in (change.segment.base, change.segment.end):
        _expect(partition.is_boundary(offset), f"replaces a part that does not begin or end at offset {offset}")
    _expect(change.segment.end <= partition.end, f"replaces offsets up to {change.segment.end}, which are not there")
    _expect(change.segment.end <= partition.stable_end, "replaces offsets of an open transaction")


def _partition(state: State, change: PartitionSlices | FinishChange | SwapChange | RetainChange) -> PartitionState:
    partition = state.partitions.get((change.topic_id, change.partition))
    if partition is None:
        raise CorruptionError(f"names partition {change.partition} of topic id {change.topic_id}, which is not there")
    return partition


def _name(state: State, part: PartitionSlices) -> str:
    return f"{state.topics[part.topic_id].name}-{part.partition}"


# --- what changes


def _add_data(state: State, change: DataChange, time_ms: int) -> None:
    first = len(state.objects)
    if change.objects:
        rows = np.fromiter(chain.from_iterable(change.objects), np.int64).reshape(-1, OBJECT_COLUMNS - 1)
        state.objects.extend(np.column_stack([np.full(len(rows), len(state.writes), np.int64), rows]))
        state.writes.append(change.write)
    for part in change.parts:
        _add_slices(_partition(state, part), part, first)
        state.uses[change.write] += len(part.slices)
        _add_to_transactions(state, change, part, time_ms)
        if part.producers is not None:
            add_batches(state.producers, part.topic_id, part.partition, part.base_offset, part.producers)
    if change.app is not None:
        last = state.apps[change.app]
        version = last.version if change.version is None else change.version
        state.apps[change.app] = App(last.epoch, version, change.query, change.run)
    _set_offsets(state, change.offsets or {})


def _add_slices(partition: PartitionState, part: PartitionSlices, first_object: int) -> None:
    rows = np.empty((len(part.slices), SLICE_COLUMNS), np.int64)
    rows[:, 1:] = part.slices
    rows[:, OBJECT] += first_object
    ends = part.base_offset + np.cumsum(part.slices[:, COMMIT_RECORDS])
    rows[0, 0], rows[1:, 0] = part.base_offset, ends[:-1]
    partition.slices.extend(rows)
    partition.end = int(ends[-1])


def _add_to_transactions(state: State, change: DataChange, part: PartitionSlices, time_ms: int) -> None:
    if not part.transactions:
        return
    key = part.topic_id, part.partition
    partition = state.partitions[key]
    bases = partition.slices.table[-len(part.slices) :, 0].tolist()
    for number, transaction in enumerate(change.transactions):
        own = [base for base, of in zip(bases, part.transactions, strict=True) if of == number]
        if own:
            transactions.add_slices(transactions.opened(state, transaction, time_ms), key, partition, own)


def _end(state: State, end: TransactionEnd) -> None:
    _set_offsets(state, transactions.end(state, end.app, is_commit=end.is_commit), is_last=False)
    state.apps[end.app] = state.apps[end.app]._replace(version=end.version)


def _set_offsets(state: State, offsets: GroupOffsets, *, is_last: bool = True) -> None:
    """Sets offsets of groups. ``is_last``: offsets that open transactions have for them were staged earlier."""
    for group, partitions in offsets.items():
        kept = state.groups.setdefault(group, {})
        for partition, offset in partitions.items():
            if is_last:
                transactions.forget_offset(state, group, partition)
            if offset is None:
                kept.pop(partition, None)
            else:
                kept[partition] = offset
        if not kept:
            del state.groups[group]


def _change_topic(state: State, change: TopicChange) -> None:
    state.topics_changed = state.number + 1
    if change.op == "delete":
        _delete_topic(state, state.topics[change.topic_id])
        return
    last = state.topics.get(change.topic_id) or Topic(change.name, change.topic_id, 0, {})
    partitions = change.partitions if change.op in ("create", "partitions") else last.partitions
    configs = last.configs if change.configs is None else change.configs
    state.topics[change.topic_id] = Topic(change.name, change.topic_id, partitions, configs)
    state.topic_ids[change.name] = change.topic_id
    for number in range(last.partitions, partitions):
        state.partitions[change.topic_id, number] = partition = PartitionState()
        partition.is_unfinished = change.is_copied


def _delete_topic(state: State, topic: Topic) -> None:
    """Deletes a topic and, as Kafka does, the offsets that groups committed for it."""
    names = {f"{topic.name}-{number}" for number in range(topic.partitions)}
    transactions.forget_topic(state, topic.topic_id, names)
    for number in range(topic.partitions):
        partition = state.partitions.pop((topic.topic_id, number))
        state.release(partition.slices.table, partition.segments)
    del state.topics[topic.topic_id], state.topic_ids[topic.name]
    drop_topic(state.producers, topic.topic_id)
    deleted = {group: dict.fromkeys(names.intersection(offsets)) for group, offsets in state.groups.items()}
    _set_offsets(state, deleted)


def _swap(state: State, partition: PartitionState, segment: Segment) -> None:
    start, end = partition.slice_range(segment.base, segment.end)
    first, last = partition.segment_range(segment.base, segment.end)
    state.release(partition.slices.table[start:end], partition.segments[first:last])
    partition.slices.cut(start, end)
    partition.segments[first:last] = [segment]
    state.uses[segment.uuid] = 1


def _retain(state: State, partition: PartitionState, log_start: int) -> None:
    """Raises the log start offset; drops slices and segments that end at or below it."""
    partition.log_start = log_start
    table = partition.slices.table
    end = int(np.searchsorted(table[:, 0] + table[:, 4], log_start, side="right"))
    gone = [segment for segment in partition.segments if segment.end <= log_start]
    state.release(table[:end], gone)
    partition.slices.cut(0, end)
    partition.segments = partition.segments[len(gone) :]
