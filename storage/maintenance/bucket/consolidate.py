"""Consolidation: many slices become one segment, in Kafka's own bytes and with its indexes.

Slices are joined to segments by Kafka's rules for a new segment: it is full at ``segment.bytes`` (at most 120 MiB),
or its first records are older than ``segment.ms``. Younger slices at the end of a partition stay as they are.

If the process is killed before a segment's commit, its objects are garbage that a collector deletes; after the commit,
the slices are garbage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...bucket.commits.commit import Segment
from ...bucket.commits.state import Slice
from ...bucket.upkeep import Part
from ...clock import Clock
from ...config import LogConfig
from ...format.constants import INT32_MAX
from .scratch import SEGMENT_BYTES_MAX, Place, put_segment, scratch_log


@dataclass(frozen=True)
class Consolidation:
    """The result of a consolidation, or of a dry run."""

    runs: Sequence[Sequence[Slice]]  # each becomes a segment
    segments: Sequence[Segment] = ()  # the segments that were put
    others: int = 0  # segments that were dropped, because another run was faster

    @property
    def slices(self) -> int:
        return sum(map(len, self.runs))

    @property
    def size(self) -> int:
        """Bytes of the slices."""
        return sum(part.size for run in self.runs for part in run)


def plan_runs(parts: Sequence[Part], config: LogConfig, now_ms: int) -> list[list[Slice]]:
    """Returns the runs of adjacent slices, each of which becomes a segment. ``now_ms``: the time to assume."""
    return [run for run, is_followed in runs_of(parts, config) if is_followed or _is_old(run, config, now_ms)]


def runs_of(parts: Sequence[Part], config: LogConfig) -> Iterator[tuple[list[Slice], bool]]:
    """Yields runs of adjacent slices that fit one segment, and whether each is complete, as another part follows."""
    limit = min(config.segment_bytes, SEGMENT_BYTES_MAX)
    run: list[Slice] = []
    size = 0
    for part in parts:
        if run and (isinstance(part, Segment) or not _fits(run[0].base, size, part, limit)):
            yield run, True
            run, size = [], 0
        if isinstance(part, Slice):
            run.append(part)
            size += part.size
    if run:
        yield run, False


def _fits(base: int, size: int, part: Slice, limit: int) -> bool:
    return size + part.size <= limit and part.end - 1 - base <= INT32_MAX


def _is_old(run: Sequence[Slice], config: LogConfig, now_ms: int) -> bool:
    """Whether the first records with a time are old; False without any, so the run waits for later records."""
    first_ms = next((part.max_timestamp for part in run if part.max_timestamp >= 0), -1)
    return first_ms >= 0 and now_ms - first_ms > config.max_segment_ms


def consolidate(place: Place, config: LogConfig, clock: Clock, now_ms: int, *, dry_run: bool = False) -> Consolidation:
    """Replaces a partition's slices by segments. One segment at a time is copied to this machine.

    Raises CorruptionError, with the object's name, for damage: its segment is not written. Raises ObjectStoreError.
    """
    runs = plan_runs(place.decided, config, now_ms)
    if dry_run:
        return Consolidation(runs)
    put: list[Segment] = []
    for run in runs:
        with scratch_log(place, [run], config, clock) as log:
            found = put_segment(place, log, log.segments.first, run[-1].end, run, is_compacted=False)
        put += [] if found is None else [found]
    return Consolidation(runs, put, len(runs) - len(put))
