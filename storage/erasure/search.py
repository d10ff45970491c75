"""Reads a whole log again, every byte decompressed, and searches it for keys, or for records at erased offsets.

Compares the bytes of keys (or their salted hashes) in Python sets, and shares neither hashes nor kernels with the
erasure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..format.record_columns import in_halves
from ..format.tables import Int64s, Records
from ..prefetch import in_order
from ..reading.reader import LogReader
from ..segment.reader import SegmentReader
from ..segment.walk import Window

WINDOW_BYTES = 8 * 1024 * 1024


class Sought(Protocol):
    """The records to search for."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of records that it needs, besides offsets."""
        ...

    @property
    def fact(self) -> str:
        """The name in a certificate of the number of found records."""
        ...

    @property
    def says(self) -> tuple[str, str]:
        """The text of a report after "5 records", and the text if none is found."""
        ...

    def count_in(self, records: Records) -> int:
        """Returns how many of ``records`` match."""
        ...


class Keys(Protocol):
    """Keys, by their bytes or otherwise."""

    def among(self, keys: Collection[bytes | None]) -> set[bytes]: ...


@dataclass(frozen=True)
class ErasedKeys:
    """Keys that no record may have any more."""

    keys: Keys

    columns = ("key",)
    fact = "records_with_keys"
    says = ("have one of the keys", "none has one of the keys")

    def count_in(self, records: Records) -> int:
        assert records.keys is not None
        keys = records.keys.to_list()
        there = self.keys.among(set(keys))
        return sum(key in there for key in keys) if there else 0


class SegmentContent(NamedTuple):
    """The records that a segment has now."""

    base_offset: int
    bytes: int
    sha256: str  # of the .log
    records: int  # without those of transactions' markers
    found: int  # records that were sought


class LogContent(NamedTuple):
    """The records that a log has now."""

    end_offset: int
    segments: Sequence[SegmentContent]
    sought: Sought

    @property
    def found(self) -> int:
        return sum(each.found for each in self.segments)

    def to_json(self) -> dict[str, Any]:
        return {
            "up_to_offset": self.end_offset,
            "segments": [each._asdict() for each in self.segments],
            "records": sum(each.records for each in self.segments),
            "bytes": sum(each.bytes for each in self.segments),
            self.sought.fact: self.found,
        }


def search(log: LogReader, sought: Sought) -> LogContent:
    """Reads all records of a log, below its start offset and of open transactions too. Takes no lock.

    Raises CorruptionError, with path and position, for damage.
    """
    return LogContent(log.log_end_offset, [_search_segment(each, sought) for each in log.segments], sought)


def _search_segment(segment: SegmentReader, sought: Sought) -> SegmentContent:
    digest, size, records, found = hashlib.sha256(), 0, 0, 0

    def count(window: Window) -> tuple[Window, list[tuple[int, int]]]:
        rows = np.flatnonzero(~window.headers.is_control)
        return window, [*in_halves(partial(_counts, segment, sought, window), rows)]

    with closing(segment), closing(in_order(count, segment.batches(window_bytes=WINDOW_BYTES))) as counted:
        for window, counts in counted:
            digest.update(window.whole)
            size += len(window.whole)
            records += sum(each for each, _ in counts)
            found += sum(each for _, each in counts)
    return SegmentContent(segment.base_offset, size, digest.hexdigest(), records, found)


def _counts(segment: SegmentReader, sought: Sought, window: Window, rows: Int64s) -> tuple[int, int]:
    """Returns how many records some batches have, and how many of them are sought."""
    records = segment.decode(window, rows, sought.columns).records
    return len(records), sought.count_in(records)
