"""What commits make of a state, and which commits cannot follow it."""

from __future__ import annotations

import pytest

from pyspark_commitlog.storage.bucket.commits.applying import apply
from pyspark_commitlog.storage.bucket.commits.checkpoints import encode_checkpoint
from pyspark_commitlog.storage.bucket.commits.commit import (
    Change,
    Commit,
    FinishChange,
    GroupOffset,
    OffsetsChange,
    OpenChange,
    RetainChange,
    SwapChange,
    TopicChange,
    VoidChange,
)
from pyspark_commitlog.storage.bucket.commits.state import App
from pyspark_commitlog.storage.errors import CorruptionError
from tests.support.stores.commits import LOG_ID, TOPIC_ID, create_topic, data, follow, hex_id, segment, state_of

OTHER_ID = "u" * 22
WRITTEN = (create_topic(), OpenChange("app", 1, "q"), data(1, 3, 4, app="app", version=5, epoch=1, query="q"))


def test_slices_follow_each_other_without_a_gap() -> None:
    state = state_of(create_topic(), data(1, 3, 4), data(2, 5, base=7), data(3, 2, partition=1))
    assert [(one.base, one.end, one.position, one.size) for one in state.slices(TOPIC_ID, 0)] == [
        (0, 3, 0, 300),
        (3, 7, 300, 400),
        (7, 12, 0, 500),
    ]
    assert [one.key for one in state.slices(TOPIC_ID, 1)] == [f"staged/{hex_id(3)}/1-7-0.data"]
    assert state.partitions[TOPIC_ID, 0].end == 12
    assert (state.number, state.uid) == (4, hex_id(4))


def test_an_app_keeps_its_version_when_it_is_opened_again() -> None:
    state = state_of(*WRITTEN, OpenChange("app", 2, "q", "run"))
    assert state.apps == {"app": App(2, 5, "q", "run")}


def test_offsets_are_set_and_deleted() -> None:
    first = {"g": {"t-0": GroupOffset(1, ""), "t-1": GroupOffset(2, "m")}, "h": {"t-0": GroupOffset(3, "")}}
    state = state_of(
        OffsetsChange(first), OffsetsChange({"g": {"t-0": None}, "h": {"t-0": None}, "none": {"x-0": None}})
    )
    assert state.groups == {"g": {"t-1": GroupOffset(2, "m")}}


def test_offsets_come_with_the_records() -> None:
    state = state_of(create_topic(), data(1, 3, offsets={"g": {"t-0": GroupOffset(1, "")}}))
    assert state.groups["g"]["t-0"].offset == 1


def test_a_copied_partition_is_unfinished_until_a_commit_finishes_it_and_new_ones_are_not() -> None:
    copied = TopicChange("create", "t", TOPIC_ID, 2, {}, is_copied=True)
    more = TopicChange("partitions", "t", TOPIC_ID, 3)
    state = state_of(copied, FinishChange(TOPIC_ID, 1), more)
    assert [state.partitions[TOPIC_ID, number].is_unfinished for number in range(3)] == [True, False, False]
    assert state.copy().partitions[TOPIC_ID, 0].is_unfinished


def test_a_topic_changes() -> None:
    state = state_of(
        create_topic(), TopicChange("partitions", "t", TOPIC_ID, 3), TopicChange("alter", "t", TOPIC_ID, configs={})
    )
    assert state.topics[TOPIC_ID] == ("t", TOPIC_ID, 3, {})
    assert set(state.partitions) == {(TOPIC_ID, number) for number in range(3)}


def test_a_deleted_topic_leaves_nothing_and_can_be_made_again() -> None:
    offsets = {"g": {"t-0": GroupOffset(1, ""), "t-x-0": GroupOffset(2, "")}}
    state = state_of(create_topic(), data(1, 3), OffsetsChange(offsets), TopicChange("delete", "t", TOPIC_ID))
    assert (state.topics, state.topic_ids, state.partitions) == ({}, {}, {})
    assert state.groups == {"g": {"t-x-0": GroupOffset(2, "")}}
    assert state.named_objects() == set()
    apply(state, follow(state, create_topic(topic_id=OTHER_ID)))
    assert state.topic_ids == {"t": OTHER_ID}


def test_a_segment_takes_the_place_of_slices_and_segments() -> None:
    state = state_of(create_topic(), data(1, 3, 4), data(2, 5, base=7), SwapChange(TOPIC_ID, 0, segment(0, 7)))
    assert [one.base for one in state.slices(TOPIC_ID, 0)] == [7]
    apply(state, follow(state, SwapChange(TOPIC_ID, 0, segment(0, 12, 2))))
    assert state.partitions[TOPIC_ID, 0].segments == [segment(0, 12, 2)]
    assert state.slices(TOPIC_ID, 0) == []
    assert state.named_objects() == {f"segments/{TOPIC_ID}/0/{0:020}-{segment(0, 12, 2).uuid}"}
    apply(state, follow(state, data(3, 1, base=12)))
    assert state.partitions[TOPIC_ID, 0].end == 13


def test_retention_drops_what_ends_below_the_log_start() -> None:
    state = state_of(create_topic(), data(1, 3, 4), data(2, 5, base=7), SwapChange(TOPIC_ID, 0, segment(0, 3)))
    for log_start, segments, slices in ((1, 1, 2), (3, 0, 2), (8, 0, 1), (12, 0, 0)):
        apply(state, follow(state, RetainChange(TOPIC_ID, 0, log_start)))
        partition = state.partitions[TOPIC_ID, 0]
        assert (partition.log_start, len(partition.segments), len(partition.slices)) == (log_start, segments, slices)
    apply(state, follow(state, data(3, 1, base=12)))


def test_the_commit_that_drops_the_last_slice_of_a_write_is_remembered() -> None:
    state = state_of(create_topic(), data(1, 3, 4), data(2, 5, base=7), data(3, 5, partition=1))
    assert set(state.uses) == {hex_id(1), hex_id(2), hex_id(3)}
    seven = segment(3, 12)
    for change, dropped in (
        (RetainChange(TOPIC_ID, 0, 3), {}),  # a slice of the first write is left
        (SwapChange(TOPIC_ID, 0, seven), {hex_id(1): 6, hex_id(2): 6}),
        (RetainChange(TOPIC_ID, 0, 12), {hex_id(1): 6, hex_id(2): 6, seven.uuid: 7}),
        (TopicChange("delete", "t", TOPIC_ID), {hex_id(1): 6, hex_id(2): 6, seven.uuid: 7, hex_id(3): 8}),
    ):
        apply(state, follow(state, change))
        assert state.dropped == dropped
    assert not state.uses


def test_what_was_dropped_is_forgotten_and_what_was_never_committed_is_void() -> None:
    state = state_of(create_topic(), data(1, 3), RetainChange(TOPIC_ID, 0, 3), VoidChange([hex_id(1), hex_id(2)]))
    assert (state.dropped, state.void) == ({}, {hex_id(2)})


REFUSED: dict[str, tuple[Change, str]] = {
    "an offset is skipped": (data(2, 1, base=8), "ends at 7"),
    "an offset is given twice": (data(2, 1, base=6), "ends at 7"),
    "a partition that is not there": (data(2, 1, partition=2), "not there"),
    "a topic that is not there": (data(2, 1, topic_id=OTHER_ID), "not there"),
    "an app that nobody opened": (data(2, 1, base=7, app="other", version=1, epoch=1), "not open"),
    "an epoch of before": (data(2, 1, base=7, app="app", version=6, epoch=0), "not open"),
    "an epoch of later": (data(2, 1, base=7, app="app", version=6, epoch=2), "not open"),
    "a version again": (data(2, 1, base=7, app="app", version=5, epoch=1), "committed already"),
    "a version of before": (data(2, 1, base=7, app="app", version=4, epoch=1), "committed already"),
    "an epoch is skipped": (OpenChange("app", 3), "does not follow"),
    "an epoch is taken twice": (OpenChange("app", 1), "does not follow"),
    "a first epoch of 2": (OpenChange("other", 2), "does not follow"),
    "a write that was committed is void": (VoidChange([hex_id(1)]), "made void"),
    "a topic id twice": (create_topic("other"), "exists"),
    "a topic name twice": (create_topic(topic_id=OTHER_ID), "exists"),
    "a topic of another id is deleted": (TopicChange("delete", "t", OTHER_ID), "not there"),
    "a topic of another name is deleted": (TopicChange("delete", "other", TOPIC_ID), "not there"),
    "a copy is finished where there was none": (FinishChange(TOPIC_ID, 0), "not being copied"),
    "a copy of a partition that is not there": (FinishChange(TOPIC_ID, 2), "not there"),
    "fewer partitions": (TopicChange("partitions", "t", TOPIC_ID, 2), "already"),
    "a swap inside a slice": (SwapChange(TOPIC_ID, 0, segment(0, 2)), "begin or end"),
    "a swap from inside a slice": (SwapChange(TOPIC_ID, 0, segment(1, 7)), "begin or end"),
    "a swap past the end": (SwapChange(TOPIC_ID, 0, segment(3, 8)), "begin or end"),
    "a swap behind the end": (SwapChange(TOPIC_ID, 0, segment(7, 9)), "begin or end"),
    "a log start past the end": (RetainChange(TOPIC_ID, 0, 8), "log start"),
    "a log start that stays": (RetainChange(TOPIC_ID, 0, 0), "log start"),
}


@pytest.mark.parametrize(("change", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_commit_that_cannot_follow_is_refused_and_changes_nothing(change: Change, reason: str) -> None:
    state = state_of(*WRITTEN)
    before = encode_checkpoint(state)
    with pytest.raises(CorruptionError, match=reason) as raised:
        apply(state, follow(state, change))
    assert raised.value.path == f"commits/{4:020}"
    assert encode_checkpoint(state) == before


def test_a_partition_never_has_more_records_than_there_are_offsets() -> None:
    state = state_of(create_topic())
    state.partitions[TOPIC_ID, 0].end = 2**63 - 10
    apply(state, follow(state, data(1, 9, base=2**63 - 10)))
    with pytest.raises(CorruptionError, match="more records"):
        apply(state, follow(state, data(2, 2**31 - 1, base=2**63 - 1)))


def test_a_void_write_cannot_be_committed() -> None:
    state = state_of(create_topic(), VoidChange([hex_id(1)]))
    with pytest.raises(CorruptionError, match="void"):
        apply(state, follow(state, data(1, 3)))


def test_a_segment_that_was_given_up_cannot_be_committed() -> None:
    state = state_of(create_topic(), data(1, 3), VoidChange([segment(0, 3).uuid]))
    with pytest.raises(CorruptionError, match="was void"):
        apply(state, follow(state, SwapChange(TOPIC_ID, 0, segment(0, 3))))


def test_a_write_whose_records_were_retained_away_can_be_made_void() -> None:
    state_of(create_topic(), data(1, 3), RetainChange(TOPIC_ID, 0, 3), VoidChange([hex_id(1)]))


@pytest.mark.parametrize(("number", "previous"), [(2, hex_id(1)), (4, hex_id(1)), (3, hex_id(1)), (3, LOG_ID)])
def test_another_number_or_predecessor_is_refused(number: int, previous: str) -> None:
    state = state_of(create_topic(), data(1, 3))
    with pytest.raises(CorruptionError):
        apply(state, Commit(number, hex_id(9), previous, 0, "", data(2, 1, base=3)))


def test_the_first_commit_names_the_log() -> None:
    state = state_of()
    with pytest.raises(CorruptionError, match="not of one log"):
        apply(state, Commit(1, hex_id(9), hex_id(8), 0, "", create_topic()))
