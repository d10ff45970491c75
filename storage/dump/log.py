"""Dumps a ``.log``: one line per batch and, if asked for, one line per record (``DumpLogSegments.dumpLog``).

Lines are made from columns, for many batches at a time: no record becomes an object. Memory holds two windows of the
file, since one is read while the lines of another are made, and the decompressed batches of one window.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import format as formats
from ..errors import CorruptionError, InvalidRecordError, LogStoreError, NotALogDirError
from ..filesystem.port import FileSystem
from ..format.constants import INT32_MAX, NO_SEQUENCE, Codec
from ..format.record_columns import ALL_COLUMNS
from ..format.tables import BatchHeaders, BinaryColumn, Bools, Int64s, Records
from ..prefetch import one_ahead
from . import files
from .brokers import control_fields
from .damaged_batches import message_checksums, salvage
from .files import Window, base_offset_of, end_of, opened, windows
from .layouts import Layout
from .options import DumpFindings, DumpOptions
from .payloads import Contents, as_text, decoder_for

COMPRESSED_BYTES_MAX = 1 << 17  # of batches decompressed together, which may grow a hundredfold

BOOTSTRAP_SNAPSHOT = "bootstrap.checkpoint"

_FIELDS_OF_PRODUCERS = ("baseSequence", "lastSequence", "producerEpoch", "partitionLeaderEpoch")
_CODEC_NAMES = {codec.value: codec.name.lower() for codec in Codec}


class LogDump:
    """The dump of one ``.log``, or of a ``.checkpoint``, which has the same format."""

    def __init__(self, path: str, options: DumpOptions, layout: Layout, findings: DumpFindings) -> None:
        self.path = path
        self.options = options
        self.layout = layout
        self.findings = findings
        self.last_offset = -1 if layout.counts_from_zero else None  # of the last record shown
        self.valid_bytes = 0  # bytes before the first that belongs to no batch

    def lines(self, filesystem: FileSystem) -> Iterator[list[str]]:
        """Yields the lines of the dump, in lists. For damage, raises CorruptionError after all lines before it."""
        yield [self._start()]
        with opened(filesystem, self.path) as file:
            end = end_of(file, self.options.max_bytes)
            window_bytes = files.WINDOW_BYTES if self.options.prints_records else files.HEADERS_WINDOW_BYTES
            with closing(one_ahead(windows(file, end, window_bytes))) as read:
                for window in read:
                    for rows in _runs(window.headers):
                        yield from self._run(window, window.headers[rows])
                    self.valid_bytes = window.position + window.headers.end
            trailing = end - self.valid_bytes
            if trailing and self.options.max_bytes == INT32_MAX:
                name = self.path.rpartition("/")[2]
                yield [self.layout.note(f"Found {trailing} invalid bytes at the end of {name}")]

    def _start(self) -> str:
        if not self.path.endswith(".checkpoint"):
            return self.layout.note(self.layout.starting_offset % base_offset_of(self.path))
        name = self.path.rpartition("/")[2].removesuffix(".checkpoint")
        if name == BOOTSTRAP_SNAPSHOT.removesuffix(".checkpoint"):
            return self.layout.note("KRaft bootstrap snapshot")
        offset, _, epoch = name.partition("-")
        if not (offset.isdecimal() and epoch.isdecimal()):
            raise NotALogDirError(
                f"{self.path}: a snapshot is named after its end offset and its epoch, such as "
                "00000000000000000007-0000000003.checkpoint"
            )
        return self.layout.note(f"Snapshot end offset: {int(offset)}, epoch: {int(epoch)}")

    def _run(self, window: Window, headers: BatchHeaders) -> Iterator[list[str]]:
        """Yields the lines of batches of one format, with those of their records if the options ask for records."""
        batches = _batch_columns(window, headers)
        lines = self.layout.lines(_kind("batch", headers), batches)
        if not self.options.prints_records:
            yield lines
            return
        try:
            records, counts = formats.decode(window.buffer, headers, columns=ALL_COLUMNS)
            record_lines = self._record_lines(window, headers, batches, records, counts)
        except LogStoreError:
            yield from self._damaged_run(window, headers, batches, lines)
            return
        self._note_gaps(records)
        yield _interleave(lines, record_lines, counts)

    def _damaged_run(
        self, window: Window, headers: BatchHeaders, batches: dict[str, list[Any]], lines: list[str]
    ) -> Iterator[list[str]]:
        """Yields the lines of batches one by one, up to the damage that the batches contain; then raises the error."""
        for at, line in enumerate(lines):
            header = headers[at : at + 1]
            columns = {name: values[at : at + 1] for name, values in batches.items()}
            yield [line]
            records, error = salvage(window.buffer, header, ALL_COLUMNS)
            counts = np.array([len(records)], dtype=np.int64)
            try:
                yield self._record_lines(window, header, columns, records, counts)
            except LogStoreError as unreadable:
                error = unreadable
            self._note_gaps(records)
            if error is not None:
                raise _at(error, self.path, columns["position"][0]) from error

    def _note_gaps(self, records: Records) -> None:
        self.findings.add_gaps(self.path, self.last_offset, records.offsets)
        if len(records):
            self.last_offset = int(records.offsets[-1])

    def _record_lines(
        self, window: Window, headers: BatchHeaders, batches: dict[str, list[Any]], records: Records, counts: Int64s
    ) -> list[str]:
        if not len(records):
            return []
        control = np.repeat(headers.is_control, counts)
        contents = self._contents(records, control)
        if self.options.skip_record_metadata:
            return self.layout.contents_only({"key": contents.keys, "payload": contents.payloads})
        columns = _record_columns(records)
        if headers.table["magic"][0] >= 2:
            columns |= _sequence_columns(headers, records, counts)
        else:
            checksums = message_checksums(window.buffer, headers)
            columns |= {"isValid": checksums.valid[: len(records)], "crc": checksums.crcs[: len(records)]}
        columns |= {"control": _control(records, control), "key": contents.keys, "payload": contents.payloads}
        if self.layout.repeats_batch:
            columns = {"isValid": [True] * len(records), "crc": [None] * len(records)} | columns
            columns |= _repeated(batches, records, counts)
        return self.layout.lines(_kind("record", headers), columns)

    def _contents(self, records: Records, control: Bools) -> Contents:
        """Returns keys and payloads as text; None for control records, and for all if the options do not show them."""
        if not self.options.prints_contents:
            return Contents([None] * len(records), [None] * len(records))
        return decoder_for(self.options)(records, control)


def _at(error: LogStoreError, path: str, position: int) -> LogStoreError:
    """Returns the error with the path and the position of the batch."""
    return type(error)(error.reason, path=path, position=position) if isinstance(error, CorruptionError) else error


def _runs(headers: BatchHeaders) -> Iterator[slice]:
    """Yields slices of batches to process together: one format each, and not too many compressed bytes."""
    legacy = headers.table["magic"] < 2
    compressed = np.cumsum(np.where(headers.codec != 0, headers.table["size"], 0)) // COMPRESSED_BYTES_MAX
    cuts = np.flatnonzero(np.diff(legacy) | (np.diff(compressed) != 0)) + 1
    yield from (slice(first, last) for first, last in pairwise([0, *cuts.tolist(), len(headers)]))


def _kind(what: str, headers: BatchHeaders) -> str:
    return what if headers.table["magic"][0] >= 2 else f"legacy {what}"


def _interleave(batch_lines: list[str], record_lines: list[str], counts: Int64s) -> list[str]:
    lines, at = [], 0
    for line, count in zip(batch_lines, counts.tolist(), strict=True):
        lines.append(line)
        lines += record_lines[at : at + count]
        at += count
    return lines


def _batch_columns(window: Window, headers: BatchHeaders) -> dict[str, list[Any]]:
    """Returns the columns of the lines "batch" and "legacy batch", under the names of Kafka's text."""
    table = headers.table
    columns: dict[str, npt.NDArray[Any] | list[Any]] = {
        "baseOffset": table["base_offset"],
        "lastOffset": table["last_offset"],
    }
    if table["magic"][0] >= 2:
        horizons = zip(headers.has_delete_horizon.tolist(), table["base_timestamp"].tolist(), strict=True)
        columns |= {
            "count": table["count"],
            "baseSequence": table["base_sequence"],
            "lastSequence": _last_sequences(table),
            "producerId": table["producer_id"],
            "producerEpoch": table["producer_epoch"],
            "partitionLeaderEpoch": table["leader_epoch"],
            "isTransactional": headers.is_transactional,
            "isControl": headers.is_control,
            "deleteHorizonMs": [timestamp if there else None for there, timestamp in horizons],
        }
    columns |= {
        "position": table["position"] + window.position,
        "timestampType": headers.timestamp_type,
        "maxTimestamp": table["max_timestamp"],
        "size": table["size"],
        "magic": table["magic"],
        "compresscodec": [_CODEC_NAMES.get(codec, f"unknown({codec})") for codec in headers.codec.tolist()],
        "crc": table["crc"],
        "isvalid": formats.checksums_match(window.buffer, headers),
    }
    return {name: values if isinstance(values, list) else values.tolist() for name, values in columns.items()}


def _last_sequences(table: npt.NDArray[np.void]) -> Int64s:
    base = table["base_sequence"].astype(np.int64)
    return np.where(base == NO_SEQUENCE, base, _advanced(base, table["last_offset"] - table["base_offset"]))


def _advanced(sequences: Int64s, by: Int64s) -> Int64s:
    """Returns sequences plus ``by``; sequences wrap from 2^31 - 1 to 0."""
    moved = sequences + by
    return np.where(moved > INT32_MAX, moved - 2**31, moved)


def _record_columns(records: Records) -> dict[str, Any]:
    assert records.keys is not None
    assert records.values is not None
    return {
        "offset": records.offsets.tolist(),
        "timestampType": records.timestamp_types.tolist(),
        "timestamp": records.timestamps.tolist(),
        "keySize": _sizes(records.keys),
        "valueSize": _sizes(records.values),
    }


def _sizes(column: BinaryColumn) -> list[int]:
    """Returns the size of each value in bytes, -1 for null."""
    sizes = np.diff(column.offsets)
    found: list[int] = (sizes if column.valid is None else np.where(column.valid, sizes, -1)).tolist()
    return found


def _sequence_columns(headers: BatchHeaders, records: Records, counts: Int64s) -> dict[str, Any]:
    base_sequences = np.repeat(headers.table["base_sequence"].astype(np.int64), counts)
    deltas = records.offsets - np.repeat(headers.table["base_offset"], counts)
    sequences = np.where(base_sequences < 0, NO_SEQUENCE, _advanced(base_sequences, deltas))
    return {"sequence": sequences.tolist(), "headerKeys": _header_keys(records)}


def _header_keys(records: Records) -> list[list[str | None]]:
    if records.headers is None:
        return [[]] * len(records)
    keys = as_text(records.headers.keys)
    return [keys[a:b] for a, b in pairwise(records.headers.offsets.tolist())]


def _control(records: Records, control: Bools) -> list[dict[str, object] | None]:
    """Returns the fields of control records; None for data."""
    found: list[dict[str, object] | None] = [None] * len(records)
    for row in np.flatnonzero(control).tolist():
        try:
            found[row] = control_fields(_bytes_at(records.keys, row), _bytes_at(records.values, row))
        except InvalidRecordError as error:
            raise InvalidRecordError(f"the record at offset {records.offsets[row]}: {error.reason}") from error
    return found


def _bytes_at(column: BinaryColumn | None, row: int) -> bytes:
    """Returns the bytes of a value; no bytes for null."""
    assert column is not None
    return column.data[column.offsets[row] : column.offsets[row + 1]].tobytes()


def _repeated(batches: dict[str, list[Any]], records: Records, counts: Int64s) -> dict[str, Any]:
    """Returns the columns of batches, named ``batch.<name>``, with one row per record of the batches."""
    if "count" not in batches:  # legacy: no producer, and the header lacks the first offset
        firsts = records.offsets[np.cumsum(counts) - counts].tolist()
        none = {name: [-1] * len(firsts) for name in _FIELDS_OF_PRODUCERS}
        batches = batches | none | {"baseOffset": firsts}
    rows = np.repeat(np.arange(len(counts)), counts).tolist()
    return {f"batch.{name}": [values[row] for row in rows] for name, values in batches.items()}
