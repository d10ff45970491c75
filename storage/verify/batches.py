"""Checks of batches beyond their checksums: their order, their header fields, their records.

Damage loses or invents records; notes are encodings that Kafka reads but never writes. What compaction writes (fewer
records than offsets, a delete horizon on ordinary data, empty batches) is neither.
"""

from __future__ import annotations

import zlib
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .. import format as formats
from ..errors import CorruptionError, UnsupportedCompressionTypeError
from ..format.constants import INT32_MAX, TimestampType
from ..format.internal.control_records import ControlType, parse
from ..format.record_columns import Part, fill
from ..format.tables import BatchHeaders, Bools, Int64s, Records
from ..kernels import canonical, records as reading
from ..kernels.arrays import frozen
from ..segment.joining import hides_its_first
from ..segment.walk import Window
from .findings import Findings, Kind

UNUSED_ATTRIBUTES = ~0x7F  # bits 7 to 15
DECODED_BATCHES = 256  # batches decoded at a time: the offsets and timestamps of their records fit the cache

_ODDITIES = (  # bits are given by name, so that a program that only lists partitions loads no kernels
    ("HAS_ATTRIBUTES", Kind.ODD_ATTRIBUTES, "a record has attribute bits, which have no meaning"),
    ("IS_PADDED", Kind.ODD_VARINT, "a number in a record is padded with bytes that it does not need"),
)


class BatchFindings(NamedTuple):
    """Adds findings about the batches of one ``.log`` file."""

    findings: Findings
    path: str

    def add(self, kind: Kind, window: Window, row: int, what: str) -> None:
        """Adds a finding about the batch in row ``row`` of a window; for BAD_RECORDS, all its records are lost."""
        header = window.headers.table[row]
        position, offset = window.position + int(header["position"]), int(header["base_offset"])
        lost = (offset, int(header["last_offset"])) if kind is Kind.BAD_RECORDS else None
        self.findings.add(kind, self.path, what, position=position, offset=offset, lost=lost)


class BatchOrder:
    """Checks that offsets increase from batch to batch, and are at most 2^31 - 1 above the base of the segment."""

    def __init__(self, findings: BatchFindings, base_offset: int) -> None:
        self._findings = findings
        self._base_offset = base_offset
        self.next_offset = base_offset
        self.has_gap_before = False  # damage precedes the next batch
        self.gaps: list[tuple[int, int, int]] = []  # (position, first and last missing offset); only the first few
        self.is_compacted = False  # a batch holds fewer records than offsets, as only compaction produces

    def check(self, window: Window) -> None:
        table = window.headers.table
        expected = np.concatenate(([self.next_offset], table["last_offset"][:-1] + 1))
        self._check_bounds(window, expected)
        self._add_gaps(window, expected)
        spans = table["last_offset"] - table["base_offset"] + 1
        self.is_compacted |= bool(((table["count"] >= 0) & (table["count"] < spans)).any())
        self.next_offset = max(self.next_offset, int(table["last_offset"].max()) + 1)
        self.has_gap_before = False

    def _check_bounds(self, window: Window, expected: Int64s) -> None:
        table = window.headers.table
        base, last = table["base_offset"], table["last_offset"]
        goes_back = (last < expected) | (base < 0)
        for row in np.flatnonzero(goes_back).tolist():
            what = f"offsets {base[row]} to {last[row]} follow offset {expected[row] - 1}"
            self._findings.add(Kind.OFFSETS_GO_BACK, window, row, what)
        for row in np.flatnonzero((base < expected) & ~goes_back).tolist():
            what = f"offsets {base[row]} to {last[row]} overlap with the batch before, up to {expected[row] - 1}"
            self._findings.add(Kind.OFFSETS_OVERLAP, window, row, what)
        for row in np.flatnonzero(last - self._base_offset > INT32_MAX).tolist():
            what = f"offset {last[row]} is more than 2^31 - 1 above the segment's base"
            self._findings.add(Kind.OFFSET_OVERFLOW, window, row, what)

    def _add_gaps(self, window: Window, expected: Int64s) -> None:
        """Adds up to three gaps between batches to ``gaps``; ignores wrappers of magic 0 and 1.

        The header of a wrapper has no first offset, so a gap before it is unknown.
        """
        table = window.headers.table
        is_gap = (table["base_offset"] > expected) & ~hides_its_first(window.headers)
        is_gap[0] &= not self.has_gap_before
        for row in np.flatnonzero(is_gap)[:3].tolist():
            position = window.position + int(table["position"][row])
            self.gaps.append((position, int(expected[row]), int(table["base_offset"][row]) - 1))
        del self.gaps[3:]


def check_headers(findings: BatchFindings, window: Window) -> None:
    """Adds findings for header fields of magic 2 with values that no Kafka client or broker writes."""
    table, headers = window.headers.table, window.headers
    is_new = table["magic"] >= 2
    has_producer = table["producer_id"] >= 0
    odd: list[tuple[Kind, Bools, str]] = [
        (
            Kind.ODD_ATTRIBUTES,
            (table["attributes"] & UNUSED_ATTRIBUTES) != 0,
            "attribute bits are set that have no meaning",
        ),
        (Kind.ODD_PRODUCER, headers.is_transactional & ~has_producer, "a transactional batch without a producer"),
        (Kind.ODD_PRODUCER, has_producer & (table["producer_epoch"] < 0), "a producer without an epoch"),
        (Kind.ODD_PRODUCER, table["base_sequence"] < -1, "a negative base sequence"),
        (Kind.ODD_OFFSETS, table["last_offset"] < table["base_offset"], "the last offset is below the first"),
        (
            Kind.ODD_OFFSETS,
            table["count"] > table["last_offset"] - table["base_offset"] + 1,
            "more records than offsets",
        ),
    ]
    for kind, rows, what in odd:
        for row in np.flatnonzero(rows & is_new).tolist():
            findings.add(kind, window, row, what)


class RecordChecks:
    """Decodes every batch, checks its records, and counts them in ``records``, without markers."""

    def __init__(self, findings: BatchFindings, decompressed_bytes_max: int) -> None:
        self._findings = findings
        self._decompressed_bytes_max = decompressed_bytes_max
        self.records = 0

    def check(self, window: Window) -> None:
        for first in range(0, len(window.headers), DECODED_BATCHES):
            rows = np.arange(first, min(first + DECODED_BATCHES, len(window.headers)))
            if not self._decode(window, rows):
                for row in rows.tolist():  # one is bad: check and count them one by one
                    self._decode(window, np.array([row]))
        for row in np.flatnonzero(window.headers.is_control & (window.headers.table["count"] > 0)).tolist():
            self._check_control(window, row)

    def _decode(self, window: Window, rows: Int64s) -> bool:
        try:
            parts = _parts(window, window.headers[rows], self._decompressed_bytes_max)
            if self._are_plain(window, rows, parts):
                return True
            records, counts = fill(parts, ()), _counts(window.headers[rows], parts)
        except (CorruptionError, UnsupportedCompressionTypeError) as error:
            if len(rows) == 1:
                self._findings.add(
                    Kind.BAD_RECORDS, window, int(rows[0]), f"its checksum is right, but {_reason(error)}"
                )
            return False
        self._count(window, rows, counts)
        self._check_offsets(window, rows, records, counts)
        self._check_timestamps(window, rows, records, counts)
        for part in parts:
            if part.is_legacy:
                self._check_messages(window, rows, part)
            else:
                self._check_bytes(window, rows, part)
        return True

    def _are_plain(self, window: Window, rows: Int64s, parts: list[Part]) -> bool:
        """Whether all records of some batches are as Kafka writes them; if so, counts them."""
        last_offsets = window.headers.table["last_offset"][rows]
        for part in parts:
            of_part, last_offsets = last_offsets[: len(part.table)], last_offsets[len(part.table) :]
            if part.is_legacy or not canonical.are_canonical(frozen(part.source), part.table, frozen(of_part)):
                return False
        self._count(window, rows, window.headers.table["count"][rows])
        return True

    def _count(self, window: Window, rows: Int64s, counts: Int64s) -> None:
        self.records += int(counts[~window.headers.is_control[rows]].sum())

    def _check_bytes(self, window: Window, rows: Int64s, part: Part) -> None:
        """Adds findings for bytes in records of magic 2 that readers ignore and Kafka never writes."""
        found = np.zeros(len(part.table), dtype=np.uint8)
        canonical.find_oddities(frozen(part.source), part.table, found)
        for at in np.flatnonzero(found).tolist():
            row = _row_at(window, rows, int(part.positions[at]))
            for name, kind, what in _ODDITIES:
                bit = getattr(canonical, name)
                if found[at] & bit:
                    self._findings.add(kind, window, row, what)

    def _check_messages(self, window: Window, rows: Int64s, part: Part) -> None:
        """Checks the checksums of messages inside wrappers; the checksum of a plain message is verified before."""
        if part.source is window.buffer:
            return
        source = memoryview(np.ascontiguousarray(part.source))
        for message, position in zip(part.table.tolist(), part.positions.tolist(), strict=True):
            start, stop = message[reading.MESSAGE_START], message[reading.MESSAGE_STOP]
            stored, found = int.from_bytes(source[start : start + 4], "big"), zlib.crc32(source[start + 4 : stop])
            if stored != found:
                offset = message[reading.MESSAGE_OFFSET]
                what = f"the message at offset {offset} in a compressed set: {formats.checksum_text(found, stored)}"
                self._findings.add(Kind.BAD_CHECKSUM, window, _row_at(window, rows, position), what)

    def _check_offsets(self, window: Window, rows: Int64s, records: Records, counts: Int64s) -> None:
        """Checks that offsets of records increase, from the base offset of their batch to its last offset.

        ``counts``: the number of records in each batch of ``rows``.
        """
        table = window.headers.table[rows[counts > 0]]
        firsts = _firsts(counts)
        if not len(firsts):
            return
        steps = np.diff(records.offsets, prepend=records.offsets[0] - 1)
        steps[firsts] = 1
        is_odd = np.minimum.reduceat(steps, firsts) <= 0
        is_odd |= np.maximum.reduceat(records.offsets, firsts) > table["last_offset"]
        is_odd |= (np.minimum.reduceat(records.offsets, firsts) < table["base_offset"]) & (table["magic"] >= 2)
        for row in rows[counts > 0][is_odd].tolist():
            self._findings.add(
                Kind.ODD_OFFSETS, window, row, "offsets of records repeat, decrease or are outside the batch"
            )

    def _check_timestamps(self, window: Window, rows: Int64s, records: Records, counts: Int64s) -> None:
        firsts = _firsts(counts)
        if not len(firsts):
            return
        rows = rows[counts > 0]
        stated = window.headers.table["max_timestamp"][rows]
        largest = np.maximum.reduceat(records.timestamps, firsts)
        is_odd = (largest != stated) & (window.headers.timestamp_type[rows] == TimestampType.CREATE_TIME)
        for index, row in zip(np.flatnonzero(is_odd).tolist(), rows[is_odd].tolist(), strict=True):
            what = f"the header states {stated[index]} as largest timestamp, its records have {largest[index]}"
            self._findings.add(Kind.ODD_TIMESTAMP, window, row, what)

    def _check_control(self, window: Window, row: int) -> None:
        try:
            limit, columns = self._decompressed_bytes_max, ("key", "value")
            batch = window.headers[row : row + 1]
            decoded = formats.decode(window.buffer, batch, columns=columns, decompressed_bytes_max=limit).records
            assert decoded.keys is not None
            assert decoded.values is not None
            pairs = zip(decoded.keys.to_list(), decoded.values.to_list(), strict=True)
            kinds = {parse(key, value)[0] for key, value in pairs}
        except (CorruptionError, UnsupportedCompressionTypeError) as error:
            self._findings.add(Kind.BAD_MARKER, window, row, f"a control record does not parse: {_reason(error)}")
            return
        if ControlType.UNKNOWN in kinds:
            self._findings.add(Kind.ODD_CONTROL, window, row, "a control record has an unknown type and is ignored")


def _row_at(window: Window, rows: Int64s, position: int) -> int:
    """Returns the row, among ``rows``, of the batch that begins at a position of the window's buffer."""
    return int(rows[np.searchsorted(window.headers.table["position"][rows], position)])


def _parts(window: Window, headers: BatchHeaders, decompressed_bytes_max: int) -> list[Part]:
    """Locates the records of some batches, whose checksums were verified before; returns them in log order."""
    parts: list[Part] = []
    magics = headers.table["magic"]
    bounds = [0, *(np.flatnonzero(np.diff(magics)) + 1).tolist(), len(headers)]
    for first, last in pairwise(bounds):
        module = formats.by_magic(int(magics[first]))
        parts += module.parts(window.buffer, headers[first:last], decompressed_bytes_max)
    return parts


def _counts(headers: BatchHeaders, parts: list[Part]) -> Int64s:
    """Returns the number of records of each batch; shape (batches,)."""
    counts: Int64s = headers.table["count"].copy()
    for part in parts:
        if part.is_legacy:
            batches, found = np.unique(part.positions, return_counts=True)
            counts[np.searchsorted(headers.table["position"], batches)] = found
    return counts


def _firsts(counts: Int64s) -> Int64s:
    """Returns the index of the first record of each batch that has records."""
    starts: Int64s = (np.cumsum(counts) - counts)[counts > 0]
    return starts


def _reason(error: Exception) -> str:
    return error.reason if isinstance(error, CorruptionError) else str(error)
