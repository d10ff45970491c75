"""Arrow batches on their way to the thread that writes them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from pyspark_commitlog.pipeline.writer import PART_BYTES, table_bytes, write_behind
from tests.support.waiting import soon

Batch = pa.RecordBatch
CAME_IN_TIME_S = 60


def batch(*rows: int) -> Batch:
    return Batch.from_pydict({"value": pa.array(rows, pa.int64())})


class Slow:
    """Writes nothing until it may; what it was given."""

    def __init__(self) -> None:
        self.tables: list[list[int]] = []
        self.began, self.may_go_on = threading.Event(), threading.Event()

    def __call__(self, table: Batch) -> None:
        self.tables.append(table.column("value").to_pylist())
        self.began.set()
        assert self.may_go_on.wait(CAME_IN_TIME_S)


TWO_ROWS = batch(1, 2).nbytes


def of_two_rows(_: int) -> int:
    return TWO_ROWS


def test_small_batches_are_written_as_one_table_and_a_large_one_as_it_is() -> None:
    write = Slow()
    write.may_go_on.set()
    write_behind(iter([batch(0), batch(), batch(1), batch(2, 3, 4), batch(5)]), write, of_two_rows)
    assert write.tables == [[0, 1], [2, 3, 4], [5]]


def test_each_table_is_as_large_as_is_asked_for_behind_those_before_it() -> None:
    write = Slow()
    write.may_go_on.set()
    write_behind((batch(number) for number in range(8)), write, lambda written: TWO_ROWS + written)
    assert write.tables == [[0, 1], [2, 3, 4, 5], [6, 7]]


def test_one_table_is_taken_while_another_is_written_and_no_more_however_slow_that_is() -> None:
    write = Slow()
    taken = []

    def batches() -> Iterator[Batch]:
        for number in range(9):
            taken.append(number)
            yield batch(number)

    thread = threading.Thread(target=write_behind, args=(batches(), write, of_two_rows))
    thread.start()
    assert write.began.wait(CAME_IN_TIME_S)
    soon(lambda: taken == [0, 1, 2, 3])
    thread.join(0.2)  # time to take more than it should
    assert taken == [0, 1, 2, 3]
    write.may_go_on.set()
    thread.join()
    assert write.tables == [[0, 1], [2, 3], [4, 5], [6, 7], [8]]


@pytest.mark.parametrize("at", [0, 1, 9])
def test_error_of_the_writing_is_raised_and_nothing_is_written_after_it(at: int) -> None:
    tried: list[list[int]] = []

    def write(table: Batch) -> None:
        tried.append(table.column("value").to_pylist())
        if at in tried[-1]:
            raise OSError(f"no space for {at}")

    with pytest.raises(OSError, match=f"no space for {at}"):
        write_behind((batch(number) for number in range(10)), write, of_two_rows)
    assert at in tried[-1]


def test_where_there_are_no_rows_nothing_is_written() -> None:
    write = Slow()
    write_behind(iter([batch()]), write, of_two_rows)
    assert write.tables == []


def test_tables_grow_with_what_was_written_up_to_some_size() -> None:
    sizes = [table_bytes(4, written) for written in (0, 8 * 2**20, 16 * 2**20, 32 * 2**20, 2**40)]
    assert sizes == [4 * 2**20, 4 * 2**20, 8 * 2**20, 16 * 2**20, 16 * 2**20]


def test_many_partitions_get_larger_tables_so_that_each_part_has_much_in_it_up_to_some_size() -> None:
    sizes = [table_bytes(partitions, 0) for partitions in (1, 64, 65, 400, 512, 10_000)]
    assert sizes == [4 * 2**20, 4 * 2**20, 65 * PART_BYTES, 400 * PART_BYTES, 32 * 2**20, 32 * 2**20]
