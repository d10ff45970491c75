"""What maintenance proposes: another object in the place of slices and segments, and a higher log start offset."""

from __future__ import annotations

from collections.abc import Sequence

from .commits.commit import RetainChange, Segment, SwapChange
from .commits.state import Slice, State

Part = Slice | Segment
"""What has some of a partition's offsets."""


def parts_of(state: State, topic_id: str, partition: int) -> list[Part]:
    """Returns what has the offsets of a partition, from the first to the last; nothing if the partition is gone."""
    if (topic_id, partition) not in state.partitions:
        return []
    segments = state.partitions[topic_id, partition].segments
    return sorted([*state.slices(topic_id, partition), *segments], key=lambda part: part.base)


def replace_parts(
    state: State,
    topic_id: str,
    partition: int,
    segment: Segment,
    replaced: Sequence[Part],
    before: Sequence[Part] = (),
) -> SwapChange | None:
    """Proposes a segment that was made from ``replaced``, and from what it knows of the parts ``before`` them.

    None if another has these offsets by now, unless retention took the first ones; or if it took too long and was given
    up. What was put for it is garbage then.
    """
    if segment.uuid in state.void:
        return None
    found = [part for part in parts_of(state, topic_id, partition) if part.base < segment.end]
    wanted = [*before, *replaced]
    count = min(len(found), len(wanted))
    if count < len(replaced) or found[-count:] != wanted[-count:]:
        return None
    return SwapChange(topic_id, partition, segment)


def raise_log_start(state: State, topic_id: str, partition: int, log_start: int) -> RetainChange | None:
    """Proposes a higher log start offset; None if the partition is gone or begins there or above."""
    found = state.partitions.get((topic_id, partition))
    if found is None or found.log_start >= min(log_start, found.end):
        return None
    return RetainChange(topic_id, partition, min(log_start, found.end))
