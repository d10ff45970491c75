"""Copies the offsets that groups have committed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress

from ..bucket.commit_log import CommitLog
from ..bucket.commits.commit import GroupOffset, OffsetsChange
from ..bucket.commits.state import State
from ..directory.manager import LogManager
from ..errors import LogStoreError
from ..format.constants import NO_OFFSET
from ..format.files.file_names import TopicPartition
from ..groups.offsets import CommittedOffset, GroupOffsets
from ..topic_rules import SINK_PREFIX
from .new_names import SAME_NAMES, NewNames

Groups = Mapping[str, Mapping[TopicPartition, CommittedOffset]]


def copy_groups(
    source: LogManager,
    target: LogManager | CommitLog,
    topics: Collection[str] | None = None,
    new_names: NewNames = SAME_NAMES,
) -> int:
    """Copies the offsets of all groups for ``topics``, by default for all; returns the number of groups.

    The progress of a writer to a topic is one of them. Offsets in ``target`` only go forward: a larger one there stays,
    because its group or writer has continued since an earlier copy. A group that is ahead of the end of a partition in
    ``target`` gets that end: it read what came after the copy, or after the backup that an earlier run restored.
    """
    found = {name: _of_topics(offsets, topics, new_names) for name, offsets in GroupOffsets(source).groups().items()}
    groups = {name: offsets for name, offsets in found.items() if offsets}
    ends = {each: _end_in(target, each) for offsets in groups.values() for each in offsets}
    commit_groups({name: _within(offsets, ends) for name, offsets in groups.items()}, target)
    return len(groups)


def _within(
    offsets: Mapping[TopicPartition, CommittedOffset], ends: Mapping[TopicPartition, int | None]
) -> dict[TopicPartition, CommittedOffset]:
    found = dict(offsets)
    for partition, each in offsets.items():
        end = ends[partition]
        if end is not None and end < each.offset:
            found[partition] = CommittedOffset(end, each.metadata)
    return found


def _end_in(target: LogManager | CommitLog, partition: TopicPartition) -> int | None:
    """Returns the log end of a partition; None if it is not there, as for the progress of a writer, or not finished."""
    if isinstance(target, CommitLog):
        state = target.state
        found = state.partitions.get((state.topic_ids.get(partition.topic, ""), partition.partition))
        return None if found is None or found.is_unfinished else found.end
    with suppress(LogStoreError), target.open_reader(*partition) as reader:
        return reader.log_end_offset
    return None


def _of_topics(
    offsets: Mapping[TopicPartition, CommittedOffset], topics: Collection[str] | None, new_names: NewNames
) -> dict[TopicPartition, CommittedOffset]:
    return {
        new_names.partition(partition): each
        for partition, each in offsets.items()
        if topics is None or partition.topic.removeprefix(SINK_PREFIX) in topics
    }


def commit_groups(groups: Groups, target: LogManager | CommitLog) -> None:
    """Commits offsets that are above those in the target; on an object store, of all groups at once."""
    if isinstance(target, CommitLog):
        target.commit(lambda state: _proposed(groups, state))
        return
    there = GroupOffsets(target)
    for group, offsets in groups.items():
        kept = {str(partition): each.offset for partition, each in there.fetch(group).items()}
        if ahead := _ahead(offsets, kept):
            there.commit(group, {each: CommittedOffset(one.offset, one.metadata) for each, one in ahead.items()})


def _proposed(groups: Groups, state: State) -> OffsetsChange | None:
    change = dict[str, dict[str, GroupOffset | None]]()
    for group, offsets in groups.items():
        kept = {name: each.offset for name, each in state.groups.get(group, {}).items()}
        if ahead := _ahead(offsets, kept):
            change[group] = {str(each): GroupOffset(one.offset, one.metadata) for each, one in ahead.items()}
    return OffsetsChange(change) if change else None


def _ahead(
    offsets: Mapping[TopicPartition, CommittedOffset], kept: Mapping[str, int]
) -> dict[TopicPartition, CommittedOffset]:
    """Returns the offsets that are above the kept ones, by partition."""
    return {each: one for each, one in offsets.items() if one.offset > kept.get(str(each), NO_OFFSET)}
