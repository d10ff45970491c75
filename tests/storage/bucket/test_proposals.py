"""What exactly-once writers may commit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pyspark_commitlog.storage.bucket.commits.applying import apply
from pyspark_commitlog.storage.bucket.commits.commit import (
    FinishChange,
    GroupOffset,
    OpenChange,
    StagedObject,
    TopicChange,
    VoidChange,
)
from pyspark_commitlog.storage.bucket.commits.state import State
from pyspark_commitlog.storage.bucket.proposals import Claim, StagedWrite, claim_app, commit_write, open_app
from pyspark_commitlog.storage.errors import (
    MissingSegmentError,
    ProducerFencedError,
    ProgressMismatchError,
    TransactionAbortedError,
    UnknownTopicOrPartitionError,
)
from tests.support.stores.commits import TOPIC_ID, commit_log, create_topic, data, follow, hex_id, state_of
from tests.support.stores.memory_store import MemoryStore

ROWS = np.array([(0, 0, 100, 1, 1, 5)], np.int64)
BEGUN = (create_topic(), OpenChange("app", 1, "q"), data(1, 3, app="app", version=5, epoch=1, query="q"))


def staged(version: int = 6, epoch: int = 1, write: int = 2) -> StagedWrite:
    slices = {(TOPIC_ID, 0): ROWS, (TOPIC_ID, 1): ROWS[:0]}
    offsets = {"g": {"t-0": GroupOffset(1, "")}}
    claim = Claim("app", epoch, "q", "run")
    return StagedWrite(hex_id(write), [StagedObject(0, 0, 0, 100)], slices, claim, version, offsets)


def test_a_write_begins_where_the_partition_ends() -> None:
    change = commit_write(state_of(*BEGUN), staged())
    assert change is not None
    assert [(part.partition, part.base_offset) for part in change.parts] == [(0, 3)]
    assert (change.app, change.version, change.epoch, change.query, change.run) == ("app", 6, 1, "q", "run")
    assert change.offsets == {"g": {"t-0": GroupOffset(1, "")}}


@pytest.mark.parametrize("version", [0, 4, 5])
def test_a_version_that_is_committed_is_skipped(version: int) -> None:
    assert commit_write(state_of(*BEGUN), staged(version)) is None


def test_a_writer_that_goes_on_takes_over_only_what_is_still_its_own() -> None:
    state = state_of(OpenChange("app", 1, None, "a"))
    assert open_app(state, "app", None, "b", after=["a"]) == OpenChange("app", 2, None, "b")
    assert open_app(state, "other", None, "b", after=["a"]) == OpenChange("other", 1, None, "b")
    with pytest.raises(ProducerFencedError, match="another writer took over; it is of run a"):
        open_app(state, "app", None, "c", after=["b", "c"])


def test_a_writer_is_fenced_by_the_next_one() -> None:
    state = state_of(*BEGUN, OpenChange("app", 2, "q"))
    with pytest.raises(ProducerFencedError, match="'app'"):
        commit_write(state, staged())
    with pytest.raises(ProducerFencedError):
        commit_write(state_of(create_topic()), staged())


def test_a_write_that_was_given_up_must_be_written_again() -> None:
    with pytest.raises(TransactionAbortedError, match="write again"):
        commit_write(state_of(*BEGUN, VoidChange([hex_id(2)])), staged())


def test_a_write_to_a_copy_that_is_not_finished_is_refused() -> None:
    copied = TopicChange("create", "t", TOPIC_ID, 2, {}, is_copied=True)
    state = state_of(copied, OpenChange("app", 1, "q"), data(1, 3))
    with pytest.raises(
        MissingSegmentError, match=r"t-0\.unfinished: the copy of this partition to here is not finished"
    ):
        commit_write(state, staged())
    apply(state, follow(state, FinishChange(TOPIC_ID, 0)))
    assert commit_write(state, staged()) is not None


def test_a_write_for_a_deleted_topic_is_refused_even_if_there_is_another_of_its_name() -> None:
    state = state_of(*BEGUN, TopicChange("delete", "t", TOPIC_ID), create_topic(topic_id="u" * 22))
    with pytest.raises(UnknownTopicOrPartitionError, match=TOPIC_ID):
        commit_write(state, staged())


def test_an_app_is_opened_with_the_next_epoch() -> None:
    assert open_app(state_of(), "app", "q", None) == OpenChange("app", 1, "q", None)
    assert open_app(state_of(*BEGUN), "app", "q", "r") == OpenChange("app", 2, "q", "r")


def test_an_app_is_not_taken_over_by_another_query() -> None:
    with pytest.raises(ProgressMismatchError, match="another txnAppId"):
        open_app(state_of(*BEGUN), "app", "other", None)
    assert open_app(state_of(create_topic(), OpenChange("app", 1, "q")), "app", "other", None).epoch == 2


def test_a_write_without_an_app_has_no_version() -> None:
    change = commit_write(state_of(*BEGUN), StagedWrite(hex_id(2), [StagedObject(0, 0, 0, 100)], {(TOPIC_ID, 0): ROWS}))
    assert change is not None
    assert (change.app, change.version, change.epoch, change.offsets) == (None, None, None, None)


# --- progress as offsets of the group that has the app's name


def with_progress(**offsets: int) -> StagedWrite:
    own = {f"__sink.{topic}-0": GroupOffset(offset, "") for topic, offset in offsets.items()}
    claim = Claim("other", 1, "q", "run")
    return StagedWrite(hex_id(3), [StagedObject(0, 0, 0, 100)], {(TOPIC_ID, 0): ROWS}, claim, offsets={"other": own})


def progressed(**offsets: int) -> State:
    state = state_of(create_topic(), OpenChange("other", 1, "q"))
    change = commit_write(state, with_progress(**offsets))
    assert change is not None
    assert change.version is None
    return state_of(create_topic(), OpenChange("other", 1, "q"), replace(change, write=hex_id(1)))


def test_offsets_that_are_committed_are_skipped() -> None:
    state = progressed(t=5, u=5)
    assert state.apps["other"].version is None
    for offset in (0, 4, 5):
        assert commit_write(state, with_progress(t=offset, u=offset)) is None
    assert commit_write(state, with_progress(t=6, u=6)) is not None
    assert commit_write(state, with_progress(v=1)) is not None


def test_offsets_of_which_a_part_is_committed_are_refused() -> None:
    with pytest.raises(ProgressMismatchError, match=r"__sink\.t-0, but not for __sink\.u-0"):
        commit_write(progressed(t=5, u=4), with_progress(t=5, u=5))


def test_a_claim_fences_the_one_before() -> None:
    log = commit_log(MemoryStore())
    log.commit(lambda _: create_topic())
    assert claim_app(log, "other", "q", None) == Claim("other", 1, "q", None)
    assert claim_app(log, "other", "q", None).epoch == 2
    with pytest.raises(ProducerFencedError):
        log.commit(lambda state: commit_write(state, with_progress(t=1)))
