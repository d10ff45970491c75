"""Checks the key filter of a segment: it must be whole and have every key, or searches would miss records."""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

from ..errors import CorruptionError
from ..key_filters.files import FilterFiles
from ..key_filters.filter_file import FilterFile, KeyFilter
from ..key_filters.making import key_hashes, segment_id
from ..segment.reader import SegmentReader
from ..segment.walk import LogContext
from .findings import Findings, Kind


class FilterPlace(NamedTuple):
    """The file that has the filter of a segment, if there is one."""

    name: str
    is_first: bool  # the first segment of this file, which gets the findings about the file as a whole


def check_key_filter(context: LogContext, base_offset: int, place: FilterPlace, findings: Findings) -> None:
    """Adds findings about the filter of a sound, closed segment, if it has one; reads the segment once more."""
    files = FilterFiles(context, [place.name])
    try:
        with files.opened(place.name) as file, closing(SegmentReader(context, base_offset)) as segment:
            row = None if file is None else file.row_of(base_offset)
            if file is not None and row is not None:
                _check(file, row, segment, findings)
    except CorruptionError as error:
        if place.is_first:
            findings.add(Kind.BAD_KEY_FILTER, files.path(place.name), error.reason)


def _check(file: FilterFile, row: int, segment: SegmentReader, findings: Findings) -> None:
    offset = segment.base_offset
    if file.segment(row) != segment_id(segment):
        what = "the filter is of another segment, or of this one as it was"
        findings.add(Kind.OLD_KEY_FILTER, file.path, what, offset=offset)
        return
    try:
        reason = _fault(file.filter(row), segment)
    except CorruptionError as error:
        reason = error.reason
    if reason is not None:
        findings.add(Kind.BAD_KEY_FILTER, file.path, reason, offset=offset)


def _fault(found: KeyFilter, segment: SegmentReader) -> str | None:
    next_offset = segment.base_offset
    for hashes, next_offset in key_hashes(segment):  # noqa: B007  the last one counts
        if not found.holds_all(hashes):
            return "the filter lacks a key of the segment: searches miss records"
    if found.next_offset != next_offset:
        return f"the filter says that the segment ends before offset {found.next_offset}, but it is {next_offset}"
    return None
