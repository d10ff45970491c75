"""What a read around damage leaves out: exactly the offsets that it does not return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from pyspark_commitlog.storage.format import scan, v2
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.reading.damaged import salvaged_records
from pyspark_commitlog.storage.reading.damaged_parts import damaged_parts
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.reading.reader import LogReader
from tests.support.logs.building import append, open_log, open_reader

BATCHES, SIZE = 8, 3
END = BATCHES * SIZE
SEGMENT_BATCHES = 4  # of the first segment
Spoil = Callable[[bytearray, list[int], int], None]  # the first file, where its batches begin, and their size


@pytest.fixture
def spoiled(tmp_path: Path) -> Callable[[Spoil], LogReader]:
    def make(spoil: Spoil) -> LogReader:
        log = open_log(tmp_path, index_interval_bytes=0)
        for number in range(BATCHES):
            append(log, *(b"%d" % each for each in range(SIZE)))
            if number == SEGMENT_BATCHES - 1:
                log.roll()
        log.close()
        path = tmp_path / file_names.segment_file(0, file_names.LOG)
        data = bytearray(path.read_bytes())
        table = scan(np.frombuffer(bytes(data), dtype=np.uint8)).headers.table
        spoil(data, table["position"].tolist(), int(table["size"][0]))
        path.write_bytes(data)
        return open_reader(tmp_path, KeptInMemory(recovery_point=END))

    return make


def flip(*numbers: int) -> Spoil:
    def spoil(data: bytearray, positions: list[int], size: int) -> None:
        for number in numbers:
            data[positions[number] + size - 2] ^= 1

    return spoil


def zeroes(data: bytearray, positions: list[int], size: int) -> None:
    data[positions[1] : positions[3]] = bytes(2 * size)


def record_too_long(data: bytearray, positions: list[int], size: int) -> None:
    data[positions[2] + v2.LAYOUT.itemsize] = 0x7E
    v2.sign(np.frombuffer(data, dtype=np.uint8), np.array([positions[2]]), np.array([size]))


@pytest.mark.parametrize(
    ("spoil", "batches", "missing"),
    [
        pytest.param(flip(), 0, [], id="sound"),
        pytest.param(flip(0), 1, range(3), id="the first batch"),
        pytest.param(flip(1, 2), 2, range(3, 9), id="two batches beside each other"),
        pytest.param(flip(0, 2), 2, [0, 1, 2, 6, 7, 8], id="two batches apart"),
        pytest.param(flip(3), 1, range(9, 12), id="the last batch of a segment"),
        pytest.param(zeroes, 1, range(3, 9), id="no header is readable"),
        pytest.param(record_too_long, 1, range(6, 9), id="records do not decode"),
    ],
)
def test_what_is_skipped_are_the_offsets_that_are_not_returned(
    spoiled: Callable[[Spoil], LogReader], spoil: Spoil, batches: int, missing: Sequence[int]
) -> None:
    with spoiled(spoil) as reader:
        parts = damaged_parts(reader, 0, END)
        returned = [offset for part in salvaged_records(reader, 0, END, lambda _: None) for offset in part.offsets]
    assert sum(part.size > 0 for part in parts) == batches
    assert [offset for part in parts for offset in part.offsets] == list(missing)
    assert sorted(set(range(END)) - set(returned)) == list(missing)


def test_a_read_that_ends_inside_a_damaged_batch_and_the_next_one_find_one_batch(
    spoiled: Callable[[Spoil], LogReader],
) -> None:
    with spoiled(flip(1)) as reader:
        before, after = (part for start, end in ((0, 4), (4, END)) for part in damaged_parts(reader, start, end))
    assert before[:3] == after[:3]
    assert before.with_part(after).offsets == range(3, 6)
