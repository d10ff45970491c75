"""The cases of Spark's own planner with its results, and what must hold for any plan."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.pipeline.read.task_ranges import TASK_BYTES, OffsetRange, TaskLimits, plan
from pyspark_commitlog.storage import TopicPartition

Bounds = list[tuple[str, int, int]]


def ranges(bounds: Bounds) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition(topic, 1), start, end) for topic, start, end in bounds]


def planned(bounds: Bounds, *, minimum: int | None = None, most: int | None = None) -> Bounds:
    limits = TaskLimits(min_partitions=minimum, max_records_per_partition=most)
    return [(each.source.topic, each.start, each.end) for each in plan(ranges(bounds), limits)]


# What KafkaOffsetRangeCalculator of Spark 4.2.0 answers; it was asked in a JVM.
@pytest.mark.parametrize(
    ("bounds", "minimum", "most", "tasks"),
    [
        pytest.param([("a", 1, 2), ("b", 1, 1)], None, None, [("a", 1, 2)], id="an empty range is no task"),
        pytest.param([("a", 5, 3), ("b", 1, 2)], 2, None, [("b", 1, 2)], id="nor is one that ends before it starts"),
        pytest.param(
            [("a", 1, 5), ("b", 1, 21)], 1, None, [("a", 1, 5), ("b", 1, 21)], id="fewer tasks wanted than ranges"
        ),
        pytest.param(
            [("a", 1, 5)], 4, None, [("a", 1, 2), ("a", 2, 3), ("a", 3, 4), ("a", 4, 5)], id="one range in four"
        ),
        pytest.param([("a", 1, 11)], 3, None, [("a", 1, 4), ("a", 4, 7), ("a", 7, 11)], id="the rest goes to the last"),
        pytest.param(
            [("a", 1, 5), ("b", 1, 21)],
            4,
            None,
            [("a", 1, 5), ("b", 1, 7), ("b", 7, 14), ("b", 14, 21)],
            id="the larger range is parted",
        ),
        pytest.param(
            [("a", 1, 2), ("b", 1, 1001)],
            4,
            None,
            [("a", 1, 2), ("b", 1, 334), ("b", 334, 667), ("b", 667, 1001)],
            id="a tiny range beside a large one",
        ),
        pytest.param(
            [("a", 0, 10), ("b", 0, 10), ("c", 0, 1)],
            6,
            None,
            [("a", 0, 3), ("a", 3, 6), ("a", 6, 10), ("b", 0, 3), ("b", 3, 6), ("b", 6, 10), ("c", 0, 1)],
            id="more tasks than wanted rather than a range forgotten",
        ),
        pytest.param(
            [("a", 0, 500), ("b", 0, 12000), ("c", 0, 15001)],
            6,
            None,
            [
                ("a", 0, 500),
                ("b", 0, 6000),
                ("b", 6000, 12000),
                ("c", 0, 5000),
                ("c", 5000, 10000),
                ("c", 10000, 15001),
            ],
            id="what small ranges hold does not count for the others",
        ),
        pytest.param([("a", 0, 2)], 5, None, [("a", 0, 1), ("a", 1, 2)], id="never more tasks than offsets"),
        pytest.param(
            [("a", 0, 9000), ("b", 0, 900)],
            None,
            3000,
            [("a", 0, 3000), ("a", 3000, 6000), ("a", 6000, 9000), ("b", 0, 900)],
            id="at most so many records a task",
        ),
        pytest.param(
            [("a", 0, 10)], None, 4, [("a", 0, 3), ("a", 3, 6), ("a", 6, 10)], id="parts are even, none above the limit"
        ),
        pytest.param(
            [("a", 0, 9000), ("b", 0, 900), ("c", 0, 10)],
            6,
            3000,
            [("a", 0, 3000), ("a", 3000, 6000), ("a", 6000, 9000), ("b", 0, 900), ("c", 0, 10)],
            id="both limits, where rounding leaves one task fewer",
        ),
        pytest.param(
            [("a", 0, 100)],
            4,
            60,
            [("a", 0, 25), ("a", 25, 50), ("a", 50, 75), ("a", 75, 100)],
            id="both limits, the second parts further",
        ),
        pytest.param(
            [("a", 0, 7)],
            3,
            4,
            [("a", 0, 3), ("a", 3, 7)],
            id="one whole range keeps all of its partition whole",
        ),
    ],
)
def test_tasks_are_those_of_sparks_kafka_source(
    bounds: Bounds, minimum: int | None, most: int | None, tasks: Bounds
) -> None:
    assert planned(bounds, minimum=minimum, most=most) == tasks


LIMIT = st.none() | st.integers(1, 50)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), max_size=6), LIMIT, LIMIT)
def test_tasks_cover_every_offset_once(bounds: list[tuple[int, int]], minimum: int | None, most: int | None) -> None:
    given_ranges = [(f"t{index}", start, end) for index, (start, end) in enumerate(bounds)]
    tasks = planned(given_ranges, minimum=minimum, most=most)
    for name, start, end in given_ranges:
        offsets = [offset for topic, first, last in tasks if topic == name for offset in range(first, last)]
        assert offsets == list(range(start, end))
    assert all(end > start for _, start, end in tasks)
    assert most is None or all(end - start <= most for _, start, end in tasks)


def test_a_large_range_is_split_by_bytes_by_default() -> None:
    small, large = ranges([("a", 0, 100), ("b", 0, 100)])
    log = {"a": TASK_BYTES, "b": 2 * TASK_BYTES + 1}
    tasks = plan([small, large], TaskLimits(), lambda each: log[each.source.topic])
    assert [(each.source.topic, each.start, each.end) for each in tasks] == [
        ("a", 0, 100),
        ("b", 0, 33),
        ("b", 33, 66),
        ("b", 66, 100),
    ]
    assert len(plan([small, large], TaskLimits(min_partitions=2), lambda each: log[each.source.topic])) == 2


def test_no_more_tasks_than_offsets_are_tried_whatever_minimum_is_asked_for() -> None:
    """The planner of a query hung for minutes: 2^31 parts were tried, and all but five were empty."""
    assert planned([("a", 1, 6)], minimum=2**31 - 1) == [("a", first, first + 1) for first in range(1, 6)]
