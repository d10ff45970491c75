"""Arrow batches on their way to the thread that writes them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

from pyspark_commitlog.pipeline import writer as writing
from pyspark_commitlog.pipeline.read_table import read_table
from pyspark_commitlog.pipeline.topics import Targets
from pyspark_commitlog.pipeline.writer import (
    PART_BYTES,
    TableBytes,
    TaskWriter,
    WritePlan,
    table_bytes,
    write_behind,
)
from pyspark_commitlog.storage import (
    AppendInfo,
    EncodedBatches,
    LogManager,
    TransactionalWriter,
    TransactionCoordinator,
)
from tests.support.transactions import encoded
from tests.support.waiting import soon

Batch = pa.RecordBatch
CAME_IN_TIME_S = 60


def batch(*rows: int) -> Batch:
    return Batch.from_pydict({"value": pa.array(rows, pa.int64())})


def rows(table: list[Batch]) -> list[int]:
    return [row for part in table for row in part.column("value").to_pylist()]


class Slow:
    """Writes nothing until it may; what it was given."""

    def __init__(self) -> None:
        self.tables: list[list[int]] = []
        self.began, self.may_go_on = threading.Event(), threading.Event()

    def __call__(self, table: list[Batch]) -> None:
        self.tables.append(rows(table))
        self.began.set()
        assert self.may_go_on.wait(CAME_IN_TIME_S)


ROW = batch(1).nbytes


def write_all(batches: Iterator[Batch], write: Callable[[list[Batch]], None]) -> None:
    """Tables of two rows at least; no more than four are to wait."""
    write_behind(batches, write, least=lambda: 2 * ROW, most=4 * ROW)


def test_rows_that_come_while_a_table_is_written_are_the_next_table_up_to_some_size() -> None:
    write = Slow()
    asked_for: list[int] = []

    def batches() -> Iterator[Batch]:
        for number in range(9):
            asked_for.append(number)
            yield batch(number)
            if number == 1:
                assert write.began.wait(CAME_IN_TIME_S)

    thread = threading.Thread(target=write_all, args=(batches(), write))
    thread.start()
    soon(lambda: asked_for == [0, 1, 2, 3, 4, 5, 6])  # four wait, and one more is at hand
    thread.join(0.2)  # time to take more than it should
    assert asked_for == [0, 1, 2, 3, 4, 5, 6]
    assert write.tables == [[0, 1]]
    write.may_go_on.set()
    thread.join()
    assert write.tables[1] == [2, 3, 4, 5]
    assert list(chain(*write.tables)) == list(range(9))


def test_rows_that_come_slowly_are_waited_for_until_they_make_a_table() -> None:
    write = Slow()
    write.may_go_on.set()

    def batches() -> Iterator[Batch]:
        for pair in [0, 1], [2, 3]:
            yield from map(batch, pair)
            soon(lambda pair=pair: write.tables[-1:] == [pair])
        yield batch(4)

    write_all(batches(), write)
    assert write.tables == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("at", [0, 1, 9])
def test_error_of_the_writing_is_raised_and_nothing_is_written_after_it(at: int) -> None:
    tried: list[list[int]] = []

    def write(table: list[Batch]) -> None:
        tried.append(rows(table))
        if at in tried[-1]:
            raise OSError(f"no space for {at}")

    with pytest.raises(OSError, match=f"no space for {at}"):
        write_all((batch(number) for number in range(10)), write)
    assert at in tried[-1]


@pytest.mark.parametrize("others", [False, True])
def test_a_task_gathers_larger_tables_once_other_tasks_append_to_its_partitions(tmp_path: Path, others: bool) -> None:
    tables: list[int] = []
    append = TransactionalWriter.append
    with LogManager.open(str(tmp_path), create=True) as manager:
        plan = plan_for(manager)
        other = TransactionalWriter(manager, plan.transaction)

        def appended(writer: TransactionalWriter, topic: str, partition: int, batches: EncodedBatches) -> AppendInfo:
            tables.append(int(batches.headers.table["count"].sum()))
            info = append(writer, topic, partition, batches)
            if others:
                append(other, topic, partition, encoded(b"other"))
            return info

        def batches() -> Iterator[Batch]:
            for number in range(2):
                yield value(number)
                soon(lambda number=number: len(tables) == number + 1)
            yield from map(value, (2, 3, 4))
            if others:
                time.sleep(0.2)  # time to write them
                assert sum(tables) == 2
            else:
                soon(lambda: sum(tables) == 5)
            yield value(5)

        with up_to_four_rows_a_table(), mock.patch.object(TransactionalWriter, "append", appended):
            [answer] = TaskWriter(plan).answers(batches())
    assert answer.records == sum(tables) == 6
    assert (tables == [1, 1, 4]) is others


def test_a_task_that_is_not_the_first_begins_with_larger_tables_until_it_finds_itself_alone(tmp_path: Path) -> None:
    tables: list[int] = []

    def appended(_topic: str, _partition: int, batches: EncodedBatches) -> AppendInfo:
        tables.append(int(batches.headers.table["count"].sum()))
        return AppendInfo(sum(tables[:-1]), sum(tables) - 1, 0, -1, 0)

    def batches() -> Iterator[Batch]:
        for table in range(2):
            yield value(0)
            time.sleep(0.2)  # time to write it
            assert tables == [2] * table
            yield value(1)
            soon(lambda table=table: len(tables) == table + 1)
        for single in range(2):
            yield value(single)
            soon(lambda single=single: tables == [2, 2, *[1] * (single + 1)])

    with LogManager.open(str(tmp_path), create=True) as manager, up_to_four_rows_a_table():
        writing._Task(plan_for(manager), 1, appended).write(batches())


def test_bad_rows_are_told_by_their_number_in_the_task_whatever_is_bad_of_those_before_them(tmp_path: Path) -> None:
    fine, keyless = [{"key": "h", "value": b"1"}], [{"key": None, "value": b"1"}]
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    first, second = (
        Batch.from_pydict(
            {
                "value": pa.array([b"a", b"b", b"c", b"d"], pa.binary()),
                "partition": pa.array([0, 0, wrong, 0], pa.int32()),
                "headers": pa.array([keyless, fine, fine, fine], headers),
            }
        )
        for wrong in (7, 8)
    )
    with LogManager.open(str(tmp_path), create=True) as manager:
        TaskWriter(plan_for(manager, bad_records="bad")).answers(iter([first, second]))
    good = read_table(tmp_path, "t", isolation="read_uncommitted")
    assert good.column("value").to_pylist() == [b"b", b"d"] * 2
    bad = read_table(tmp_path, "bad", columns=["value", "headers"], isolation="read_uncommitted")
    told = [dict(map(tuple, map(dict.values, headers))) for headers in bad.column("headers").to_pylist()]
    assert bad.column("value").to_pylist() == [b"a", b"c"] * 2
    assert [each["commitlog.error.row"] for each in told] == [b"0", b"2", b"4", b"6"]
    assert [b"7" in told[1]["commitlog.error.reason"], b"8" in told[3]["commitlog.error.reason"]] == [True, True]


def up_to_four_rows_a_table() -> AbstractContextManager[object]:
    row = value(0).nbytes
    return mock.patch.object(writing, "table_bytes", return_value=TableBytes(row, 4 * row))


def plan_for(manager: LogManager, bad_records: str | None = None) -> WritePlan:
    """For one partition of one topic, and of that for bad records, in a transaction that has begun."""
    targets = Targets.parse(manager.directory, topic="t", bad_records=bad_records)
    topics = targets.prepare(manager)
    with TransactionCoordinator.open(manager, "app") as coordinator:
        transaction = coordinator.begin([(topic, 0) for topic in topics])
    return WritePlan.of(targets, topics, frozenset(), transaction, 0)


def value(number: int) -> Batch:
    return Batch.from_pydict({"value": pa.array([bytes([number])], pa.binary())})


def test_where_there_are_no_rows_nothing_is_written() -> None:
    write = Slow()
    write_all(iter([batch()]), write)
    assert write.tables == []


def test_many_partitions_get_larger_tables_so_that_each_part_has_much_in_it_up_to_some_size() -> None:
    sizes = [table_bytes(partitions) for partitions in (1, 128, 129, 400, 512, 10_000)]
    assert [size.least for size in sizes] == [2**23, 2**23, 129 * PART_BYTES, 400 * PART_BYTES, 2**25, 2**25]
    assert {size.most for size in sizes} == {2**25}
