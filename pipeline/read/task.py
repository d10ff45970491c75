"""Reads one task's range of offsets by the options, even if the log has changed since the task was planned."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ...arrow.batches import check_nulls, to_batch
from ...arrow.columns import IN_RECORDS
from ...storage import (
    ALL_TIMES,
    CorruptionError,
    KeyChoice,
    LogReader,
    OffsetOutOfRangeError,
    Records,
    Timespan,
    salvaged_records,
)
from ..rows.read_mode import ReadMode
from .internal_topics import DECODED_FROM
from .options import ReadOptions
from .task_ranges import OffsetRange

logger = logging.getLogger(__name__)


def batches_of(
    log: LogReader,
    part: OffsetRange,
    options: ReadOptions,
    schema: pa.Schema,
    timespan: Timespan = ALL_TIMES,
    keys: KeyChoice | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yields the records of ``part`` that ``options`` select, as Arrow batches with the columns of ``schema``.

    With ``keys``, only records with one of these keys. Raises and logs the same as :func:`records_of`. Also raises
    InvalidRecordError for a null in a NOT NULL column, and TimeBeyondSparkError for a time that does not fit Spark's
    timestamps (with ``mode=permissive``, it is null).
    """
    decode = options.columns.decode
    asked = DECODED_FROM if decode else [name for name in schema.names if name in IN_RECORDS]
    make = decode.to_batch if decode else to_batch
    for records in records_of(log, part, options, asked, timespan, keys):
        batch = make(records, part.source, schema, null_times=options.mode is ReadMode.PERMISSIVE)
        check_nulls(batch, f"offsets {records.offsets[0]} to {records.offsets[-1]} of {part.source}")
        yield batch


def records_of(
    log: LogReader,
    part: OffsetRange,
    options: ReadOptions,
    columns: Collection[str],
    timespan: Timespan = ALL_TIMES,
    keys: KeyChoice | None = None,
) -> Iterator[Records]:
    """Yields the records of ``part`` that ``options`` select, in order; skips batches without times in ``timespan``.

    With ``keys``, yields only records with one of these keys, and skips segments whose key filter has none of them.

    Retention may delete planned records before or during the read, and a log may be truncated. Lost records raise
    OffsetOutOfRangeError, or are logged (``failOnDataLoss``). Damage raises CorruptionError, or is logged and skipped
    (``mode``).
    """
    if readable_end(log, options) < part.end:
        log.refresh()  # opens its files again: until then, NFS may give the size that another machine has outgrown
    parts = [range(part.start, part.end)] if keys is None else keys.parts(log, part.start, part.end)
    for each in parts:
        yield from _records(log, replace(part, start=each.start, end=each.stop), options, columns, timespan, keys)
    behind = readable_end(log, options)
    if behind < part.end:
        options.loss.report(
            OffsetOutOfRangeError,
            f"{part.source} now ends at {behind}, but was to be read up to {part.end}: it was truncated, or exchanged",
        )


def _records(
    log: LogReader,
    part: OffsetRange,
    options: ReadOptions,
    columns: Collection[str],
    timespan: Timespan,
    keys: KeyChoice | None,
) -> Iterator[Records]:
    start = part.start
    while start < part.end:
        if start < log.log_start_offset:
            until = min(log.log_start_offset, part.end)
            _report_deleted(range(start, until), part, options)
            start = until
        try:
            for records in _pieces(log, OffsetRange(part.source, start, part.end), options, columns, timespan, keys):
                yield records
                start = int(records.offsets[-1]) + 1
            break
        except OffsetOutOfRangeError:
            if log.log_start_offset <= start:
                raise


def _report_deleted(offsets: range, part: OffsetRange, options: ReadOptions) -> None:
    what = f"offsets {offsets[0]} to {offsets[-1]} of {part.source} were deleted before they were read"
    options.loss.report(OffsetOutOfRangeError, what)


def readable_end(log: LogReader, options: ReadOptions) -> int:
    """Returns the log end offset, or the last stable offset, by ``isolation.level``.

    With ``mode=dropmalformed``, returns the last such offset that damage does not hide.
    """
    if options.mode is not ReadMode.DROP_MALFORMED:
        return log.end_offset(options.isolation)
    with log.despite_damage():
        return log.end_offset(options.isolation)


def offset_at(log: LogReader, timestamp_ms: int, options: ReadOptions) -> int | None:
    """Returns the offset of the first record, visible by ``options``, at or after a time; None if there is none.

    Raises CorruptionError if the search meets damage; with ``mode=dropmalformed``, searches the readable records.
    """
    try:
        found = log.offset_for_timestamp(timestamp_ms, options.isolation)
    except CorruptionError as damage:
        if options.mode is not ReadMode.DROP_MALFORMED:
            raise
        logger.warning("%s; the search for the starting time skips it, because option mode is dropmalformed", damage)
        return _first_salvaged(log, timestamp_ms, options)
    return None if found is None else found.offset


def behind_lost(log: LogReader, part: OffsetRange, options: ReadOptions) -> OffsetRange:
    """Returns ``part`` without the offsets of first segments that were lost.

    Raises MissingSegmentError if ``part`` has any of them, or logs it (``mode`` or ``failOnDataLoss``).
    """
    lost = log.lost_start()
    if lost is None or part.size <= 0 or part.start >= log.log_start_offset:
        return part
    if options.mode is ReadMode.DROP_MALFORMED:
        logger.warning("%s; skipped, because of option mode", lost)
    else:
        options.loss.report(type(lost), str(lost))
    return replace(part, start=min(log.log_start_offset, part.end))


def _first_salvaged(log: LogReader, timestamp_ms: int, options: ReadOptions) -> int | None:
    bounds, isolation = (log.log_start_offset, readable_end(log, options)), options.isolation
    span = Timespan(first=timestamp_ms)
    for records in salvaged_records(log, *bounds, logger.debug, isolation=isolation, columns=(), timespan=span):
        hits = np.flatnonzero(records.timestamps >= timestamp_ms)
        if len(hits):
            return int(records.offsets[hits[0]])
    return None


def _pieces(
    log: LogReader,
    part: OffsetRange,
    options: ReadOptions,
    columns: Collection[str],
    timespan: Timespan,
    keys: KeyChoice | None,
) -> Iterator[Records]:
    if options.mode is ReadMode.DROP_MALFORMED:
        return _salvaged(log, part, options, columns, timespan, keys)
    return log.records(
        part.start, part.end, isolation=options.isolation, columns=columns, timespan=timespan, choice=keys
    )


def _salvaged(
    log: LogReader,
    part: OffsetRange,
    options: ReadOptions,
    columns: Collection[str],
    timespan: Timespan,
    keys: KeyChoice | None,
) -> Iterator[Records]:
    """Yields the readable records of a damaged log; logs every corrupt batch, and their number at the end."""
    skipped = 0

    def skip(damage: CorruptionError) -> None:
        nonlocal skipped
        skipped += 1
        logger.warning("%s; skipped, because of option mode", damage)

    yield from salvaged_records(
        log,
        part.start,
        part.end,
        skip,
        isolation=options.isolation,
        columns=columns,
        timespan=timespan,
        choice=keys,
        report_deleted=lambda offsets: _report_deleted(offsets, part, options),
    )
    if skipped:
        logger.warning(
            "%s: skipped %d corrupt batches in offsets %d to %d", part.source, skipped, part.start, part.end - 1
        )
