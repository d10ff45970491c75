"""Offsets that groups committed, copied with a log."""

from __future__ import annotations

from collections.abc import Mapping

from ..bucket import CommitLog, GroupOffset, OffsetsChange
from ..directory import LogManager
from ..format.files.file_names import TopicPartition
from ..groups import CommittedOffset, GroupOffsets

Groups = Mapping[str, Mapping[TopicPartition, CommittedOffset]]


def copy_groups(source: LogManager, target: LogManager | CommitLog) -> int:
    """Copies the offsets of all groups; returns the number of groups.

    Replaces offsets in ``target``, even larger ones.
    """
    groups = {name: offsets for name, offsets in GroupOffsets(source).groups().items() if offsets}
    commit_groups(groups, target)
    return len(groups)


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
