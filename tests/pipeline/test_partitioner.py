from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_commitlog.pipeline.partitioner import choose, shares
from pyspark_commitlog.storage import BinaryColumn, InvalidConfigError, partitions_of


def column(*keys: bytes | None) -> BinaryColumn:
    return BinaryColumn.from_list([*keys])


def test_key_decides_as_in_kafka() -> None:
    keys = column(b"UA1545", b"B6725", b"DL461")
    assert choose(keys, None, 4, sticky=0).tolist() == partitions_of(keys, 4).tolist()


def test_partition_column_goes_before_the_key_where_it_is_set() -> None:
    keys = column(b"k", b"k", None)
    asked = pa.array([3, None, 2], pa.int32())
    assert choose(keys, asked, 4, sticky=0).tolist() == [3, int(partitions_of(keys, 4)[1]), 2]


def test_rows_without_key_stay_together_and_move_on_with_the_next_table() -> None:
    assert choose(column(None, None), None, 4, sticky=1).tolist() == [1, 1]
    assert choose(column(None, None), None, 4, sticky=6).tolist() == [2, 2]


@pytest.mark.parametrize("partition", [-1, 4])
def test_partition_the_topic_does_not_have_is_refused(partition: int) -> None:
    with pytest.raises(InvalidConfigError, match=rf"column partition holds {partition}, .* 0 to 3"):
        choose(column(b"k"), pa.array([partition], pa.int32()), 4, sticky=0)


@given(st.lists(st.integers(0, 5), max_size=40))
def test_shares_hold_every_row_once_in_order(chosen: list[int]) -> None:
    parts = np.array(chosen, dtype=np.int32)
    found = {share.partition: share.rows.tolist() for share in shares(parts, 6)}
    assert found == {p: [row for row, c in enumerate(chosen) if c == p] for p in set(chosen)}
