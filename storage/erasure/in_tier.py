"""The copies that a tier has of a log, when records are erased from that log.

A copy from before an erasure may have erased records. The copies of a segment are marked before the segment is
replaced; ``tier copy`` then deletes them, and copies the new segment. Copies of unchanged segments stay.

===================================  ==========================================================================
Killed after                         What is there, and what the next runs do
===================================  ==========================================================================
DELETE_SEGMENT_STARTED was synced    the old segment, which local retention keeps, since it counts as not copied:
                                     ``tier copy`` copies it again, and erasing again replaces it
the segment was replaced             the new segment, which local retention keeps, and old objects that nobody
                                     reads: ``tier copy`` deletes them, and copies the new segment
``tier copy`` deleted the objects    the new segment, which ``tier copy`` copies
===================================  ==========================================================================

Copies of what the log has no longer, or has in other segments, are not marked: nothing else may have their records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import NamedTuple

from ..directory.admin import topic_ids
from ..directory.manager import LogManager
from ..format.files.file_names import TopicPartition
from ..remote_metadata.topic import MetadataTopic
from ..segment.writer import LogSegment
from ..tiers.metadata_records import SegmentMetadata, SegmentState, TopicIdPartition
from ..writing.log import Log


class OldCopy(NamedTuple):
    """Offsets in a tier that may have erased records."""

    first_offset: int
    last_offset: int
    segment_id: str | None  # None: a broker's, in another directory's metadata
    is_deleted_next: bool  # by the next ``tier copy``

    def __str__(self) -> str:
        what = f"a tier has offsets {self.first_offset} to {self.last_offset} from before the erasure"
        if self.is_deleted_next:
            return f"{what}: run commitlog tier copy, which deletes them there, and then this again"
        return f"{what}, and they cannot be copied again from here: delete them there, and then run this again"


def joined(copies: Iterable[OldCopy]) -> list[OldCopy]:
    """Returns adjacent copies as one, for a report."""
    found: list[OldCopy] = []
    for each in copies:
        is_next = bool(found) and each.first_offset <= found[-1].last_offset + 1
        if is_next and each.is_deleted_next == found[-1].is_deleted_next:
            found[-1] = found[-1]._replace(last_offset=max(found[-1].last_offset, each.last_offset))
        else:
            found.append(each)
    return found


class EarlierRun(NamedTuple):
    """The result of an earlier run of the same erasure for a log that had none of the records any more."""

    topic_id: str
    below_offset: int  # the records below it were covered
    old: frozenset[str]  # segment ids of the copies that might have had erased records

    def covers(self, copy: SegmentMetadata) -> bool:
        """Whether a copy has no erased record: it was alike then, or was copied later from a log without them."""
        is_covered = copy.partition.topic_id == self.topic_id and copy.end_offset < self.below_offset
        return is_covered and copy.segment_id not in self.old


class TierCopies:
    """The copies of a log in a tier. Only for the holder of the log's maintenance lock."""

    def __init__(
        self,
        manager: LogManager,
        log: Log,
        partition: TopicPartition,
        earlier: EarlierRun | None = None,
        *,
        is_ours: bool = True,
    ) -> None:
        """``is_ours``: False for a topic whose segments nobody would copy again, as a broker's: no copy is marked."""
        self._metadata, self._log, self._earlier, self._is_ours = MetadataTopic(manager), log, earlier, is_ours
        topic_id = topic_ids(manager, [partition]).get(partition.topic)
        self._place = None if topic_id is None else TopicIdPartition(partition.topic, topic_id, partition.partition)
        self._replaced: list[range] = []

    def drop(self, offsets: range) -> None:
        """Marks the finished copies of a segment that is about to be replaced; durable on return."""
        self._replaced.append(offsets)
        copies = [each for each in self._all() if _is_finished(each) and self._is_of_segment(each, offsets)]
        if self._is_ours and copies:
            self._metadata.note(copies, SegmentState.DELETE_SEGMENT_STARTED)

    def old(self) -> list[OldCopy]:
        """Returns the copies that may have erased records, by their offsets."""
        copies = [*self._all()]
        found = [
            OldCopy(each.start_offset, each.end_offset, each.segment_id, self._is_ours and not _is_finished(each))
            for each in copies
            if not self._is_free(each)
        ]
        remote = self._log.remote
        if remote is not None and not any(each.start_offset < remote.stop for each in copies):
            found.append(OldCopy(remote.start, remote.stop - 1, None, False))
        return sorted(found, key=lambda each: each[:2])

    def _is_of_segment(self, copy: SegmentMetadata, offsets: range) -> bool:
        """Whether a copy has records of one segment only; its offsets may include those of empty segments beside it."""
        if not _overlap(copy, offsets) or not self._is_here(copy):  # first: a log may have thousands of copies
            return False
        return not any(segment.size and segment.base_offset not in offsets for segment, _ in self._segments(copy))

    def _is_free(self, copy: SegmentMetadata) -> bool:
        """Whether a copy has no erased record."""
        if any(_overlap(copy, each) for each in self._replaced):
            return False
        if self._earlier is not None and self._earlier.covers(copy):
            return True
        return _is_finished(copy) and self._is_here(copy) and self._is_alike(copy)

    def _is_alike(self, copy: SegmentMetadata) -> bool:
        """Whether the log has the bytes of a copy: an erasure that marked nothing has left fewer."""
        return copy.size == sum(self._sizes(copy))

    def _is_here(self, copy: SegmentMetadata) -> bool:
        log = self._log
        return log.segments.first.base_offset <= copy.start_offset and copy.end_offset < log.log_end_offset

    def _segments(self, copy: SegmentMetadata) -> Iterator[tuple[LogSegment, range]]:
        """Yields the segments of the log that have offsets of a copy, each with these offsets."""
        segments = self._log.segments.reaching(copy.start_offset)  # not all: a log may have thousands, and of copies
        for segment, following in zip_longest(segments, segments[1:]):
            stop = self._log.log_end_offset if following is None else following.base_offset
            offsets = range(segment.base_offset, stop)
            if not _overlap(copy, offsets):
                return
            yield segment, offsets

    def _sizes(self, copy: SegmentMetadata) -> Iterator[int]:
        """Yields the bytes that segments of the log have of a copy's offsets."""
        for segment, offsets in self._segments(copy):
            end = copy.end_offset + 1
            stop = segment.size if end >= offsets.stop else segment.end_below(end)
            yield stop - segment.end_below(copy.start_offset)

    def _all(self) -> Iterable[SegmentMetadata]:
        return () if self._place is None else self._metadata.segments(self._place).values()


def _overlap(copy: SegmentMetadata, offsets: range) -> bool:
    return copy.start_offset < offsets.stop and copy.end_offset >= offsets.start


def _is_finished(copy: SegmentMetadata) -> bool:
    return copy.state is SegmentState.COPY_SEGMENT_FINISHED
