"""Which filters come into one file, and which files are written again."""

from __future__ import annotations

import numpy as np

from pyspark_commitlog.storage.filtering.packing import Packed, Source, packed_in_files, write_files
from pyspark_commitlog.storage.key_filters.filter_file import ROW, KeyFilter, SegmentId

FILE_BYTES = 990
A, B = "00000000000000000000.keyfilter", "00000000000000000003.keyfilter"


def made(base_offset: int, size: int = 100, source: Source | None = None) -> Packed:
    bits = np.zeros(size - ROW.itemsize, dtype=np.uint8)
    return Packed(KeyFilter(SegmentId(base_offset, 1, 1, 1), base_offset + 1, bits), source)


def kept(name: str, *base_offsets: int, size: int = 100) -> list[Packed]:
    """All filters of a file."""
    source = Source(name, len(base_offsets), size * len(base_offsets))
    return [made(offset, size, source) for offset in base_offsets]


def packed(filters: list[Packed]) -> list[list[int]]:
    groups = packed_in_files(filters, FILE_BYTES)
    return [[each.filter.segment.base_offset for each in group] for group in groups]


def written(filters: list[Packed]) -> list[str]:
    names = list[str]()
    write_files(packed_in_files(filters, FILE_BYTES), lambda name, _: names.append(name))
    return names


def test_files_are_filled_and_a_large_filter_has_one_of_its_own() -> None:
    assert packed([made(n, 400) for n in range(5)]) == [[0, 1], [2, 3], [4]]
    assert packed([made(0, 400), made(1, 3000), made(2, 400)]) == [[0], [1], [2]]
    assert packed([]) == []


def test_new_filters_join_the_last_file_while_it_has_room() -> None:
    assert packed([*kept(A, 0, 1, 2), made(3), made(4)]) == [[0, 1, 2, 3, 4]]
    assert packed([*kept(A, 0, 1, 2, size=300), made(3)]) == [[0, 1, 2], [3]]


def test_a_file_is_joined_as_a_whole_or_not_at_all() -> None:
    assert packed([*kept(A, 0, 1, 2), *kept(B, 3, 4, 5)]) == [[0, 1, 2, 3, 4, 5]]
    assert packed([*kept(A, 0, 1, 2), *kept(B, 3, 4, 5, size=300)]) == [[0, 1, 2], [3, 4, 5]]


def test_files_are_written_again_only_if_they_change() -> None:
    full = kept(B, 3, 4, 5, size=300)
    assert written([*kept(A, 0, 1, 2), *full]) == []
    assert written([*kept(A, 0, 1, 2, size=300), *full, made(6)]) == ["00000000000000000006.keyfilter"]
    assert written([*kept(A, 0, 1, 2)[:2], *full]) == [A]
    assert written([*kept(A, 0, 1, 2)[1:], *full]) == ["00000000000000000001.keyfilter"]
    assert written([*kept(A, 0, 1)[:1], made(1), *kept(A, 0, 1)[1:]]) == [A]


def test_a_file_that_was_split_is_not_joined_again_with_the_next() -> None:
    first = [*kept(A, 0, 1, 2, size=300)[:2], made(2, 500)]
    assert packed([*first, *kept(B, 3, 4, 5, size=300)]) == [[0, 1], [2], [3, 4, 5]]
