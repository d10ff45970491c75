"""Offsets that groups committed, copied with a log."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..bucket import CommitLog, GroupOffset, OffsetsChange
from ..directory import LogManager
from ..format.files.file_names import TopicPartition
from ..groups import SINK_PREFIX, CommittedOffset, GroupOffsets

Groups = Mapping[str, Mapping[TopicPartition, CommittedOffset]]


def copy_groups(source: LogManager, target: LogManager | CommitLog, topics: Collection[str] | None = None) -> int:
    """Copies the offsets of all groups for ``topics``, by default for all; returns the number of groups.

    The progress of a writer to a topic is one of them. Replaces offsets in ``target``, even larger ones: those for
    topics that were copied before, and are in use there, must not be in ``topics``.
    """
    found = {name: _of_topics(offsets, topics) for name, offsets in GroupOffsets(source).groups().items()}
    groups = {name: offsets for name, offsets in found.items() if offsets}
    commit_groups(groups, target)
    return len(groups)


def _of_topics(
    offsets: Mapping[TopicPartition, CommittedOffset], topics: Collection[str] | None
) -> dict[TopicPartition, CommittedOffset]:
    return {
        partition: each
        for partition, each in offsets.items()
        if topics is None or partition.topic.removeprefix(SINK_PREFIX) in topics
    }


def commit_groups(groups: Groups, target: LogManager | CommitLog) -> None:
    """Commits the offsets of groups; on an object store, of all groups at once."""
    if isinstance(target, CommitLog):
        change = {
            group: {str(partition): GroupOffset(each.offset, each.metadata) for partition, each in offsets.items()}
            for group, offsets in groups.items()
        }
        if change:
            target.commit(lambda _: OffsetsChange(change))
        return
    for group, offsets in groups.items():
        kept = {partition: CommittedOffset(each.offset, each.metadata) for partition, each in offsets.items()}
        GroupOffsets(target).commit(group, kept)
