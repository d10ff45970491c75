"""Compaction: the whole partition is copied to this machine, compacted there, and put back.

Each new segment replaces old ones by a commit of its own, the oldest first, as a broker replaces one group of segments
after another. If the process is killed in between, the partition has old and new segments: no key has lost its newest
record, and the next run compacts the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise

from ...bucket.commits.commit import Segment
from ...bucket.commits.state import Slice
from ...bucket.upkeep import Part
from ...clock import Clock
from ...compaction.dirty import Cleanable, cleanable
from ...compaction.rounds import Cleaner, CleanResult
from ...config import LogConfig
from ...errors import StorageError
from ...segment.writer import LogSegment
from ...writing.log import Log
from .consolidate import runs_of
from .scratch import Place, put_segment, scratch_log


@dataclass(frozen=True)
class Compaction:
    """The result of compacting a partition."""

    what: Cleanable | None  # before the first round; None: the partition has nothing
    rounds: Sequence[CleanResult] = ()
    segments: Sequence[Segment] = ()  # the segments that were put
    is_whole: bool = True  # False: another run was faster, and the rest was dropped


def compact(place: Place, config: LogConfig, cleaner: Cleaner, clock: Clock, now_ms: int) -> Compaction:
    """Compacts a partition in rounds until compaction is not due, as of ``now_ms``.

    Raises CorruptionError, with the object's name, for damage: nothing is changed then. Raises ObjectStoreError, and
    StorageError if a segment does not fit one put, or the disk of this machine fails.
    """
    parts = place.decided
    if not parts:
        return Compaction(None)
    runs = [[part] if isinstance(part, Segment) else part for part in _whole(parts, config)]
    with ExitStack() as stack:
        log = stack.enter_context(scratch_log(place, runs, config, clock))
        what, rounds = _rounds(cleaner, log, place.state.clean_end, now_ms)
        if not rounds:
            return Compaction(what)
        put, is_whole = _put(place, log, parts, rounds[-1].next_first_dirty_offset)
    return Compaction(what, rounds, put, is_whole)


def _whole(parts: Sequence[Part], config: LogConfig) -> Iterator[Segment | list[Slice]]:
    """Yields segments and runs of slices, in order."""
    runs = {run[0].base: run for run, _ in runs_of(parts, config)}
    for part in parts:
        if isinstance(part, Segment):
            yield part
        elif part.base in runs:
            yield runs[part.base]


def _rounds(cleaner: Cleaner, log: Log, clean: int | None, now_ms: int) -> tuple[Cleanable, list[CleanResult]]:
    done: list[CleanResult] = []
    first = cleanable(log, clean, now_ms)
    what = first
    while what.is_due:
        done.append(cleaner.clean(log, clean, now_ms))
        clean = done[-1].next_first_dirty_offset
        what = cleanable(log, clean, now_ms)
    return first, done


def _put(place: Place, log: Log, parts: Sequence[Part], clean: int) -> tuple[list[Segment], bool]:
    """Puts the segments below offset ``clean``; returns the new ones, and whether all of them were committed.

    Stops at the first failed commit, because another run is compacting from other records: a record that one run keeps
    must not lose the tombstone that the other saw.
    """
    before: list[Part] = []
    put: list[Segment] = []
    segments = tuple(log.segments)
    for segment, following in pairwise(segments):
        end = following.base_offset
        if end > clean:
            break
        replaced = [part for part in parts if segment.base_offset <= part.base < end]
        _check_bounds(place, segment, end, replaced)
        found = put_segment(place, log, segment, end, replaced, before, is_compacted=True)
        if found is None:
            return put, False
        before.append(found)
        put += [] if found in replaced else [found]
    return put, True


def _check_bounds(place: Place, segment: LogSegment, end: int, replaced: Sequence[Part]) -> None:
    if not replaced or (replaced[0].base, replaced[-1].end) != (segment.base_offset, end):
        raise StorageError(
            f"{place}: the records of one segment do not fit one any more, from offset {segment.base_offset} on: raise "
            "segment.index.bytes of the topic"
        )
