"""Records that a condition chooses. They are found before anything is erased, erased by offset, and searched again."""

from __future__ import annotations

import hashlib
import secrets
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, Self

import numpy as np

from ..errors import InvalidConfigError
from ..format.compaction_view import Keyed
from ..format.files.file_names import TopicPartition
from ..format.record_columns import in_halves
from ..format.tables import Bools, Int64s, Records
from ..maintenance.run import MaintenanceRun, Partition
from ..reading.reader import LogReader
from ..segment.reader import SegmentReader
from ..segment.walk import Window
from .in_tier import EarlierRun
from .keys import SALT_BYTES

WINDOW_BYTES = 8 * 1024 * 1024
CHOSEN_MAX = 16 * 1024 * 1024  # limit per partition: each takes 8 bytes of memory
COLUMNS = ("key", "value", "headers")

Chooser = Callable[[Records, TopicPartition], Int64s]  # returns the offsets of the records that it chooses


class RecordChoice(Protocol):
    """A condition on records, which is true or false for each of them alone. Can be pickled."""

    @property
    def sql(self) -> str:
        """The condition as the user gave it."""
        ...

    def opened(self) -> AbstractContextManager[Chooser]: ...


@dataclass(frozen=True)
class ChosenRecords:
    """The records of a partition for which a condition is true. Can be pickled."""

    offsets: Int64s  # ascending
    end_offset: int  # the log end: later records were not tested
    salt: bytes
    sha256: str  # of the salt and the records
    topic_id: str | None  # None: the topic has none

    secret = None  # key hashes are not used to find these records

    def find(self, records: Keyed) -> Bools:
        """Returns which records are chosen, shape (records,)."""
        return are_among(records.offsets, self.offsets)

    def to_json(self) -> dict[str, Any]:
        return {
            "records": len(self.offsets),
            "offsets": [*_runs(self.offsets)],
            "below_offset": self.end_offset,
            "salt": self.salt.hex(),
            "sha256": self.sha256,
            "topic_id": self.topic_id,
        }


@dataclass(frozen=True)
class ErasedOffsets:
    """Offsets at which no record may exist any more. Can be pickled."""

    offsets: Int64s  # ascending

    columns = ()
    fact = "chosen_records"
    says = ("were to be erased", "none is one that was to be erased")

    def count_in(self, records: Records) -> int:
        """Returns how many of ``records`` are at these offsets."""
        return int(are_among(records.offsets, self.offsets).sum())

    @classmethod
    def of(cls, spans: Iterable[Sequence[int]]) -> Self:
        """Returns all offsets of spans, which are given by their first and last offsets."""
        found = [np.arange(first, last + 1, dtype=np.int64) for first, last in spans]
        return cls(np.unique(np.concatenate([np.zeros(0, np.int64), *found])))

    def joined(self, offsets: Int64s) -> Self:
        return type(self)(np.union1d(self.offsets, offsets))


@dataclass(frozen=True)
class ErasureTask:
    """A log to erase from. Can be pickled."""

    partition: Partition
    chosen: ChosenRecords | None = None  # None: records are found by their keys
    erased: ErasedOffsets | None = None  # the records that must not be there afterwards
    earlier: EarlierRun | None = None

    def log_bytes(self, run: MaintenanceRun) -> int:
        return self.partition.log_bytes(run)


def choose(log: LogReader, partition: TopicPartition, choice: RecordChoice, topic_id: str | None) -> ChosenRecords:
    """Reads all records of a log, below its start offset and of open transactions too. Takes no lock.

    Raises CorruptionError, with path and position, for damage; InvalidConfigError if the condition fails for a record,
    and if it chooses more than 16,777,216.
    """
    salt = secrets.token_bytes(SALT_BYTES)
    digest, found, count, end = hashlib.sha256(salt), list[Int64s](), 0, log.log_end_offset
    with choice.opened() as chooser:
        for segment in log.segments:
            for records in _decoded(segment):
                offsets = chooser(records, partition)
                offsets = offsets[offsets < end]
                if not len(offsets):
                    continue
                found.append(offsets)
                count += len(offsets)
                if count > CHOSEN_MAX:
                    raise InvalidConfigError(_too_many(partition))
                for each in _canonical(records.take(np.flatnonzero(are_among(records.offsets, offsets)))):
                    digest.update(each)
    chosen = np.unique(np.concatenate([np.zeros(0, np.int64), *found]))
    return ChosenRecords(chosen, end, salt, digest.hexdigest(), topic_id)


def are_among(offsets: Int64s, wanted: Int64s) -> Bools:
    """Returns which of ``offsets`` are in ``wanted``, which ascends; shape (offsets,)."""
    if not len(wanted):
        return np.zeros(len(offsets), np.bool_)
    at = np.minimum(np.searchsorted(wanted, offsets), len(wanted) - 1)
    found: Bools = wanted[at] == offsets
    return found


def _decoded(segment: SegmentReader) -> Iterator[Records]:
    with closing(segment):
        for window in segment.batches(window_bytes=WINDOW_BYTES):
            rows = np.flatnonzero(~window.headers.is_control)
            yield from in_halves(partial(_records_in, segment, window), rows)


def _records_in(segment: SegmentReader, window: Window, rows: Int64s) -> Records:
    return segment.decode(window, rows, COLUMNS).records


def _canonical(records: Records) -> Iterator[bytes]:
    """Yields each record as bytes: offset, timestamp, key, value and headers, each with its length, -1 for null."""
    assert records.keys is not None
    assert records.values is not None
    headers = records.headers.to_list() if records.headers is not None else [[]] * len(records)
    rows = zip(
        records.offsets.tolist(),
        records.timestamps.tolist(),
        records.keys.to_list(),
        records.values.to_list(),
        headers,
        strict=True,
    )
    for offset, timestamp, key, value, pairs in rows:
        strings = [key, value, *(each for pair in pairs for each in pair)]
        yield struct.pack(">qqi", offset, timestamp, len(pairs)) + b"".join(map(_with_length, strings))


def _with_length(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def _runs(offsets: Int64s) -> Iterator[list[int]]:
    """Yields the first and the last of each run of adjacent offsets."""
    ends = np.flatnonzero(np.diff(offsets) != 1)
    lasts = np.append(ends, len(offsets) - 1) if len(offsets) else ends
    firsts = np.append(0, ends + 1)[: len(lasts)]
    yield from map(list, zip(offsets[firsts].tolist(), offsets[lasts].tolist(), strict=True))


def _too_many(partition: TopicPartition) -> str:
    name = f"{partition.topic}-{partition.partition}"
    return (
        f"--where: is true for more than {CHOSEN_MAX:,} records of {name}: erase them in parts, for example with AND "
        '"offset" < 10000000'
    )
