"""The commits that maintenance and copies propose: a segment that replaces slices and segments, a higher log start
offset, and the end of a copy.
"""

from __future__ import annotations

from collections.abc import Sequence

from .commits.commit import FinishChange, RetainChange, Segment, SwapChange
from .commits.state import Slice, State

Part = Slice | Segment
"""What has some of a partition's offsets."""


def parts_of(state: State, topic_id: str, partition: int, base: int = 0, end: int = 2**63 - 1) -> list[Part]:
    """Returns the slices and segments of a partition whose base offset is in [``base``, ``end``), in order.

    An empty list if the partition no longer exists.
    """
    found = state.partitions.get((topic_id, partition))
    if found is None:
        return []
    first, last = found.segment_range(base, end)
    parts: list[Part] = [*state.slices(topic_id, partition, base, end), *found.segments[first:last]]
    return sorted(parts, key=lambda part: part.base)


def replace_parts(
    state: State,
    topic_id: str,
    partition: int,
    segment: Segment,
    replaced: Sequence[Part],
    before: Sequence[Part] = (),
) -> SwapChange | None:
    """Proposes a segment that was made from ``replaced``; it also depends on the parts ``before`` them.

    Returns None if another segment has replaced these offsets in the meantime (retention may have dropped the first
    ones), or if it took too long and was made void. Then the objects put for it are garbage.
    """
    if segment.uuid in state.void:
        return None
    wanted = [*before, *replaced]
    found = parts_of(state, topic_id, partition, wanted[0].base, segment.end)
    count = min(len(found), len(wanted))
    if count < len(replaced) or found[-count:] != wanted[-count:]:
        return None
    return SwapChange(topic_id, partition, segment)


def raise_log_start(state: State, topic_id: str, partition: int, log_start: int) -> RetainChange | None:
    """Proposes a higher log start offset; None if the partition no longer exists, or begins there or above."""
    found = state.partitions.get((topic_id, partition))
    if found is None or found.log_start >= min(log_start, found.end):
        return None
    return RetainChange(topic_id, partition, min(log_start, found.end))


def finish_copy(state: State, topic_id: str, partition: int) -> FinishChange | None:
    """Proposes the end of a partition's copy into this log; None if it is finished, or the partition is deleted."""
    found = state.partitions.get((topic_id, partition))
    return None if found is None or not found.is_unfinished else FinishChange(topic_id, partition)
