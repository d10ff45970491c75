"""Packs the filters of a log into few files, without rewriting many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ..format.files import file_names
from ..key_filters.files import FILE_BYTES
from ..key_filters.filter_file import KeyFilter


class Source(NamedTuple):
    """The file that has a filter already."""

    name: str
    filters: int  # how many filters the file has
    bytes: int


class Packed(NamedTuple):
    """A filter, and the file that it was read from; None: it was made now."""

    filter: KeyFilter
    source: Source | None


def packed_in_files(filters: Iterable[Packed], file_bytes: int = FILE_BYTES) -> Iterator[list[Packed]]:
    """Yields the filters of each file, for filters in the order of their segments.

    The filters of a file stay together, and new ones join the file before them, as long as there is room.
    Two files are joined only if the second fits as a whole: otherwise all later files would be written again, too.
    """
    group, size, source = list[Packed](), 0, None
    for each in filters:
        is_next_file = each.source is not None and each.source != source
        added = each.source.bytes if is_next_file and each.source is not None else each.filter.size
        if group and size + added > file_bytes:
            yield group
            group, size = [], 0
        group.append(each)
        size, source = size + each.filter.size, each.source or source
    if group:
        yield group


def write_files(groups: Iterable[Sequence[Packed]], write: Callable[[str, list[KeyFilter]], object]) -> list[str]:
    """Writes the files that are missing or differ; returns the names of all files."""
    names = list[str]()
    for group in groups:
        name = file_names.segment_file(group[0].filter.segment.base_offset, file_names.KEY_FILTER)
        source = group[0].source
        is_there = source is not None and (source.name, source.filters) == (name, len(group))
        if not (is_there and all(each.source == source for each in group)):
            write(name, [each.filter for each in group])
        names.append(name)
    return names
