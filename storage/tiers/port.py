"""The port to tiers: the segments of a partition, and their bytes. The two layouts implement it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from ..bucket.files.open_files import ObjectBytes
from ..format.files import file_names as names
from .metadata_records import SegmentEpoch, SegmentMetadata, TopicIdPartition

BESIDE = (names.INDEX, names.TIME_INDEX, names.TXN_INDEX, names.SNAPSHOT, names.EPOCHS)  # the kinds of small files
SMALL_FILE_BYTES_MAX = 64 << 20  # of an index or a snapshot


@dataclass(frozen=True)
class TierSegment:
    """A whole copy of a segment in a tier."""

    partition: TopicIdPartition
    segment_id: str  # the id of this copy; a second copy of the same segment has another one
    start_offset: int
    end_offset: int  # of its last record
    epochs: tuple[SegmentEpoch, ...] | None  # leader epochs, the first one from the segment's start on; None: unknown
    size: int  # bytes of the .log
    event_ms: int  # when the copy began, or, if that is unknown, when its object was written
    name: str  # the name of the object with its records, below the tier's URL
    kinds: frozenset[str]  # of the small files that it has


@dataclass(frozen=True)
class TierSegments:
    """The segments of a partition in a tier, by start and then by segment id."""

    whole: list[TierSegment]
    incomplete: list[str]  # objects of copies and deletions that are under way, or that are lost


class Tier(Protocol):
    """The segments of many partitions, below one URL. For any thread of one process.

    Segments are added and deleted, but never change. All operations raise ObjectStoreError, with the object's name,
    once retries are exhausted, and CorruptionError for an object that cannot be right.
    """

    @property
    def url(self) -> str:
        """The URL, or the directory, below which the objects are."""
        ...

    def partitions(self) -> list[TopicIdPartition]:
        """Returns the partitions that have objects in the tier; a topic that was made again has two ids."""
        ...

    def segments(
        self, partition: TopicIdPartition, metadata: Collection[SegmentMetadata] | None = None
    ) -> TierSegments:
        """Returns the segments of a partition; reads little more than their names, and nothing twice in a process.

        A store may list new objects late, and may still list deleted ones: then the result lacks a segment, or has one
        that cannot be read. With the ``metadata`` of brokers, returns the segments that it names, whether or not the
        store lists them.
        """
        ...

    def content(self, segment: TierSegment) -> ObjectBytes:
        """Returns the bytes of a ``.log``; parts are read on request, and ahead."""
        ...

    def read(self, segment: TierSegment, position: int, length: int) -> memoryview:
        """Returns the bytes of a ``.log`` from ``position`` on, exactly ``length``; they are not cached."""
        ...

    def beside(self, segment: TierSegment, kind: str) -> bytes | None:
        """Returns a small file of :data:`BESIDE`, such as ``.index``; None if the segment has none."""
        ...
