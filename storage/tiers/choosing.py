"""Chooses the segments of a tier that make up a log, where copies overlap or were superseded.

Kafka finds the segment of an offset by the leader epoch that the log has there (``RemoteLogMetadataCache``): a segment
of another leader's log has other epochs at its end, or everywhere. Copies of the same offsets have the same records, so
a chain of as few segments as possible is chosen.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..format.files.checkpoints import EpochEntry
from .port import TierSegment


class Piece(NamedTuple):
    """A segment of a tier in a log: all of it, or its batches below ``next_offset``."""

    segment: TierSegment
    next_offset: int

    @property
    def is_cut(self) -> bool:
        return self.next_offset <= self.segment.end_offset


class _Reach(NamedTuple):
    segment: TierSegment
    end: int  # the offset after the last one that the log has in common with it


def choose(
    segments: Iterable[TierSegment], epochs: Sequence[EpochEntry], log_start: int, stop: int | None
) -> list[Piece]:
    """Returns the segments that have the offsets from ``log_start`` up to ``stop``, in order; None: to their end.

    Each begins where the one before it is cut or ends, unless no segment has the offsets between them. ``epochs``: the
    leader epochs of the log, ascending; none if they are unknown, as those of a segment may be.
    """
    reaching = [_Reach(each, _common_end(each, epochs)) for each in segments]
    waiting = sorted((each for each in reaching if each.end > max(log_start, each.segment.start_offset)), key=_by_start)
    pieces: list[Piece] = []
    reached = log_start
    while waiting and (stop is None or reached < stop):
        found = _best(waiting, reached)
        if pieces and pieces[-1].next_offset > found.segment.start_offset:
            pieces[-1] = pieces[-1]._replace(next_offset=found.segment.start_offset)
        pieces.append(Piece(found.segment, found.end if stop is None else min(found.end, stop)))
        reached = found.end
        waiting = [
            each for each in waiting if each.end > reached and each.segment.start_offset > found.segment.start_offset
        ]
    return pieces


def _by_start(reach: _Reach) -> tuple[int, int, int, str]:
    return reach.segment.start_offset, reach.end, reach.segment.event_ms, reach.segment.segment_id


def _best(waiting: Sequence[_Reach], offset: int) -> _Reach:
    """Returns the segment with ``offset`` that reaches farthest (of equal ones the newest), or else the next one."""
    having = [each for each in waiting if each.segment.start_offset <= offset]
    if having:
        return max(having, key=lambda each: (each.end, each.segment.start_offset, *_by_start(each)[2:]))
    first = waiting[0].segment.start_offset
    return max((each for each in waiting if each.segment.start_offset == first), key=_by_start)


def _common_end(segment: TierSegment, epochs: Sequence[EpochEntry]) -> int:
    """Returns the offset at which a segment diverges from the log by its leader epochs, or its end."""
    starts = [each.start_offset for each in epochs]
    if not epochs or not segment.epochs:
        return segment.end_offset + 1
    edges = sorted(
        {each.start_offset for each in segment.epochs} | {each for each in starts if each <= segment.end_offset}
    )
    for offset in (each for each in edges if each >= segment.start_offset):
        own = [each.epoch for each in segment.epochs if each.start_offset <= offset][-1:]
        at = bisect_right(starts, offset) - 1
        if at < 0:  # the offset is below the log start, where the log no longer has its epochs
            if own and own[0] > epochs[0].epoch:
                return offset
        elif own and own[0] != epochs[at].epoch:
            return offset
    return segment.end_offset + 1
