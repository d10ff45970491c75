"""Arrow batches on their way to the thread that writes them, and encoded on into the log."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

from pyspark_commitlog.pipeline import writer
from pyspark_commitlog.pipeline.writer import PART_BYTES, table_bytes, write_behind
from pyspark_commitlog.storage import TransactionalWriter
from tests.pipeline.inline_spark import PARTITIONS, Driver, InlineFrame, table
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


def test_small_batches_are_written_as_one_table_and_a_large_one_as_it_is() -> None:
    write = Slow()
    write.may_go_on.set()
    write_behind(iter([batch(0), batch(), batch(1), batch(2, 3, 4), batch(5)]), write, TWO_ROWS)
    assert write.tables == [[0, 1], [2, 3, 4], [5]]


def test_one_table_is_taken_while_another_is_written_and_no_more_however_slow_that_is() -> None:
    write = Slow()
    taken = []

    def batches() -> Iterator[Batch]:
        for number in range(9):
            taken.append(number)
            yield batch(number)

    thread = threading.Thread(target=write_behind, args=(batches(), write, TWO_ROWS))
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
        write_behind((batch(number) for number in range(10)), write, TWO_ROWS)
    assert at in tried[-1]


def test_where_there_are_no_rows_nothing_is_written() -> None:
    write = Slow()
    write_behind(iter([batch()]), write, TWO_ROWS)
    assert write.tables == []


def test_many_partitions_get_larger_tables_so_that_each_part_has_much_in_it_up_to_some_size() -> None:
    sizes = [table_bytes(partitions) for partitions in (1, 4, 64, 256, 512, 10_000)]
    assert sizes == [8 * 2**20, 8 * 2**20, 8 * 2**20, 256 * PART_BYTES, 32 * 2**20, 32 * 2**20]


NAMES = [f"row {number}" for number in range(40)]
EACH = [table(NAMES[first : first + 8]) for first in range(0, 40, 8)]  # has rows for both partitions


@pytest.mark.parametrize(("append_bytes", "times"), [(1, 5), (2 * EACH[0].nbytes, 3), (writer.APPEND_BYTES, 1)])
def test_tables_are_appended_together_once_there_is_much_of_them_and_at_the_end(
    tmp_path: Path, append_bytes: int, times: int
) -> None:
    driver = Driver(str(tmp_path))
    appending = mock.patch.object(TransactionalWriter, "append", autospec=True, side_effect=TransactionalWriter.append)
    with driver.running() as write, appending as append, mock.patch.object(writer, "APPEND_BYTES", append_bytes):
        written = write(InlineFrame([EACH]), 0)  # type: ignore[arg-type]
    assert append.call_count == times * PARTITIONS
    assert sum(each.records for each in written) == len(NAMES)
    assert driver.content() == sorted(NAMES)
