from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_commitlog.pipeline.write.partitioners.chooser import Chooser, PartitionerError, Source
from pyspark_commitlog.pipeline.write.partitioners.setting import KafkasPartitioner, OwnPartitioner
from pyspark_commitlog.storage import BinaryColumn, partitions_of
from tests.support.own_classes import own_module

MODULE = """
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark_commitlog import RowPartitioner

class ByLength:
    def place(self, rows, destination):
        return pc.binary_length(rows["value"])

class ByFirstByte(RowPartitioner):
    def partition(self, key, partitions):
        return key[0] % partitions

class Seen:
    def __init__(self):
        self.calls = 0
    def place(self, rows, destination):
        self.calls += 1
        self.rows, self.destination = rows, destination
        return [0] * rows.num_rows

class Returns:
    def __init__(self, what):
        self.what = what
    def place(self, rows, destination):
        return {
            "short": [0],
            "long": np.zeros(9, np.int64),
            "table": np.zeros((2, 1), np.int64),
            "floats": np.zeros(2),
            "truth": [True, False],
            "null": pa.array([0, None]),
            "text": ["0", "1"],
            "ragged": [[0], [0, 1]],
            "nothing": None,
            "chunks": pa.chunked_array([[1], [2]]),
            "bytes": np.array([1, 2], np.uint8),
            "tuple": (1, 2),
            "above": [0, 4],
            "below": [-1, 0],
            "huge": pa.array([0, 2**63], pa.uint64()),
        }[self.what]

class Failing:
    def place(self, rows, destination):
        return 1 / 0
"""


@pytest.fixture(autouse=True)
def partitions_of_mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with own_module("partitions_of_mine", MODULE, tmp_path, monkeypatch):
        yield


def column(*keys: bytes | None) -> BinaryColumn:
    return BinaryColumn.from_list([*keys])


def source(*keys: bytes | None, asked: pa.Array | None = None, mine: list[int] | None = None) -> Source:
    columns = {"key": pa.array(keys, pa.binary()), "value": pa.array([key or b"" for key in keys], pa.binary())}
    if asked is not None:
        columns["partition"] = asked
    rows = None if mine is None else pa.array(mine, pa.int64()).to_numpy()
    return Source(column(*keys), pa.RecordBatch.from_pydict(columns), rows)


def chooser(
    partitioner: KafkasPartitioner | OwnPartitioner = KafkasPartitioner.DEFAULT, task: int = 0, write: str = "w"
) -> Chooser:
    return Chooser(partitioner, "t", 4, task=task, write=write)


def own(name: str, **options: str) -> Chooser:
    return chooser(OwnPartitioner(f"partitions_of_mine:{name}", tuple(options.items())))


def test_key_decides_as_in_kafka() -> None:
    keys = (b"UA1545", b"B6725", b"DL461")
    assert chooser().choose(source(*keys)).tolist() == partitions_of(column(*keys), 4).tolist()


@pytest.mark.parametrize("partitioner", list(KafkasPartitioner))
def test_partition_column_takes_precedence_if_it_is_set(partitioner: KafkasPartitioner) -> None:
    chosen = chooser(partitioner).choose(source(b"k", b"k", None, asked=pa.array([3, None, 2], pa.int32()))).tolist()
    by_key = int(partitions_of(column(b"k"), 4)[0])
    others = {
        KafkasPartitioner.DEFAULT: by_key,
        KafkasPartitioner.MURMUR2_RANDOM: by_key,
        KafkasPartitioner.ROUND_ROBIN: 1,
        KafkasPartitioner.COLUMN: -1,
    }
    assert chosen == [3, others.get(partitioner, chosen[1]), 2]


def test_rows_without_key_share_a_partition_until_move_on() -> None:
    mine = chooser(task=3)
    assert mine.choose(source(None, None)).tolist() == [3, 3]
    assert mine.choose(source(None)).tolist() == [3]
    mine.move_on()
    assert mine.choose(source(None, None)).tolist() == [0, 0]


def test_round_robin_continues_with_the_next_rows() -> None:
    mine = chooser(KafkasPartitioner.ROUND_ROBIN, task=2)
    assert mine.choose(source(b"k", b"k", None)).tolist() == [2, 3, 0]
    mine.move_on()
    assert mine.choose(source(b"k")).tolist() == [1]


def test_rows_without_key_are_placed_at_random_one_by_one_on_request() -> None:
    chosen = chooser(KafkasPartitioner.MURMUR2_RANDOM).choose(source(*[None, b"k"] * 1000)).tolist()
    assert set(chosen[1::2]) == set(partitions_of(column(b"k"), 4).tolist())
    assert all(count > 150 for _, count in sorted(Counter(chosen[::2]).items()))
    assert len(Counter(chosen[::2])) == 4


def test_rows_are_placed_at_random_whatever_the_key_on_request() -> None:
    chosen = Counter(chooser(KafkasPartitioner.RANDOM).choose(source(*[b"k", None] * 500)).tolist())
    assert sorted(chosen) == [0, 1, 2, 3]
    assert min(chosen.values()) > 150


@pytest.mark.parametrize("partitioner", [KafkasPartitioner.RANDOM, KafkasPartitioner.MURMUR2_RANDOM])
def test_second_attempt_places_rows_as_the_first_and_another_write_does_not(partitioner: KafkasPartitioner) -> None:
    rows = source(*[None] * 100)
    first, second = (chooser(partitioner).choose(rows).tolist() for _ in range(2))
    assert first == second
    assert chooser(partitioner, write="another").choose(rows).tolist() != first
    assert chooser(partitioner, task=1).choose(rows).tolist() != first


@pytest.mark.parametrize("partition", [-1, 4])
def test_partition_the_topic_does_not_have_is_refused(partition: int) -> None:
    mine = chooser()
    chosen = mine.choose(source(b"k", b"k", asked=pa.array([0, partition], pa.int32())))
    assert mine.refused(chosen) == [(1, f"column partition is {partition}, but the topic has partitions 0 to 3")]


def test_row_without_the_required_partition_is_refused() -> None:
    mine = chooser(KafkasPartitioner.COLUMN)
    (refused,) = mine.refused(mine.choose(source(b"k", b"k", asked=pa.array([0, None], pa.int32()))))
    assert refused.row == 1
    assert "column partition is null" in refused.reason


class TestOwn:
    """Classes of a user's own."""

    def test_columns_are_placed_many_rows_at_once(self) -> None:
        assert own("ByLength").choose(source(b"", b"a", b"aaa", None)).tolist() == [0, 1, 3, 0]

    def test_a_key_at_a_time_is_placed_by_the_adapter_and_null_keys_at_random(self) -> None:
        chosen = own("ByFirstByte").choose(source(*[b"\x01", b"\x06", None] * 100)).tolist()
        assert (set(chosen[::3]), set(chosen[1::3]), set(chosen[2::3])) == ({1}, {2}, {0, 1, 2, 3})

    def test_only_rows_of_the_topic_that_name_no_partition_are_passed(self) -> None:
        mine = own("Seen")
        asked = pa.array([None, 3, None, None], pa.int32())
        chosen = mine.choose(source(b"a", b"b", b"c", None, asked=asked, mine=[0, 1, 3]))
        assert chosen.tolist()[:2] == [0, 3]
        assert mine._own.rows["key"].to_pylist() == [b"a", None]  # type: ignore[union-attr]
        assert mine._own.rows.schema.names == ["key", "value"]  # type: ignore[union-attr]

    def test_columns_are_binary_even_if_they_are_text_or_missing(self) -> None:
        mine, batch = own("Seen"), pa.RecordBatch.from_pydict({"value": pa.array(["é"]), "topic": pa.array(["t"])})
        mine.choose(Source(column(None), batch, None))
        assert mine._own.rows.to_pylist() == [{"key": None, "value": "é".encode()}]  # type: ignore[union-attr]

    def test_nothing_is_passed_if_each_row_names_its_partition(self) -> None:
        mine = own("Seen")
        for partitions in ([1, 2], []):
            keys = [b"k"] * len(partitions)
            assert mine.choose(source(*keys, asked=pa.array(partitions, pa.int32()))).tolist() == partitions
        assert mine.choose(source(b"a", b"b", asked=pa.array([None, 1], pa.int32()), mine=[1])).tolist()[1] == 1
        assert mine._own.calls == 0  # type: ignore[union-attr]

    def test_destination_names_topic_and_task(self) -> None:
        mine = chooser(OwnPartitioner("partitions_of_mine:Seen"), task=7)
        mine.choose(source(b"k"))
        found = mine._own.destination  # type: ignore[union-attr]
        assert (found.topic, found.partitions, found.task) == ("t", 4, 7)

    @pytest.mark.parametrize("what", ["chunks", "bytes", "tuple"])
    def test_any_sequence_of_whole_numbers_is_an_answer(self, what: str) -> None:
        assert own("Returns", what=what).choose(source(b"a", b"b")).tolist() == [1, 2]

    @pytest.mark.parametrize(
        ("what", "told"),
        [
            ("short", "returned 1 numbers for 2 rows"),
            ("long", "returned 9 numbers for 2 rows"),
            ("table", r"returned ndarray of shape \(2, 1\) for 2 rows"),
            ("nothing", r"returned NoneType of shape \(\) for 2 rows"),
            ("ragged", "returned list, which is no sequence of numbers"),
            ("floats", "returned values of type float64, which are no whole numbers"),
            ("truth", "returned values of type bool"),
            ("null", "returned values of type float64"),
            ("text", "returned values of type <U1"),
            ("above", "returned partition 4 for row 1 of 2, but topic t has partitions 0 to 3"),
            ("below", "returned partition -1 for row 0 of 2, but topic t has partitions 0 to 3"),
            ("huge", "returned partition 9223372036854775808 for row 1 of 2"),
        ],
    )
    def test_any_other_answer_is_an_error_that_says_what_is_wrong(self, what: str, told: str) -> None:
        with pytest.raises(PartitionerError, match=f"partitioner.class = partitions_of_mine:Returns: .*{told}"):
            own("Returns", what=what).choose(source(b"a", b"b"))

    def test_failure_is_reported_with_its_line(self) -> None:
        with pytest.raises(PartitionerError, match=r"Failing: failed for topic t: ZeroDiv.*mine.py, line \d\d\)"):
            own("Failing").choose(source(b"a"))
