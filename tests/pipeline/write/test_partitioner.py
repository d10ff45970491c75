from __future__ import annotations

import pyarrow as pa
import pytest

from pyspark_commitlog.pipeline.write.partitioner import Chooser
from pyspark_commitlog.pipeline.write.targets import Partitioner
from pyspark_commitlog.storage import BinaryColumn, partitions_of


def column(*keys: bytes | None) -> BinaryColumn:
    return BinaryColumn.from_list([*keys])


def chooser(partitioner: Partitioner = Partitioner.DEFAULT, first: int = 0) -> Chooser:
    return Chooser(partitioner, 4, first=first)


def test_key_decides_as_in_kafka() -> None:
    keys = column(b"UA1545", b"B6725", b"DL461")
    assert chooser().choose(keys, None).tolist() == partitions_of(keys, 4).tolist()


@pytest.mark.parametrize("partitioner", list(Partitioner))
def test_partition_column_takes_precedence_if_it_is_set(partitioner: Partitioner) -> None:
    asked = pa.array([3, None, 2], pa.int32())
    chosen = chooser(partitioner).choose(column(b"k", b"k", None), asked).tolist()
    others = {Partitioner.DEFAULT: int(partitions_of(column(b"k"), 4)[0]), Partitioner.ROUND_ROBIN: 1}
    assert chosen == [3, others.get(partitioner, -1), 2]


def test_rows_without_key_share_a_partition_until_move_on() -> None:
    mine = chooser(first=3)
    assert mine.choose(column(None, None), None).tolist() == [3, 3]
    assert mine.choose(column(None), None).tolist() == [3]
    mine.move_on()
    assert mine.choose(column(None, None), None).tolist() == [0, 0]


def test_round_robin_continues_with_the_next_rows() -> None:
    mine = chooser(Partitioner.ROUND_ROBIN, first=2)
    assert mine.choose(column(b"k", b"k", None), None).tolist() == [2, 3, 0]
    mine.move_on()
    assert mine.choose(column(b"k"), None).tolist() == [1]


@pytest.mark.parametrize("partition", [-1, 4])
def test_partition_the_topic_does_not_have_is_refused(partition: int) -> None:
    mine = chooser()
    chosen = mine.choose(column(b"k", b"k"), pa.array([0, partition], pa.int32()))
    assert mine.refused(chosen) == [(1, f"column partition is {partition}, but the topic has partitions 0 to 3")]


def test_row_without_the_required_partition_is_refused() -> None:
    mine = chooser(Partitioner.COLUMN)
    (refused,) = mine.refused(mine.choose(column(b"k", b"k"), pa.array([0, None], pa.int32())))
    assert refused.row == 1
    assert "column partition is null" in refused.reason
