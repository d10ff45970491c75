"""What filters select from a log: never less than the rows that satisfy them, and no more than necessary."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from pyspark_commitlog.pipeline.read.pushdown import KEYS_MAX, push
from pyspark_commitlog.pipeline.read.task_ranges import OffsetRange
from pyspark_commitlog.storage import TopicPartition

TOPIC, PARTITION, OFFSET, TIMESTAMP, KEY = ("topic",), ("partition",), ("offset",), ("timestamp",), ("key",)
EPOCH = datetime.fromtimestamp(0, UTC)


def at(us: int) -> datetime:
    return EPOCH + timedelta(microseconds=us)


def left_of(filters: list[Filter], times: list[int], source: TopicPartition) -> OffsetRange:
    """Returns what filters select from a log whose record at offset n has the time ``times[n]``, in ms."""

    def offset_at(_: TopicPartition, wanted: int) -> int | None:
        return next((offset for offset, time in enumerate(times) if time >= wanted), None)

    return push(filters)[0].narrow(OffsetRange(source, 0, len(times)), offset_at)


@pytest.mark.parametrize(
    ("filters", "start", "end"),
    [
        pytest.param([], 0, 10, id="none"),
        pytest.param([EqualTo(OFFSET, 3)], 3, 4, id="one offset"),
        pytest.param([GreaterThan(OFFSET, 3), LessThanOrEqual(OFFSET, 7)], 4, 8, id="an interval, one end included"),
        pytest.param([GreaterThanOrEqual(OFFSET, 3), LessThan(OFFSET, 7)], 3, 7, id="an interval, the other included"),
        pytest.param([In(OFFSET, (6, 2, None))], 2, 7, id="a list of offsets"),
        pytest.param([GreaterThan(OFFSET, 7), LessThan(OFFSET, 3)], 8, 8, id="what cannot be"),
        pytest.param([EqualTo(OFFSET, 10**9)], 10, 10, id="beyond the log"),
        pytest.param([EqualTo(PARTITION, 2)], 0, 10, id="its partition"),
        pytest.param([EqualTo(PARTITION, 1)], 10, 10, id="another partition"),
        pytest.param([In(PARTITION, (1, 3)), In(PARTITION, (2,))], 10, 10, id="lists that exclude each other"),
        pytest.param([LessThan(PARTITION, 2)], 10, 10, id="partitions below"),
        pytest.param([EqualTo(TOPIC, "b")], 10, 10, id="another topic"),
        pytest.param([In(TOPIC, ("a", "b")), EqualNullSafe(PARTITION, 2)], 0, 10, id="its topic among others"),
        pytest.param([GreaterThanOrEqual(TIMESTAMP, at(5000))], 5, 10, id="from a time on"),
        pytest.param([GreaterThan(TIMESTAMP, at(5000))], 6, 10, id="behind a time"),
        pytest.param([GreaterThanOrEqual(TIMESTAMP, at(99_000))], 10, 10, id="behind all times"),
        pytest.param([LessThan(TIMESTAMP, at(5000))], 0, 10, id="before a time: later records may be older"),
    ],
)
def test_filters_narrow_a_range(filters: list[Filter], start: int, end: int) -> None:
    left = left_of(filters, list(range(10)), TopicPartition("a", 2))
    assert (left.start, left.end) == (start, end)


@pytest.mark.parametrize(
    "each",
    [
        pytest.param(EqualTo(OFFSET, "3"), id="an offset that is no number"),
        pytest.param(EqualTo(OFFSET, True), id="an offset that is a truth"),
        pytest.param(EqualTo(TIMESTAMP, datetime(2020, 1, 1)), id="a time without a zone"),
        pytest.param(EqualTo(TIMESTAMP, date(2020, 1, 1)), id="a day"),
        pytest.param(EqualNullSafe(OFFSET, None), id="null"),
        pytest.param(In(PARTITION, ()), id="an empty list"),
        pytest.param(Not(EqualTo(OFFSET, 3)), id="a negation"),
        pytest.param(IsNull(OFFSET), id="is null"),
        pytest.param(IsNotNull(("key",)), id="a column that may be null"),
        pytest.param(EqualTo(("value",), b"k"), id="another column"),
        pytest.param(EqualTo(("headers", "key"), "k"), id="a column inside another"),
        pytest.param(EqualTo(KEY, "k"), id="a key that is text"),
        pytest.param(EqualNullSafe(KEY, None), id="a null key"),
        pytest.param(GreaterThan(KEY, b"k"), id="keys behind a key"),
        pytest.param(Not(EqualTo(KEY, b"k")), id="other keys"),
        pytest.param(In(KEY, tuple(b"%d" % number for number in range(KEYS_MAX + 1))), id="too many keys"),
        pytest.param(StringStartsWith(TOPIC, "a"), id="a part of a topic's name"),
        pytest.param(GreaterThan(TOPIC, "a"), id="topics behind a name"),
    ],
)
def test_an_unsupported_filter_is_left_to_spark_and_narrows_nothing(each: Filter) -> None:
    assert push([each])[1] == [each]
    left = left_of([each], list(range(10)), TopicPartition("a", 2))
    assert (left.start, left.end) == (0, 10)


@pytest.mark.parametrize(
    ("each", "is_exact"),
    [
        (EqualTo(OFFSET, 3), True),
        (GreaterThan(OFFSET, 3), True),
        (In(OFFSET, (1, 3)), False),
        (In(PARTITION, (1, 3)), True),
        (EqualTo(TOPIC, "a"), True),
        (IsNotNull(TIMESTAMP), False),
        (GreaterThan(TIMESTAMP, at(3)), False),
        (EqualTo(KEY, b"k"), True),
        (In(KEY, (b"k", None)), True),
    ],
)
def test_spark_applies_again_what_is_not_true_of_every_row(each: Filter, is_exact: bool) -> None:
    assert push([each])[1] == ([] if is_exact else [each])


@pytest.mark.parametrize(
    ("filters", "keys"),
    [
        ([EqualTo(KEY, b"a"), EqualTo(OFFSET, 3)], {b"a"}),
        ([EqualNullSafe(KEY, bytearray(b"a"))], {b"a"}),
        ([In(KEY, (b"a", None, b"b")), In(KEY, (b"b", b"c"))], {b"b"}),
        ([EqualTo(KEY, b"a"), EqualTo(KEY, b"b")], set()),
        ([GreaterThan(KEY, b"a")], None),
    ],
)
def test_keys_that_all_filters_list_are_wanted(filters: list[Filter], keys: set[bytes] | None) -> None:
    assert push(filters)[0].keys == keys
    left = left_of(filters, list(range(10)), TopicPartition("a", 2))
    assert (left.size == 0) == (keys == set())


COMPARISONS: dict[Any, Any] = {
    EqualTo: lambda one, other: one == other,
    GreaterThan: lambda one, other: one > other,
    GreaterThanOrEqual: lambda one, other: one >= other,
    LessThan: lambda one, other: one < other,
    LessThanOrEqual: lambda one, other: one <= other,
}
comparisons = st.tuples(
    st.sampled_from([*COMPARISONS]), st.sampled_from([PARTITION, OFFSET, TIMESTAMP]), st.integers(-1, 12)
)


@given(st.lists(comparisons, max_size=4), st.lists(st.integers(0, 9), max_size=10))
def test_no_record_that_satisfies_all_filters_is_left_out(chosen: list[tuple[Any, Any, int]], times: list[int]) -> None:
    """Times in ms, filters in us: 1500 us apart, so that some are inside a millisecond."""
    filters = [kind(column, at(1500 * value) if column == TIMESTAMP else value) for kind, column, value in chosen]
    left = left_of(filters, times, TopicPartition("a", 2))
    timespan = push(filters)[0].timespan
    for offset, time in enumerate(times):
        row = {PARTITION: 2, OFFSET: offset, TIMESTAMP: time * 1000}
        fulfilled = [
            COMPARISONS[kind](row[column], 1500 * value if column == TIMESTAMP else value)
            for kind, column, value in chosen
        ]
        if all(fulfilled):
            assert left.start <= offset < left.end
            assert timespan.first <= time <= timespan.last
