"""The policies that are ready for use: which segments of a log they release."""

from __future__ import annotations

import pytest

from pyspark_commitlog.storage.errors import InvalidConfigError
from pyspark_commitlog.storage.retention.plan import RetentionOptions, plan_retention
from pyspark_commitlog.storage.retention.policies import RetentionPolicy, policies_with
from pyspark_commitlog.storage.retention.ready_policies import (
    LastGigabytesRetention,
    ModificationTimeRetention,
    NewestSegmentsRetention,
)
from pyspark_commitlog.storage.retention.survey import LogFacts, SegmentFacts
from tests.support.logs.building import NOW_MS, config

MINUTE_MS = 60_000


def four(*, size: int = 100) -> LogFacts:
    """Segments whose files are 4, 3, 2 and 0 minutes old, while their records are all of this moment."""
    segments = tuple(
        SegmentFacts(n * 10, n * 10 + 10, size, NOW_MS, NOW_MS - age * MINUTE_MS, NOW_MS, is_active=n == 3)
        for n, age in enumerate((4, 3, 2, 0))
    )
    return LogFacts("/logs/flights-0", segments, 0, 40, 40)


def gone(policy: RetentionPolicy, facts: LogFacts | None = None, **settings: object) -> list[int]:
    topic = config(**settings)
    options = RetentionOptions(policies=policies_with(policy, topic))
    return [fate.segment.base_offset for fate in plan_retention(facts or four(), topic, NOW_MS, options).removed]


@pytest.mark.parametrize(
    ("policy", "settings", "expected"),
    [
        pytest.param(ModificationTimeRetention(4 * MINUTE_MS), {}, [], id="just as old as allowed"),
        pytest.param(ModificationTimeRetention(4 * MINUTE_MS - 1), {}, [0], id="a millisecond older"),
        pytest.param(ModificationTimeRetention(MINUTE_MS), {"retention_ms": 1}, [0, 10, 20], id="its own limit counts"),
        pytest.param(ModificationTimeRetention(), {"retention_ms": MINUTE_MS}, [0, 10, 20], id="the topic's limit"),
        pytest.param(ModificationTimeRetention(), {"retention_ms": -1}, [], id="the topic has no limit"),
        pytest.param(NewestSegmentsRetention(4), {}, [], id="as many segments as allowed"),
        pytest.param(NewestSegmentsRetention(3), {"retention_ms": 0}, [0], id="one segment too many"),
        pytest.param(NewestSegmentsRetention(1), {}, [0, 10, 20], id="only the active segment is kept"),
        pytest.param(LastGigabytesRetention(400e-9), {"retention_bytes": 0}, [], id="all bytes are kept"),
        pytest.param(LastGigabytesRetention(301e-9), {}, [], id="a segment that is needed in part"),
        pytest.param(LastGigabytesRetention(300e-9), {}, [0], id="a segment that is not needed"),
    ],
)
def test_a_ready_policy_releases_the_segments_beyond_its_limit(
    policy: RetentionPolicy, settings: dict[str, object], expected: list[int]
) -> None:
    assert gone(policy, **settings) == expected


def test_gigabytes_have_a_thousand_million_bytes() -> None:
    assert gone(LastGigabytesRetention(2), four(size=10**9)) == [0, 10]


def test_a_policy_of_ones_own_never_deletes_from_a_topic_that_is_only_compacted() -> None:
    assert gone(NewestSegmentsRetention(1), cleanup_policy="compact") == []


@pytest.mark.parametrize("segments", [0, -1, 1.5, "3"])
def test_a_number_of_segments_is_at_least_1(segments: object) -> None:
    with pytest.raises(InvalidConfigError, match="must be a whole number, at least 1"):
        NewestSegmentsRetention(segments)  # type: ignore[arg-type]


@pytest.mark.parametrize("gigabytes", [0, -1, float("nan"), "2"])
def test_a_number_of_gigabytes_is_above_0(gigabytes: object) -> None:
    with pytest.raises(InvalidConfigError, match="must be a number above 0"):
        LastGigabytesRetention(gigabytes)  # type: ignore[arg-type]
