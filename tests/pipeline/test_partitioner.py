from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_commitlog.pipeline.partitioner import Chooser, shares
from pyspark_commitlog.pipeline.topics import Partitioner
from pyspark_commitlog.storage import BinaryColumn, partitions_of


def column(*keys: bytes | None) -> BinaryColumn:
    return BinaryColumn.from_list([*keys])


def chooser(partitioner: Partitioner = Partitioner.DEFAULT, first: int = 0) -> Chooser:
    return Chooser(partitioner, 4, first=first)


def test_key_decides_as_in_kafka() -> None:
    keys = column(b"UA1545", b"B6725", b"DL461")
    assert chooser().choose(keys, None).tolist() == partitions_of(keys, 4).tolist()


@pytest.mark.parametrize("partitioner", list(Partitioner))
def test_partition_column_goes_before_all_else_where_it_is_set(partitioner: Partitioner) -> None:
    asked = pa.array([3, None, 2], pa.int32())
    chosen = chooser(partitioner).choose(column(b"k", b"k", None), asked).tolist()
    others = {Partitioner.DEFAULT: int(partitions_of(column(b"k"), 4)[0]), Partitioner.ROUND_ROBIN: 1}
    assert chosen == [3, others.get(partitioner, -1), 2]


def test_rows_without_key_stay_together_and_move_on_with_the_next_table() -> None:
    mine = chooser(first=3)
    assert mine.choose(column(None, None), None).tolist() == [3, 3]
    assert mine.choose(column(None, None), None).tolist() == [0, 0]


def test_round_robin_goes_on_with_the_next_table() -> None:
    mine = chooser(Partitioner.ROUND_ROBIN, first=2)
    assert mine.choose(column(b"k", b"k", None), None).tolist() == [2, 3, 0]
    assert mine.choose(column(b"k"), None).tolist() == [1]


@pytest.mark.parametrize("partition", [-1, 4])
def test_partition_the_topic_does_not_have_is_refused(partition: int) -> None:
    mine = chooser()
    chosen = mine.choose(column(b"k", b"k"), pa.array([0, partition], pa.int32()))
    assert mine.refused(chosen) == [(1, f"column partition holds {partition}, and the topic has the partitions 0 to 3")]


def test_row_that_must_name_its_partition_and_does_not_is_refused() -> None:
    mine = chooser(Partitioner.COLUMN)
    (refused,) = mine.refused(mine.choose(column(b"k", b"k"), pa.array([0, None], pa.int32())))
    assert refused.row == 1
    assert "column partition is null" in refused.reason


@given(st.lists(st.integers(0, 5), max_size=40), st.data())
def test_shares_of_some_rows_hold_each_of_them_once_in_order(chosen: list[int], data: st.DataObject) -> None:
    parts = np.array(chosen, dtype=np.int32)
    some = [row for row in range(len(chosen)) if data.draw(st.booleans())]
    rows, ends = shares(parts, 6, np.array(some, dtype=np.int64))
    assert split(rows, ends) == [[row for row in some if chosen[row] == p] for p in range(6)]


@given(st.lists(st.integers(0, 5), max_size=40))
def test_shares_hold_every_row_once_in_order(chosen: list[int]) -> None:
    parts = np.array(chosen, dtype=np.int32)
    rows, ends = shares(parts, 6)
    assert split(rows, ends) == [[row for row, c in enumerate(chosen) if c == p] for p in range(6)]


def split(rows: np.ndarray, ends: np.ndarray) -> list[list[int]]:
    assert ends[-1] == len(rows)
    return [part.tolist() for part in np.split(rows, ends[:-1])]
