from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.pipeline.read.rate_limits import TriggerDelay, TriggerLimits, lags, shares
from pyspark_commitlog.storage import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_lag_is_returned_for_partitions_that_have_some() -> None:
    assert lags({A0: 5, A1: 7, B0: 0}, {A0: 9, A1: 7, B0: 1}) == {A0: 4, B0: 1}


@pytest.mark.parametrize(
    ("limit", "sizes", "shared"),
    [
        pytest.param(10, {A0: 70, A1: 30}, {A0: 7, A1: 3}, id="in proportion"),
        pytest.param(10, {A0: 2, A1: 1, B0: 1}, {A0: 5, A1: 2, B0: 2}, id="rounded down"),
        pytest.param(10, {A0: 10_000, A1: 1}, {A0: 9, A1: 1}, id="never none"),
        pytest.param(1, {A0: 5, A1: 5}, {A0: 1, A1: 1}, id="more partitions than offsets"),
        pytest.param(2**62, {A0: 1, A1: 3}, {A0: 2**60, A1: 3 * 2**60}, id="a limit without an end"),
        pytest.param(7, {}, {}, id="nothing to share"),
    ],
)
def test_limit_is_divided_as_by_sparks_kafka_source(
    limit: int, sizes: dict[TopicPartition, int], shared: dict[TopicPartition, int]
) -> None:
    assert shares(limit, sizes) == shared


@given(limit=st.integers(1, 10**12), sizes=st.lists(st.integers(1, 10**12), min_size=1, max_size=20))
def test_shares_starve_no_partition_and_keep_to_the_limit(limit: int, sizes: list[int]) -> None:
    found = shares(limit, {TopicPartition("a", n): size for n, size in enumerate(sizes)})
    assert min(found.values()) >= 1
    assert sum(found.values()) <= limit * (1 + 1e-9) + len(sizes)


LIMITS = TriggerLimits(min_offsets=10, max_delay_ms=1000)


def test_too_few_offsets_wait_until_there_are_enough_or_the_delay_is_over() -> None:
    delay = TriggerDelay()
    assert not delay.must_wait(3, LIMITS, now_ms=5), "the first micro-batch of a run does not wait"
    assert delay.must_wait(3, LIMITS, now_ms=6)
    assert not delay.must_wait(10, LIMITS, now_ms=7)
    assert delay.must_wait(9, LIMITS, now_ms=1006)
    assert not delay.must_wait(9, LIMITS, now_ms=1007)
    assert delay.must_wait(9, LIMITS, now_ms=1008)


def test_delay_counts_from_the_last_micro_batch_with_records() -> None:
    delay = TriggerDelay()
    delay.must_wait(3, LIMITS, now_ms=0)
    assert not delay.must_wait(0, LIMITS, now_ms=1000)
    assert not delay.must_wait(1, LIMITS, now_ms=1001)


def test_nothing_waits_without_a_minimum() -> None:
    delay = TriggerDelay()
    assert [delay.must_wait(1, TriggerLimits(), now_ms=0) for _ in range(2)] == [False, False]
