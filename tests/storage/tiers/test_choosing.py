"""Which segments of a tier make up a log, where copies overlap, as Kafka's RemoteLogMetadataCache chooses them."""

from __future__ import annotations

from pyspark_commitlog.storage.format.files.checkpoints import EpochEntry
from pyspark_commitlog.storage.tiers.choosing import choose
from pyspark_commitlog.storage.tiers.metadata_records import SegmentEpoch, TopicIdPartition
from pyspark_commitlog.storage.tiers.port import TierSegment

PARTITION = TopicIdPartition("t", "AAAAAAAAAAAAAAAAAAAAAA", 0)
ONE_EPOCH = [EpochEntry(0, 0)]


def segment(start: int, end: int, *epochs: tuple[int, int], name: str = "", event_ms: int = 0) -> TierSegment:
    """A segment with the offsets ``start`` to ``end``; epoch 0 by default."""
    found = tuple(SegmentEpoch(*each) for each in epochs) or (SegmentEpoch(0, start),)
    return TierSegment(PARTITION, name or f"{start}-{end}", start, end, found, 1, event_ms, name, frozenset())


def chosen(
    segments: list[TierSegment], epochs: list[EpochEntry] = ONE_EPOCH, *, log_start: int = 0, stop: int | None = None
) -> list[tuple[str, int]]:
    """The segments that are chosen, each with the offset before which it is read."""
    return [(each.segment.segment_id, each.next_offset) for each in choose(segments, epochs, log_start, stop)]


def test_segments_in_a_row_are_all_read() -> None:
    assert chosen([segment(10, 19), segment(0, 9), segment(20, 24)]) == [("0-9", 10), ("10-19", 20), ("20-24", 25)]


def test_of_two_copies_of_a_segment_the_later_one_is_read() -> None:
    twice = [segment(0, 9, name="late", event_ms=2), segment(0, 9, name="early", event_ms=1), segment(10, 19)]
    assert chosen(twice) == [("late", 10), ("10-19", 20)]


def test_a_segment_with_more_offsets_supersedes_one_with_fewer() -> None:
    """The two cases in RemoteLogLeaderEpochState."""
    assert chosen([segment(0, 100), segment(0, 200)]) == [("0-200", 201)]
    assert chosen([segment(10, 90), segment(5, 100), segment(101, 200)], log_start=5) == [
        ("5-100", 101),
        ("101-200", 201),
    ]


def test_a_segment_is_read_up_to_the_next_one_that_goes_on() -> None:
    assert chosen([segment(0, 100), segment(50, 150)]) == [("0-100", 50), ("50-150", 151)]


def test_a_segment_of_another_leader_is_left_where_the_logs_part() -> None:
    log = [EpochEntry(0, 0), EpochEntry(2, 60)]
    stale = segment(0, 99, (0, 0), (1, 60))
    assert chosen([stale, segment(60, 120, (2, 60))], log) == [("0-99", 60), ("60-120", 121)]
    assert chosen([stale, segment(40, 120, (0, 40), (2, 60))], log) == [("0-99", 40), ("40-120", 121)]
    assert chosen([segment(60, 99, (1, 60)), segment(60, 80, (2, 60))], log) == [("60-80", 81)]


def test_offsets_that_no_segment_has_stay_missing() -> None:
    assert chosen([segment(0, 9), segment(20, 29)]) == [("0-9", 10), ("20-29", 30)]


def test_what_was_deleted_or_is_local_is_not_read() -> None:
    row = [segment(0, 9), segment(10, 19), segment(20, 29), segment(30, 39)]
    assert chosen(row, log_start=15, stop=25) == [("10-19", 20), ("20-29", 25)]
    assert chosen(row, log_start=15, stop=20) == [("10-19", 20)]
    assert chosen(row, log_start=50) == []


def test_below_the_epochs_that_the_log_still_knows_any_older_one_will_do() -> None:
    log = [EpochEntry(3, 210)]
    assert chosen([segment(159, 237, (1, 159), (3, 200)), segment(238, 300, (3, 238))], log, log_start=210) == [
        ("159-237", 238),
        ("238-300", 301),
    ]


def test_segments_whose_epochs_are_unknown_are_read() -> None:
    unknown = TierSegment(PARTITION, "unknown", 0, 9, None, 1, 0, "", frozenset())
    assert chosen([unknown, segment(10, 19)]) == [("unknown", 10), ("10-19", 20)]
    assert chosen([unknown], []) == [("unknown", 10)]
