"""The offsets of groups as a partition of ``__consumer_offsets``, which readers of groups expect.

A state has the current offsets, not their history, and so has this partition. When offsets change, all of its records
are replaced by new ones at higher offsets: a reader then finds that its position was deleted, and reads the whole
partition again.
"""

from __future__ import annotations

from typing import NamedTuple

from ...format import v2
from ...format.files import file_names as names
from ..commits.state import State
from .root_files import group_batches

OFFSETS_A_COMMIT = 1 << 20  # the distance of two beginnings


class GroupsLog(NamedTuple):
    """The partition: one segment, and an empty one at its end."""

    base: int
    end: int
    data: bytes
    unplaced: bytes  # the same with offsets from 0 on
    number: int  # of the commit after which these offsets were first seen

    def files(self) -> dict[str, bytes]:
        """Returns the files of its segments, by name."""
        kinds = (names.LOG, names.INDEX, names.TIME_INDEX)
        found = {names.segment_file(base, kind): b"" for base in (self.base, self.end) for kind in kinds}
        return {**found, names.segment_file(self.base, names.LOG): self.data}


def groups_log(state: State, before: GroupsLog | None) -> GroupsLog:
    """Returns the partition for a state that has offsets of groups; ``before``, if its offsets are the same."""
    buffer, headers = group_batches(state)
    unplaced = buffer.tobytes()
    if before is not None and before.unplaced == unplaced:
        return before
    base = state.number * OFFSETS_A_COMMIT
    end = v2.stamp(buffer, headers, base_offset=base, leader_epoch=0).next_offset
    return GroupsLog(base, end, buffer.tobytes(), unplaced, state.number)
