"""Checks the key filter of a segment: it must be whole and have every key, or searches would miss records."""

from __future__ import annotations

from ..errors import CorruptionError
from ..key_filters.filter_file import KeyFilter
from ..key_filters.making import key_hashes
from ..key_filters.reading import filter_path, read_filter, segment_id
from ..segment.reader import SegmentReader
from ..segment.walk import LogContext
from .findings import Findings, Kind


def check_key_filter(context: LogContext, base_offset: int, findings: Findings) -> None:
    """Adds what is wrong with the filter of a sound, closed segment, if it has one; reads the segment once more."""
    segment = SegmentReader(context, base_offset)
    path = filter_path(segment)
    try:
        found = read_filter(segment)
        if found is not None and found.segment != segment_id(segment):
            findings.add(Kind.OLD_KEY_FILTER, path, "the filter is of another segment, or of this one as it was")
        elif found is not None:
            _compare(found, segment, findings)
    except CorruptionError as error:
        findings.add(Kind.BAD_KEY_FILTER, path, error.reason)
    finally:
        segment.close()


def _compare(found: KeyFilter, segment: SegmentReader, findings: Findings) -> None:
    next_offset, path = segment.base_offset, filter_path(segment)
    for hashes, next_offset in key_hashes(segment):  # noqa: B007  the last one counts
        if not found.may_hold(hashes).all():
            findings.add(Kind.BAD_KEY_FILTER, path, "the filter lacks a key of the segment: searches miss records")
            return
    if found.next_offset != next_offset:
        reason = f"the filter says that the segment ends before offset {found.next_offset}, but it is {next_offset}"
        findings.add(Kind.BAD_KEY_FILTER, path, reason)
