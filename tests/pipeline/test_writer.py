"""Arrow batches on their way to the thread that writes them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from pyspark_commitlog.pipeline import writer
from pyspark_commitlog.pipeline.writer import write_behind

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


def test_what_came_while_a_table_was_written_is_the_next_one() -> None:
    write = Slow()

    def batches() -> Iterator[Batch]:
        yield batch(1)
        assert write.began.wait(CAME_IN_TIME_S)
        yield from (batch(2, 3), batch(), batch(4))
        write.may_go_on.set()

    write_behind(batches(), write)
    assert write.tables == [[1], [2, 3, 4]]


def test_no_more_waits_than_fits_however_slow_the_writing_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "TABLE_BYTES", batch(1, 2).nbytes)
    write = Slow()
    taken = []

    def batches() -> Iterator[Batch]:
        for number in range(6):
            taken.append(number)
            yield batch(number)

    thread = threading.Thread(target=write_behind, args=(batches(), write))
    thread.start()
    assert write.began.wait(CAME_IN_TIME_S)
    thread.join(0.2)  # time to take more than it should
    assert max(taken) <= 2
    write.may_go_on.set()
    thread.join()
    assert [row for table in write.tables for row in table] == list(range(6))
    assert max(map(len, write.tables)) <= 2


def failing(at: int) -> Callable[[Batch], None]:
    def write(table: Batch) -> None:
        if at in table.column("value").to_pylist():
            raise OSError(f"no space for {at}")

    return write


@pytest.mark.parametrize("at", [0, 1, 9])
def test_error_of_the_writing_is_raised_and_nothing_is_written_after_it(at: int) -> None:
    with pytest.raises(OSError, match=f"no space for {at}"):
        write_behind((batch(number) for number in range(10)), failing(at))


def test_nothing_is_nothing() -> None:
    write_behind(iter([batch()]), failing(0))
