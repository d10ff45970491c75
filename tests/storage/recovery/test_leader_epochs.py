"""The cache of leader epochs."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.format.files.checkpoints import EpochEntry, decode_leader_epochs
from pyspark_commitlog.storage.recovery.leader_epochs import LeaderEpochCache
from tests.support.logs.sidecars import SIDECARS


class Checkpoint:
    """Keeps every version written."""

    def __init__(self) -> None:
        self.versions: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.versions.append(data)


def cache_of(*entries: tuple[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache(EpochEntry(*entry) for entry in entries)


def test_a_checkpoint_of_kafka_is_read_and_written_unchanged() -> None:
    data = (SIDECARS / "log-dir" / file_names.LEADER_EPOCH_CHECKPOINT).read_bytes()
    assert LeaderEpochCache(decode_leader_epochs(data)).to_bytes() == data


def test_assigning_the_latest_epoch_again_writes_nothing() -> None:
    checkpoint = Checkpoint()
    cache = LeaderEpochCache(write=checkpoint.write)
    cache.assign(0, 0)
    cache.assign(0, 17)
    assert cache.entries == (EpochEntry(0, 0),)
    assert checkpoint.versions == [b"0\n1\n0 0\n"]


def test_epoch_zero_counts_as_an_epoch() -> None:
    cache = cache_of((0, 5))
    assert cache.latest == EpochEntry(0, 5)
    assert cache.end_offset_for(0, 9) == (0, 9)


@pytest.mark.parametrize(
    ("epoch", "start", "left"),
    [
        pytest.param(3, 40, [(0, 0), (1, 10), (2, 20), (3, 40)], id="a new epoch"),
        pytest.param(3, 20, [(0, 0), (1, 10), (3, 20)], id="an epoch that wrote nothing gives way"),
        pytest.param(2, 15, [(0, 0), (1, 10), (2, 15)], id="the latest epoch began earlier"),
        pytest.param(1, 30, [(0, 0), (1, 30)], id="an older epoch drops what is newer"),
        pytest.param(5, 5, [(0, 0), (5, 5)], id="an earlier offset drops what is above"),
    ],
)
def test_an_assignment_drops_what_contradicts_it(epoch: int, start: int, left: list[tuple[int, int]]) -> None:
    cache = cache_of((0, 0), (1, 10), (2, 20))
    cache.assign(epoch, start)
    assert list(cache.entries) == left


@pytest.mark.parametrize(("epoch", "start"), [(-1, 0), (0, -1)])
def test_negative_epochs_and_offsets_are_refused(epoch: int, start: int) -> None:
    with pytest.raises(ValueError, match="must be 0 or more"):
        LeaderEpochCache().assign(epoch, start)


@pytest.mark.parametrize(
    ("end", "left"),
    [(25, 3), (20, 2), (11, 2), (10, 1), (1, 1), (0, 0)],
)
def test_truncating_the_end_drops_epochs_that_begin_there_or_later(end: int, left: int) -> None:
    checkpoint = Checkpoint()
    before = [EpochEntry(0, 0), EpochEntry(1, 10), EpochEntry(2, 20)]
    cache = LeaderEpochCache(before, checkpoint.write)
    cache.truncate_from_end(end)
    assert list(cache.entries) == before[:left]
    assert len(checkpoint.versions) == (left < 3)


@pytest.mark.parametrize(
    ("start", "left"),
    [
        pytest.param(0, [(0, 0), (1, 10), (2, 20)], id="nothing gone"),
        pytest.param(5, [(0, 5), (1, 10), (2, 20)], id="within the first"),
        pytest.param(10, [(1, 10), (2, 20)], id="at the second"),
        pytest.param(99, [(2, 99)], id="beyond all"),
    ],
)
def test_truncating_the_start_keeps_the_epoch_in_force(start: int, left: list[tuple[int, int]]) -> None:
    checkpoint = Checkpoint()
    cache = LeaderEpochCache([EpochEntry(0, 0), EpochEntry(1, 10), EpochEntry(2, 20)], checkpoint.write)
    cache.truncate_from_start(start)
    assert list(cache.entries) == left
    assert len(checkpoint.versions) == (start > 0)


def test_truncating_below_the_first_epoch_changes_nothing() -> None:
    cache = cache_of((3, 50))
    cache.truncate_from_start(49)
    assert list(cache.entries) == [(3, 50)]


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        pytest.param(4, (4, 100), id="the latest ends with the log"),
        pytest.param(2, (2, 30), id="a known one ends where the next begins"),
        pytest.param(3, (2, 30), id="a skipped one: the one below it"),
        pytest.param(0, (0, 10), id="below all: where the first begins"),
        pytest.param(5, (-1, -1), id="above all: not known"),
        pytest.param(-1, (-1, -1), id="none"),
    ],
)
def test_the_end_of_an_epoch(epoch: int, expected: tuple[int, int]) -> None:
    assert cache_of((1, 10), (2, 20), (4, 30)).end_offset_for(epoch, log_end_offset=100) == expected


def test_an_empty_cache_knows_no_end() -> None:
    assert LeaderEpochCache().end_offset_for(0, 10) == (-1, -1)
    assert LeaderEpochCache().latest is None


@pytest.mark.parametrize(("offset", "epoch"), [(9, -1), (10, 1), (29, 2), (30, 4), (1000, 4)])
def test_the_epoch_in_force_at_an_offset(offset: int, epoch: int) -> None:
    assert cache_of((1, 10), (2, 20), (4, 30)).epoch_for(offset) == epoch


def test_clearing_writes_an_empty_checkpoint_once() -> None:
    checkpoint = Checkpoint()
    cache = LeaderEpochCache([EpochEntry(0, 0)], checkpoint.write)
    cache.clear()
    cache.clear()
    assert checkpoint.versions == [b"0\n0\n"]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=30))
def test_whatever_is_assigned_epochs_and_offsets_increase_and_the_last_one_holds(pairs: list[tuple[int, int]]) -> None:
    checkpoint = Checkpoint()
    cache = LeaderEpochCache(write=checkpoint.write)
    for epoch, start in pairs:
        cache.assign(epoch, start)
        assert cache.latest is not None
        assert cache.latest.epoch == epoch
        assert cache.latest.start_offset <= start
        assert all(a.epoch < b.epoch and a.start_offset < b.start_offset for a, b in pairwise(cache.entries))
        assert checkpoint.versions[-1] == cache.to_bytes()
