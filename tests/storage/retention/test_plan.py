"""Retention's decisions: tables of logs without files, a slow twin of Kafka's rules, and the report."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.retention.plan import RetentionOptions, RetentionPlan, plan_retention
from pyspark_commitlog.storage.retention.policies import RetentionVerdict, Situation
from pyspark_commitlog.storage.retention.survey import LogFacts, SegmentFacts
from tests.support.logs.building import NOW_MS, config

MINUTE_MS = 60_000
UNLIMITED = {"retention_ms": -1, "retention_bytes": -1}


def segment(base: int, end: int, *, size: int = 100, age_ms: int = 0, **changes: object) -> SegmentFacts:
    """A closed segment whose newest record is ``age_ms`` old."""
    facts = SegmentFacts(base, end, size, NOW_MS - age_ms, modified_ms=NOW_MS, first_timestamp_ms=NOW_MS - age_ms)
    return replace(facts, **changes)  # type: ignore[arg-type]


def log(*segments: SegmentFacts, start: int | None = None, stable: int | None = None, active: bool = True) -> LogFacts:
    """A log of these segments, the last one active."""
    *closed, last = segments
    return LogFacts(
        "/logs/flights-0",
        (*closed, replace(last, is_active=active)),
        segments[0].base_offset if start is None else start,
        last.next_offset,
        last.next_offset if stable is None else stable,
    )


def four(**changes: object) -> LogFacts:
    """Segments of 100 bytes and ten offsets, the oldest four minutes old, the active one new."""
    ages = (4, 3, 2, 0)
    return log(*(segment(n * 10, n * 10 + 10, age_ms=age * MINUTE_MS) for n, age in enumerate(ages)), **changes)  # type: ignore[arg-type]


def limits(**settings: object) -> LogConfig:
    return config(**{**UNLIMITED, **settings})


def gone(facts: LogFacts, settings: LogConfig, options: RetentionOptions | None = None) -> list[int]:
    return [fate.segment.base_offset for fate in plan_retention(facts, settings, NOW_MS, options).removed]


@pytest.mark.parametrize(
    ("settings", "start", "expected"),
    [
        pytest.param({}, 0, [], id="no limits: nothing goes"),
        pytest.param({"retention_bytes": 400}, 0, [], id="just as large as allowed"),
        pytest.param({"retention_bytes": 301}, 0, [], id="the log must keep at least the limit"),
        pytest.param({"retention_bytes": 300}, 0, [0], id="exactly the limit is kept without the oldest"),
        pytest.param({"retention_bytes": 299}, 0, [0], id="one byte below that"),
        pytest.param({"retention_bytes": 0}, 0, [0, 10, 20, 30], id="no byte allowed: the active one goes too"),
        pytest.param({"retention_ms": 4 * MINUTE_MS}, 0, [], id="just as old as allowed"),
        pytest.param({"retention_ms": 4 * MINUTE_MS - 1}, 0, [0], id="a millisecond older"),
        pytest.param({"retention_ms": MINUTE_MS}, 0, [0, 10, 20], id="all closed ones are old"),
        pytest.param({"retention_ms": 3 * MINUTE_MS, "retention_bytes": 200}, 0, [0, 10], id="size takes more"),
        pytest.param({"retention_ms": MINUTE_MS, "retention_bytes": 300}, 0, [0, 10, 20], id="time takes more"),
        pytest.param({}, 10, [0], id="log start at the end of a segment"),
        pytest.param({}, 19, [0], id="log start within a segment: that one is kept"),
        pytest.param({}, 35, [0, 10, 20], id="log start above the base of the active segment"),
        pytest.param({}, 40, [0, 10, 20], id="log start at the log end: the active segment stays"),
        pytest.param({"cleanup_policy": "compact", "retention_ms": 1, "retention_bytes": 1}, 25, [0, 10], id="compact"),
        pytest.param(
            {"cleanup_policy": "compact,delete", "retention_ms": MINUTE_MS}, 0, [0, 10, 20], id="compact and delete"
        ),
    ],
)  # fmt: skip
def test_segments_are_deleted_by_kafkas_rules(settings: dict[str, object], start: int, expected: list[int]) -> None:
    assert gone(four(start=start), limits(**settings)) == expected


def test_a_record_from_the_future_keeps_its_segment_and_all_later_ones() -> None:
    facts = log(
        segment(0, 10, age_ms=-MINUTE_MS),
        segment(10, 20, age_ms=MINUTE_MS),
        segment(20, 30, age_ms=MINUTE_MS),
    )
    decided = plan_retention(facts, limits(retention_ms=1000), NOW_MS)
    assert decided.removed == ()
    assert [fate.until_ms for fate in decided.kept] == [NOW_MS + MINUTE_MS + 1000] * 3
    assert "1 min in the future" in decided.kept[0].reason
    assert decided.kept[1].reason.startswith("the segment before it, 0, is kept")


def test_records_without_a_time_expire_by_the_time_of_the_file() -> None:
    old, new = NOW_MS - 10 * MINUTE_MS, NOW_MS
    untimed = {"largest_timestamp_ms": -1, "first_timestamp_ms": -1}
    facts = log(
        segment(0, 10, modified_ms=old, **untimed),
        segment(10, 20, modified_ms=new, **untimed),
        segment(20, 30, modified_ms=new, **untimed),
    )
    decided = plan_retention(facts, limits(retention_ms=MINUTE_MS), NOW_MS)
    assert [fate.segment.base_offset for fate in decided.removed] == [0]
    assert "its file, as no record has a time" in decided.kept[0].reason
    assert decided.kept[0].lifetime_ms is None


def test_the_time_of_a_file_means_nothing_where_records_have_one() -> None:
    """Restoring or copying touches every file, which neither keeps data nor deletes it (KAFKA-3802)."""
    for modified_ms in (0, NOW_MS, NOW_MS + 10**9):
        segments = [replace(each, modified_ms=modified_ms) for each in four().segments]
        assert gone(log(*segments), limits(retention_ms=2 * MINUTE_MS)) == [0, 10]


def test_an_empty_active_segment_stays() -> None:
    facts = log(segment(0, 10, age_ms=MINUTE_MS), segment(10, 10, size=0, largest_timestamp_ms=-1, modified_ms=0))
    decided = plan_retention(facts, limits(retention_ms=1000, retention_bytes=0), NOW_MS)
    assert [fate.segment.base_offset for fate in decided.removed] == [0]
    assert not decided.rolls
    assert decided.kept[0].rule == "active segment"
    again = plan_retention(log(facts.segments[1]), limits(retention_ms=1000, retention_bytes=0), NOW_MS)
    assert again.removed == ()


def test_an_expired_idle_active_segment_is_rolled_and_deleted() -> None:
    decided = plan_retention(log(segment(0, 10, age_ms=MINUTE_MS)), limits(retention_ms=1000), NOW_MS)
    assert decided.rolls
    assert decided.log_start_offset == 10


def test_nothing_is_deleted_from_the_first_open_transaction_on() -> None:
    decided = plan_retention(four(stable=15), limits(retention_ms=1000, retention_bytes=0), NOW_MS)
    assert [fate.segment.base_offset for fate in decided.removed] == [0]
    assert decided.kept[0].reason == "a transaction is open from offset 15 on"
    assert gone(four(stable=20), limits(retention_ms=1000)) == [0, 10]


def test_segments_below_the_log_start_are_deleted_though_a_group_never_read_them() -> None:
    """Nobody can read it any more, so there is no reason to keep its bytes."""
    assert gone(four(start=20), limits(retention_ms=1000), RetentionOptions({"slow": 0})) == [0, 10]


def test_nothing_unread_by_a_group_is_deleted() -> None:
    options = RetentionOptions({"slow": 15, "slower": 10, "done": 40})
    decided = plan_retention(four(), limits(retention_ms=1000), NOW_MS, options)
    assert [fate.segment.base_offset for fate in decided.removed] == [0]
    assert decided.kept[0].reason == "group 'slower' has read only up to offset 10"
    assert decided.warnings == (
        "2 segments with 200 of the 400 bytes would be deleted if not kept for group slower, "
        "30 offsets behind the log end",
    )


def test_both_reasons_are_reported_for_a_young_and_unread_segment() -> None:
    """Whether the group reads it in time is unknown, and so is the latest time of its deletion."""
    decided = plan_retention(four(), limits(retention_ms=3 * MINUTE_MS), NOW_MS, RetentionOptions({"slow": 15}))
    fate = decided.kept[0]
    assert (fate.rule, fate.until_ms, fate.removed_by_ms) == ("retention.ms", NOW_MS, None)
    assert fate.reason.endswith("; moreover, group 'slow' has read only up to offset 15")
    assert [each.removed_by_ms for each in decided.kept] == [None, None, None]
    assert decided.warnings == ()


def test_a_due_segment_waits_for_an_older_one_that_is_kept() -> None:
    facts = log(segment(0, 10, age_ms=0), segment(10, 20, age_ms=9 * MINUTE_MS), segment(20, 30))
    first, second, _ = plan_retention(facts, limits(retention_ms=MINUTE_MS), NOW_MS).kept
    assert (second.until_ms, second.removed_by_ms) == (first.until_ms, first.removed_by_ms)
    assert second.reason.startswith("the segment before it, 0, is kept; by itself: retention.ms = 60,000")


def test_a_group_that_has_read_what_is_deleted_is_not_mentioned() -> None:
    decided = plan_retention(four(), limits(retention_ms=3 * MINUTE_MS), NOW_MS, RetentionOptions({"done": 10}))
    assert [fate.segment.base_offset for fate in decided.removed] == [0]
    assert decided.warnings == ()


@dataclass(frozen=True)
class KeepNewest:
    """A custom policy: a given number of segments is enough."""

    count: int
    name: str = "my policy"

    def judge(self, segment: SegmentFacts, situation: Situation) -> RetentionVerdict:
        return RetentionVerdict(situation.size > 100 * self.count, f"{self.count} segments are enough")


def test_a_policy_of_ones_own_decides_instead_of_kafkas() -> None:
    options = RetentionOptions(policies=(KeepNewest(2),))
    decided = plan_retention(four(), limits(retention_ms=1), NOW_MS, options)
    assert [fate.segment.base_offset for fate in decided.removed] == [0, 10]
    assert {fate.rule for fate in decided.fates} == {"my policy"}
    assert decided.kept[0].reason == "2 segments are enough"


def test_a_second_run_at_once_finds_nothing_to_do() -> None:
    settings = limits(retention_ms=2 * MINUTE_MS, retention_bytes=250)
    first = plan_retention(four(), settings, NOW_MS)
    remaining = log(*(fate.segment for fate in first.kept), start=first.log_start_offset)
    assert first.removed
    assert gone(remaining, settings) == []


@pytest.mark.parametrize(
    ("settings", "rule", "reason"),
    [
        pytest.param({}, "log start offset", "no limit of age or size is set or known (ret", id="no limits"),
        pytest.param({"cleanup_policy": "compact"}, "log start offset", "cleanup.policy has no delete", id="compact"),
        pytest.param({"retention_bytes": 9999}, "retention.bytes", "retention.bytes = 9,999", id="by size"),
        pytest.param({"retention_ms": 9 * MINUTE_MS}, "retention.ms", "retention.ms = 540,000", id="by time"),
    ],
)
def test_the_reason_names_the_setting_that_keeps_a_segment(settings: dict[str, object], rule: str, reason: str) -> None:
    fate = plan_retention(four(), limits(**settings), NOW_MS).kept[0]
    assert fate.rule == rule
    assert fate.reason.startswith(reason)


def test_the_reason_of_a_segment_kept_by_size_has_the_missing_bytes() -> None:
    decided = plan_retention(four(), limits(retention_bytes=350), NOW_MS)
    assert "it is deleted once 50 more bytes are written" in decided.kept[0].reason
    assert decided.kept[0].until_ms is None


def test_kept_until_is_the_last_moment_at_which_it_is() -> None:
    settings = limits(retention_ms=10 * MINUTE_MS)
    until_ms = plan_retention(four(), settings, NOW_MS).kept[0].until_ms
    assert until_ms is not None
    assert plan_retention(four(), settings, until_ms).removed == ()
    assert len(plan_retention(four(), settings, until_ms + 1).removed) == 1


# A slow twin: Kafka's three passes, each written like its source


def kafka_deletes(facts: LogFacts, settings: LogConfig, now_ms: int) -> list[int]:
    segments, start = list(facts.segments), facts.log_start_offset
    deleted: list[int] = []

    def pass_over(should_delete: object) -> None:
        nonlocal start
        while segments:
            first = segments[0]
            following = segments[1] if len(segments) > 1 else None
            upper = following.base_offset if following else facts.log_end_offset
            is_last_and_empty = following is None and first.size == 0
            if upper > max(facts.last_stable_offset, facts.log_start_offset) or is_last_and_empty:
                return
            if not should_delete(first, following):  # type: ignore[operator]
                return
            deleted.append(first.base_offset)
            segments.pop(0)
            start = max(start, upper)

    pass_over(lambda _, following: following is not None and following.base_offset <= start)
    if not settings.delete:
        return deleted
    excess = sum(each.size for each in segments) - settings.retention_bytes

    def breaks_size(first: SegmentFacts, _: SegmentFacts | None) -> bool:
        nonlocal excess
        if excess - first.size < 0:
            return False
        excess -= first.size
        return True

    if settings.retention_bytes >= 0 and excess >= 0:
        pass_over(breaks_size)
    if settings.retention_ms >= 0:
        pass_over(lambda first, _: now_ms - first.timestamp_ms > settings.retention_ms)
    return deleted


@st.composite
def logs(draw: st.DrawFn) -> LogFacts:
    ends = sorted(draw(st.sets(st.integers(1, 100), min_size=1, max_size=8)))
    bases = [0, *ends[:-1]]
    segments = [
        SegmentFacts(
            base,
            end,
            draw(st.integers(1, 6)),
            draw(st.integers(-1, 20)),
            modified_ms=draw(st.integers(0, 20)),
        )
        for base, end in zip(bases, ends, strict=True)
    ]
    if draw(st.booleans()):
        segments.append(SegmentFacts(ends[-1], ends[-1], 0, -1, modified_ms=draw(st.integers(0, 20))))
    start = draw(st.integers(0, ends[-1]))
    return log(*segments, start=start, stable=draw(st.integers(start, ends[-1])))


SETTINGS = st.builds(
    lambda policy, age, size: config(cleanup_policy=policy, retention_ms=age, retention_bytes=size),
    st.sampled_from(["delete", "compact", "compact,delete"]),
    st.integers(-1, 20),
    st.integers(-1, 30),
)


@given(logs(), SETTINGS, st.integers(0, 30))
def test_exactly_what_kafka_deletes_is_deleted(facts: LogFacts, settings: LogConfig, now_ms: int) -> None:
    decided = plan_retention(facts, settings, now_ms)
    assert [fate.segment.base_offset for fate in decided.removed] == kafka_deletes(facts, settings, now_ms)


@given(logs(), SETTINGS, st.integers(0, 30), st.dictionaries(st.sampled_from("ab"), st.integers(0, 100)))
def test_groups_keep_a_tail_of_what_kafka_would_delete(
    facts: LogFacts, settings: LogConfig, now_ms: int, groups: dict[str, int]
) -> None:
    decided = plan_retention(facts, settings, now_ms, RetentionOptions(groups))
    removed = [fate.segment for fate in decided.removed]
    without = kafka_deletes(facts, settings, now_ms)
    assert [each.base_offset for each in removed] == without[: len(removed)]
    assert list(facts.segments) == [fate.segment for fate in decided.fates]  # oldest first, none left out
    allowed = max(facts.log_start_offset, min(groups.values(), default=1000))
    assert all(each.next_offset <= allowed for each in removed)
    assert bool(decided.warnings) == (len(removed) < len(without))


@given(logs(), SETTINGS, st.integers(0, 30))
def test_no_segment_is_deleted_before_the_reported_time(facts: LogFacts, settings: LogConfig, now_ms: int) -> None:
    decided = plan_retention(facts, settings, now_ms)
    remaining = log(*(fate.segment for fate in decided.kept), start=decided.log_start_offset) if decided.kept else None
    for fate in decided.kept:
        if fate.until_ms is not None and remaining is not None:
            at_that_time = plan_retention(remaining, settings, max(fate.until_ms, now_ms))
            assert fate.segment in [each.segment for each in at_that_time.kept]


# The worked example: one record every 5 seconds, 109 of them a segment


FIRST_MS = 1_639_132_508_991


def worked_example(now_ms: int) -> RetentionPlan:
    """``segment.bytes=16384``, ``retention.ms=600000``, checked every 5 minutes, ``file.delete.delay.ms=60000``."""
    rolled_ms = FIRST_MS + 108 * 5000  # 9 minutes after the first record
    facts = LogFacts(
        "/logs/canary-0",
        (
            SegmentFacts(0, 109, 16_314, rolled_ms, rolled_ms, FIRST_MS),
            SegmentFacts(109, 110, 150, rolled_ms + 5000, rolled_ms + 5000, rolled_ms + 5000, is_active=True),
        ),
        *(0, 110, 110),
    )
    return plan_retention(facts, config(retention_ms=600_000, file_delete_delay_ms=60_000), now_ms)


def test_the_first_record_of_a_segment_can_live_for_25_minutes() -> None:
    first = worked_example(FIRST_MS + 540_000).kept[0]
    assert first.until_ms == FIRST_MS + (9 + 10) * MINUTE_MS
    assert first.removed_by_ms == FIRST_MS + (9 + 10 + 5 + 1) * MINUTE_MS
    assert first.lifetime_ms == 25 * MINUTE_MS
    assert worked_example(first.until_ms).removed == ()
    assert worked_example(first.until_ms + 1).removed[0].segment.base_offset == 0
