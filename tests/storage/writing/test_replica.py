"""A log that follows another without a broker in between: fetches of any size, and batches made from records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.storage.errors import CorruptRecordError, UnexpectedAppendOffsetError
from pyspark_commitlog.storage.format.v2 import BatchFields
from pyspark_commitlog.storage.writing.log import Log
from pyspark_commitlog.storage.writing.replica import append_fetched, begin_at, fetched_records, producer_batches
from tests.support.logs.building import open_log, records


@pytest.fixture
def leader(tmp_path: Path) -> Log:
    """Four batches of five records, all of one size."""
    log = open_log(tmp_path / "leader")
    for first in range(0, 20, 5):
        log.append_records(records([b"%02d" % number for number in range(first, first + 5)]))
    return log


@pytest.fixture
def follower(tmp_path: Path) -> Log:
    return open_log(tmp_path / "follower")


def fetch(leader: Log, offset: int, size: int = 1 << 20) -> bytes:
    """A broker's answer: from the batch that holds the offset on, cut anywhere after it."""
    data = next(Path(leader.context.directory).glob("*.log")).read_bytes()
    return data[offset // 5 * (len(data) // 4) :][:size]


def values(log: Log) -> list[bytes | None]:
    found = log.records(log.log_start_offset, log.log_end_offset)
    return [value for piece in found if piece.values is not None for value in piece.values.to_list()]


@pytest.mark.parametrize("size", [200, 300, 1000])
def test_fetches_cut_anywhere_lead_to_the_same_bytes(leader: Log, follower: Log, size: int) -> None:
    while follower.log_end_offset < leader.log_end_offset:
        end = follower.log_end_offset
        assert append_fetched(follower, fetch(leader, end, size), end, end)
    assert fetch(follower, 0) == fetch(leader, 0)


def test_an_answer_that_arrives_after_another_follower_continued_is_dropped(leader: Log, follower: Log) -> None:
    assert append_fetched(follower, fetch(leader, 0, 300), 0, 0)
    end = follower.log_end_offset
    assert not append_fetched(follower, fetch(leader, 0), 0, 0)
    assert follower.log_end_offset == end


def test_empty_log_begins_inside_a_batch_as_the_leaders_does(leader: Log, follower: Log) -> None:
    assert begin_at(follower, 12)
    assert append_fetched(follower, fetch(leader, 12), 12, 12)
    assert (follower.log_start_offset, follower.log_end_offset) == (12, 20)
    assert values(follower) == [b"%02d" % number for number in range(12, 20)]


def test_log_that_ends_inside_a_batch_of_the_leader_is_not_changed(leader: Log, follower: Log) -> None:
    follower.append_records(records([b"own"] * 12))
    with pytest.raises(UnexpectedAppendOffsetError):
        append_fetched(follower, fetch(leader, 12), 12, 12)
    assert values(follower) == [b"own"] * 12


def test_log_that_another_follower_filled_first_is_not_restarted(leader: Log, follower: Log) -> None:
    second = open_log(follower.context.directory, follower.checkpoints)
    assert begin_at(second, 12)
    assert append_fetched(second, fetch(leader, 12), 12, 12)
    assert not begin_at(follower, 12)
    assert values(follower) == [b"%02d" % number for number in range(12, 20)]


def test_damaged_answer_is_refused(leader: Log, follower: Log) -> None:
    damaged = bytearray(fetch(leader, 0))
    damaged[80] ^= 1
    for take in (lambda: append_fetched(follower, bytes(damaged), 0, 0), lambda: fetched_records(bytes(damaged))):
        with pytest.raises(CorruptRecordError):
            take()
    assert follower.log_end_offset == 0


@given(count=st.integers(1, 60), first=st.integers(0, 59), batch_bytes_max=st.integers(1, 500))
def test_produced_batches_count_from_0_and_hold_the_records_in_order(
    count: int, first: int, batch_bytes_max: int
) -> None:
    wanted = [b"%d" % number for number in range(count)]
    part = records(wanted).slice(min(first, count - 1), count)
    fields = BatchFields(producer_id=7, producer_epoch=0, base_sequence=3)
    found = []
    for batch, size in producer_batches(part, fields, batch_bytes_max=batch_bytes_max):
        decoded = fetched_records(batch)
        assert decoded.values is not None
        assert np.array_equal(decoded.offsets, np.arange(size))
        found += decoded.values.to_list()
    assert found == wanted[min(first, count - 1) :]
