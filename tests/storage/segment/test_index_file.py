"""The indexes of a segment."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.storage.errors import CorruptIndexError, InvalidOffsetError, SegmentOffsetOverflowError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.format.files.index_entries import AbortedTxn, encode_aborted
from pyspark_commitlog.storage.segment.offset_index import OffsetIndex, OffsetPosition
from pyspark_commitlog.storage.segment.time_index import TimeIndex, TimestampOffset
from pyspark_commitlog.storage.segment.txn_index import TransactionIndex
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.sidecars import dump_of, partition_files

BASE = 1000


@pytest.fixture
def disk() -> MemoryFileSystem:
    return MemoryFileSystem()


def offset_index(disk: MemoryFileSystem, *, max_bytes: int = 80, writable: bool = True) -> OffsetIndex:
    return OffsetIndex(disk, "/x.index", BASE, max_bytes=max_bytes, writable=writable)


def time_index(disk: MemoryFileSystem, *, max_bytes: int = 120, writable: bool = True) -> TimeIndex:
    return TimeIndex(disk, "/x.timeindex", BASE, max_bytes=max_bytes, writable=writable)


def txn_index(disk: MemoryFileSystem, *, writable: bool = True) -> TransactionIndex:
    return TransactionIndex(disk, "/x.txnindex", BASE, writable=writable)


def size(disk: MemoryFileSystem, path: str) -> int | None:
    status = disk.status(path)
    return None if status is None else status.size


def put(disk: MemoryFileSystem, path: str, data: bytes) -> None:
    file = disk.open(path, "create")
    file.truncate(0)
    file.write(0, data)
    file.close()


def base_of(path: Path) -> int:
    base = file_names.base_offset_of(path.name)
    assert base is not None
    return base


def where(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


# --- files of Kafka


@pytest.mark.parametrize("path", partition_files(".index"), ids=where)
def test_an_offset_index_of_kafka_equals_its_dump(path: Path) -> None:
    index = OffsetIndex(LocalFileSystem(), str(path), base_of(path), writable=False)
    index.sanity_check()
    pairs = zip(index.offsets.tolist(), index.positions.tolist(), strict=True)
    assert [f"offset: {offset} position: {position}" for offset, position in pairs] == dump_of(path)


@pytest.mark.parametrize("path", partition_files(".timeindex"), ids=where)
def test_a_time_index_of_kafka_equals_its_dump(path: Path) -> None:
    index = TimeIndex(LocalFileSystem(), str(path), base_of(path), writable=False)
    index.sanity_check()
    pairs = zip(index.timestamps.tolist(), index.offsets.tolist(), strict=True)
    assert [f"timestamp: {timestamp} offset: {offset}" for timestamp, offset in pairs] == dump_of(path)


@pytest.mark.parametrize("path", partition_files(".txnindex"), ids=where)
def test_a_transaction_index_of_kafka_equals_its_dump(path: Path) -> None:
    index = TransactionIndex(LocalFileSystem(), str(path), base_of(path), writable=False)
    index.sanity_check()
    assert [
        f"version: 0 producerId: {entry.producer_id} firstOffset: {entry.first_offset} "
        f"lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}"
        for entry in index.entries
    ] == dump_of(path)


def test_active_indexes_of_a_killed_broker_are_padded_to_capacity_in_the_fixture() -> None:
    sizes = {path.suffix: path.stat().st_size for path in partition_files("index") if "crash" in path.parent.name}
    assert sizes == {".index": 16384, ".timeindex": 16380, ".txnindex": 136}


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_entries_written_by_us_are_the_bytes_kafka_wrote(suffix: str, tmp_path: Path) -> None:
    for path in partition_files(suffix):
        if "crash" in path.parent.name:
            continue
        ours = str(tmp_path / f"{path.parent.name}-{path.name}")
        if suffix == ".index":
            theirs = OffsetIndex(LocalFileSystem(), str(path), base_of(path), writable=False)
            copy = OffsetIndex(LocalFileSystem(), ours, base_of(path))
            copy.resize()
            copy.append_many(theirs.offsets, theirs.positions)
            copy.trim_to_valid_size()
        else:
            times = TimeIndex(LocalFileSystem(), str(path), base_of(path), writable=False)
            copied = TimeIndex(LocalFileSystem(), ours, base_of(path))
            copied.resize()
            copied.append_many(times.timestamps, times.offsets)
            copied.trim_to_valid_size()
        assert Path(ours).read_bytes() == path.read_bytes()


# --- what both sorted indexes do with their files


def test_making_an_index_touches_no_file(disk: MemoryFileSystem) -> None:
    offset_index(disk), time_index(disk), txn_index(disk)
    assert disk.operations == []


def test_an_active_index_is_preallocated_to_whole_entries_and_trimmed_to_what_is_used(disk: MemoryFileSystem) -> None:
    index = OffsetIndex(disk, "/x.index", BASE, max_bytes=300)
    times = TimeIndex(disk, "/x.timeindex", BASE, max_bytes=300)
    index.resize()
    times.resize()
    assert (size(disk, "/x.index"), size(disk, "/x.timeindex")) == (296, 300)
    index.append(BASE + 5, 100)
    times.append(50, BASE + 5)
    assert (size(disk, "/x.index"), size(disk, "/x.timeindex")) == (296, 300)
    index.trim_to_valid_size()
    times.trim_to_valid_size()
    assert (size(disk, "/x.index"), size(disk, "/x.timeindex")) == (8, 12)


def test_the_default_capacities_are_those_of_kafka(disk: MemoryFileSystem) -> None:
    index, times = OffsetIndex(disk, "/x.index", 0), TimeIndex(disk, "/x.timeindex", 0)
    index.resize()
    times.resize()
    assert (size(disk, "/x.index"), size(disk, "/x.timeindex")) == (10485760, 10485756)


@pytest.mark.parametrize("block_entries", [1, 3, 4, 4096])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 7, 8, 9, 10])
def test_entries_are_distinguished_from_the_zeros_of_an_untrimmed_index(
    disk: MemoryFileSystem, count: int, block_entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_commitlog.storage.segment.index_file._BLOCK_ENTRIES", block_entries)
    index, times = offset_index(disk), time_index(disk)
    index.resize()
    times.resize()
    offsets = np.arange(BASE, BASE + count)
    index.append_many(offsets, (offsets - BASE) * 100)
    times.append_many(offsets, offsets, skip_full_check=True)
    index_again, times_again = offset_index(disk, writable=False), time_index(disk, writable=False)
    # The first entry is all zero: it is valid if others follow; alone, it looks like padding.
    assert index_again.offsets.tolist() == (offsets.tolist() if count != 1 else [])
    assert times_again.offsets.tolist() == offsets.tolist()


def test_a_trimmed_index_with_one_entry_of_zeros_has_that_entry(disk: MemoryFileSystem) -> None:
    times = time_index(disk)
    times.resize()
    times.append(0, BASE)
    times.trim_to_valid_size()
    assert time_index(disk).last_entry == (0, BASE)


def test_a_hole_of_zeros_costs_entries_and_gives_no_wrong_one(disk: MemoryFileSystem) -> None:
    index = offset_index(disk)
    index.append_many(np.arange(BASE + 1, BASE + 10), np.arange(100, 1000, 100))
    disk.open("/x.index", "write").write(24, bytes(48))
    kept = offset_index(disk).offsets
    assert kept.tolist() == list(range(BASE + 1, BASE + 4))


def test_a_reader_never_makes_or_changes_a_file(disk: MemoryFileSystem) -> None:
    index, times, txns = (
        offset_index(disk, writable=False),
        time_index(disk, writable=False),
        txn_index(disk, writable=False),
    )
    assert index.lookup(BASE + 5) == (BASE, 0)
    assert times.lookup(5) == (-1, BASE)
    assert txns.collect_aborted(0, 10) == ([], False)
    changes: list[Callable[[], None]] = [
        lambda: index.append(BASE + 1, 1),
        index.resize,
        index.trim_to_valid_size,
        index.reset,
        lambda: times.append(1, BASE + 1),
        lambda: txns.append(AbortedTxn(1, BASE, BASE + 1, BASE + 2)),
    ]
    for change in changes:
        with pytest.raises(io.UnsupportedOperation, match="reading only"):
            change()
    assert disk.list("/") == []
    assert len(index) == len(times) == len(txns) == 0


def test_entries_written_stay_when_the_index_is_opened_again(disk: MemoryFileSystem) -> None:
    index = offset_index(disk)
    index.append(BASE + 5, 100)
    index.close()
    assert index.lookup(BASE + 9) == (BASE + 5, 100)
    again = offset_index(disk)
    again.append(BASE + 7, 200)
    assert offset_index(disk).offsets.tolist() == [BASE + 5, BASE + 7]


def test_a_failed_write_leaves_the_index_unchanged(disk: MemoryFileSystem) -> None:
    faulty = FaultyFileSystem(disk, [fail("write", "/x.index", call=2)])
    index = OffsetIndex(faulty, "/x.index", BASE)
    index.append(BASE + 5, 100)
    with pytest.raises(OSError, match=r"x\.index"):
        index.append(BASE + 7, 200)
    assert index.offsets.tolist() == [BASE + 5]
    index.append(BASE + 7, 200)
    assert offset_index(disk).offsets.tolist() == [BASE + 5, BASE + 7]


def test_many_entries_go_to_the_file_in_one_write(disk: MemoryFileSystem) -> None:
    index = OffsetIndex(disk, "/x.index", BASE)
    index.append_many(np.arange(BASE, BASE + 1000), np.arange(1000) * 4096)
    assert [operation.kind for operation in disk.operations].count("write") == 1
    assert len(index) == 1000


def test_synced_entries_survive_a_power_cut(disk: MemoryFileSystem) -> None:
    index = offset_index(disk)
    index.append(BASE + 5, 100)
    index.sync()
    disk.sync_directory("/")
    index.append(BASE + 7, 200)
    assert offset_index(disk.crash(1, unsynced="lost")).offsets.tolist() == [BASE + 5]


def test_syncing_reaches_what_an_earlier_process_wrote_and_makes_no_file(disk: MemoryFileSystem) -> None:
    offset_index(disk).append(BASE + 5, 100)
    disk.sync_directory("/")
    offset_index(disk).sync()
    txn_index(disk).sync()
    assert offset_index(disk.crash(1, unsynced="lost")).offsets.tolist() == [BASE + 5]
    assert disk.list("/") == ["x.index"]


def test_resetting_empties_the_file(disk: MemoryFileSystem) -> None:
    index = offset_index(disk)
    index.append(BASE + 5, 100)
    index.reset()
    assert (len(index), size(disk, "/x.index")) == (0, 0)
    index.append(BASE + 1, 10)
    assert offset_index(disk).offsets.tolist() == [BASE + 1]


def test_a_renamed_index_writes_on_under_its_new_name(disk: MemoryFileSystem) -> None:
    index = offset_index(disk)
    index.append(BASE + 5, 100)
    index.rename_to("/x.index.deleted")
    index.append(BASE + 7, 200)
    assert disk.list("/") == ["x.index.deleted"]
    assert OffsetIndex(disk, "/x.index.deleted", BASE).offsets.tolist() == [BASE + 5, BASE + 7]


def test_an_index_file_larger_than_any_can_be_is_refused_without_reading_it(
    disk: MemoryFileSystem, tmp_path: Path
) -> None:
    path = tmp_path / "x.index"
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(CorruptIndexError, match=str(2**40)):
        len(OffsetIndex(LocalFileSystem(), str(path), BASE))


@pytest.mark.parametrize("preallocated", [True, False])
def test_truncating_leaves_nothing_of_the_dropped_entries_in_the_file(
    disk: MemoryFileSystem, preallocated: bool
) -> None:
    index, times = offset_index(disk), time_index(disk)
    if preallocated:
        index.resize()
        times.resize()
    offsets = np.arange(BASE + 1, BASE + 6)
    index.append_many(offsets, offsets)
    times.append_many(offsets, offsets)
    index.truncate_to(BASE + 3)
    times.truncate_to(BASE + 3)
    assert (size(disk, "/x.index"), size(disk, "/x.timeindex")) == ((80, 120) if preallocated else (16, 24))
    for ours, again in ((index, offset_index(disk)), (times, time_index(disk))):
        assert ours.offsets.tolist() == again.offsets.tolist() == [BASE + 1, BASE + 2]
    index.append(BASE + 3, 9)
    assert offset_index(disk).last_offset == BASE + 3


# --- the offset index


@pytest.fixture
def four(disk: MemoryFileSystem) -> OffsetIndex:
    index = offset_index(disk)
    index.append_many(np.array([BASE + 5, BASE + 9, BASE + 20, BASE + 30]), np.array([100, 200, 300, 400]))
    return index


@pytest.mark.parametrize(
    ("target", "found"),
    [
        pytest.param(BASE + 4, (BASE, 0), id="below the first"),
        pytest.param(BASE + 5, (BASE + 5, 100), id="the first"),
        pytest.param(BASE + 19, (BASE + 9, 200), id="between"),
        pytest.param(BASE + 30, (BASE + 30, 400), id="the last"),
        pytest.param(2**62, (BASE + 30, 400), id="beyond the last"),
    ],
)
def test_a_lookup_finds_the_last_entry_at_or_below(four: OffsetIndex, target: int, found: tuple[int, int]) -> None:
    assert four.lookup(target) == found


def test_a_lookup_in_an_empty_index_begins_at_the_base(disk: MemoryFileSystem) -> None:
    assert offset_index(disk).lookup(BASE + 5) == (BASE, 0)
    assert offset_index(disk).last_offset == BASE


@pytest.mark.parametrize(
    ("position", "fetched", "found"),
    [
        pytest.param(0, 100, (BASE + 5, 100), id="ends where the first begins"),
        pytest.param(0, 101, (BASE + 9, 200), id="ends within"),
        pytest.param(300, 100, (BASE + 30, 400), id="the last"),
        pytest.param(300, 101, None, id="beyond"),
    ],
)
def test_the_upper_bound_of_a_fetch_is_the_first_entry_after_it(
    four: OffsetIndex, position: int, fetched: int, found: tuple[int, int] | None
) -> None:
    assert four.fetch_upper_bound_offset(OffsetPosition(BASE, position), fetched) == found


@pytest.mark.parametrize("offset", [BASE + 30, BASE + 29, BASE])
def test_an_offset_that_does_not_increase_is_refused(four: OffsetIndex, offset: int) -> None:
    with pytest.raises(InvalidOffsetError, match=r"x\.index"):
        four.append(offset, 500)
    with pytest.raises(InvalidOffsetError):
        four.append_many(np.array([BASE + 40, BASE + 40]), np.array([500, 600]))
    assert len(four) == 4


@pytest.mark.parametrize("offset", [BASE - 1, BASE + 2**31])
def test_an_offset_the_segment_cannot_hold_is_refused(disk: MemoryFileSystem, offset: int) -> None:
    with pytest.raises(SegmentOffsetOverflowError, match=str(offset)):
        offset_index(disk).append(offset, 0)
    with pytest.raises(SegmentOffsetOverflowError, match=str(offset)):
        time_index(disk).append(5, offset)
    offset_index(disk).append(BASE + 2**31 - 1, 0)


def test_a_full_index_accepts_no_more_unless_it_is_rebuilt(disk: MemoryFileSystem) -> None:
    index = offset_index(disk, max_bytes=23)
    index.append(BASE + 1, 10)
    assert not index.is_full
    index.append(BASE + 2, 20)
    assert index.is_full
    with pytest.raises(ValueError, match="cannot append 1 entries: the index has 2, and room for 0 more"):
        index.append(BASE + 3, 30)
    index.append(BASE + 3, 30, skip_full_check=True)
    assert offset_index(disk).offsets.tolist() == [BASE + 1, BASE + 2, BASE + 3]
    index.resize()
    assert size(disk, "/x.index") == 24


@pytest.mark.parametrize(
    ("offset", "left"),
    [(BASE + 31, 4), (BASE + 30, 3), (BASE + 21, 3), (BASE + 20, 2), (BASE + 5, 0), (BASE, 0)],
)
def test_truncating_drops_entries_at_and_above_the_offset(four: OffsetIndex, offset: int, left: int) -> None:
    four.truncate_to(offset)
    assert len(four) == left


@given(
    gaps=st.lists(st.integers(1, 50), max_size=60),
    target=st.integers(-10, 3000),
    cut=st.integers(0, 3000),
)
def test_lookups_agree_with_a_walk_over_the_entries(gaps: list[int], target: int, cut: int) -> None:
    index = OffsetIndex(MemoryFileSystem(), "/x.index", BASE)
    offsets = np.cumsum([BASE, *gaps])[1:]
    for n, offset in enumerate(offsets.tolist()):
        index.append(offset, n * 10)
    entries = [OffsetPosition(offset, n * 10) for n, offset in enumerate(offsets.tolist())]
    below = [entry for entry in entries if entry.offset <= BASE + target]
    assert index.lookup(BASE + target) == (below[-1] if below else (BASE, 0))
    behind = [entry for entry in entries if entry.position >= target + 7]
    assert index.fetch_upper_bound_offset(OffsetPosition(BASE, target), 7) == (behind[0] if behind else None)
    index.truncate_to(BASE + cut)
    assert index.offsets.tolist() == [entry.offset for entry in entries if entry.offset < BASE + cut]


# --- the time index


def test_a_lookup_by_time_finds_the_last_entry_at_or_below(disk: MemoryFileSystem) -> None:
    index = time_index(disk)
    index.append_many(np.array([10, 20, 30]), np.array([BASE + 1, BASE + 5, BASE + 9]))
    found = {target: index.lookup(target) for target in (9, 10, 19, 30, 99)}
    assert found == {9: (-1, BASE), 10: (10, BASE + 1), 19: (10, BASE + 1), 30: (30, BASE + 9), 99: (30, BASE + 9)}
    assert index.last_entry == TimestampOffset(30, BASE + 9)


def test_a_timestamp_no_later_than_the_last_is_ignored(disk: MemoryFileSystem) -> None:
    index = time_index(disk)
    index.append(-1, BASE)
    assert size(disk, "/x.timeindex") is None
    index.append(10, BASE + 1)
    index.append(10, BASE + 2)
    index.append_many(np.array([10, 11, 11, 12]), np.array([BASE + 3, BASE + 4, BASE + 5, BASE + 6]))
    assert index.timestamps.tolist() == [10, 11, 12]
    assert index.offsets.tolist() == [BASE + 1, BASE + 4, BASE + 6]


def test_times_may_be_as_far_apart_as_64_bits_allow(disk: MemoryFileSystem) -> None:
    index = time_index(disk)
    index.append(2**63 - 1, BASE + 1)  # further above -1, where it begins, than 2^63 - 1
    assert index.lookup(2**63 - 1) == TimestampOffset(2**63 - 1, BASE + 1)
    index.sanity_check()
    with pytest.raises(InvalidOffsetError):
        index.append(-(2**63), BASE + 2)


@pytest.mark.parametrize(("timestamp", "offset"), [(9, BASE + 5), (10, BASE), (99, BASE)])
def test_a_time_entry_that_decreases_is_refused(disk: MemoryFileSystem, timestamp: int, offset: int) -> None:
    index = time_index(disk)
    index.append(10, BASE + 1)
    with pytest.raises(InvalidOffsetError, match=r"x\.timeindex"):
        index.append(timestamp, offset)
    with pytest.raises(InvalidOffsetError):
        index.append_many(np.array([20, timestamp]), np.array([BASE + 9, offset]))
    assert len(index) == 1


def test_the_last_slot_is_kept_for_the_entry_that_closes_the_segment(disk: MemoryFileSystem) -> None:
    index = time_index(disk, max_bytes=36)
    index.append(10, BASE + 1)
    assert (index.is_full, index.room) == (False, 1)
    index.append(20, BASE + 2)
    assert (index.is_full, index.room) == (True, 0)
    with pytest.raises(ValueError, match="and room for 0 more"):
        index.append(30, BASE + 3)
    index.append(30, BASE + 3, skip_full_check=True)
    assert (len(index), index.room) == (3, 0)


# --- the transaction index

ABORTED = [
    AbortedTxn(producer_id=1, first_offset=BASE, last_offset=BASE + 10, last_stable_offset=BASE + 2),
    AbortedTxn(producer_id=2, first_offset=BASE + 2, last_offset=BASE + 18, last_stable_offset=BASE + 19),
    AbortedTxn(producer_id=1, first_offset=BASE + 24, last_offset=BASE + 35, last_stable_offset=BASE + 25),
    AbortedTxn(producer_id=3, first_offset=BASE + 25, last_offset=BASE + 39, last_stable_offset=BASE + 40),
]


@pytest.fixture
def aborted(disk: MemoryFileSystem) -> TransactionIndex:
    index = txn_index(disk)
    for entry in ABORTED:
        index.append(entry)
    return index


def test_a_transaction_index_is_made_with_its_first_entry(disk: MemoryFileSystem) -> None:
    index = txn_index(disk)
    assert len(index) == 0
    index.reset()
    index.truncate_to(0)
    index.close()
    assert disk.list("/") == []
    index.append(ABORTED[0])
    assert size(disk, "/x.txnindex") == 34


def test_aborted_transactions_stay_when_the_index_is_opened_again(
    disk: MemoryFileSystem, aborted: TransactionIndex
) -> None:
    again = txn_index(disk)
    assert again.entries == ABORTED
    with pytest.raises(InvalidOffsetError, match="the last one is at"):
        again.append(ABORTED[-1])
    again.sanity_check()


@pytest.mark.parametrize(
    ("fetch", "upper", "found", "complete"),
    [
        pytest.param(BASE, BASE + 100, [0, 1, 2, 3], False, id="all, and perhaps more behind"),
        pytest.param(BASE, BASE + 32, [0, 1, 2, 3], True, id="an unstable offset at the bound ends the search"),
        pytest.param(BASE, BASE + 12, [0, 1], True, id="complete early"),
        pytest.param(BASE + 11, BASE + 100, [1, 2, 3], False, id="one ended before the fetch"),
        pytest.param(BASE + 36, BASE + 40, [3], True, id="the last"),
        pytest.param(BASE + 40, BASE + 50, [], False, id="behind all"),
        pytest.param(BASE + 19, BASE + 24, [], True, id="between transactions"),
    ],
)
def test_aborted_transactions_that_touch_a_range(
    aborted: TransactionIndex, fetch: int, upper: int, found: list[int], complete: bool
) -> None:
    assert aborted.collect_aborted(fetch, upper) == ([ABORTED[n] for n in found], complete)


@pytest.mark.parametrize(
    ("offset", "left"), [(BASE + 40, 4), (BASE + 39, 3), (BASE + 19, 2), (BASE + 18, 1), (BASE, 0)]
)
def test_truncating_drops_transactions_whose_marker_is_gone(
    disk: MemoryFileSystem, aborted: TransactionIndex, offset: int, left: int
) -> None:
    aborted.truncate_to(offset)
    assert aborted.entries == txn_index(disk).entries == ABORTED[:left]
    assert size(disk, "/x.txnindex") == left * 34


def test_a_partial_entry_is_skipped_and_overwritten(disk: MemoryFileSystem, aborted: TransactionIndex) -> None:
    put(disk, "/x.txnindex", encode_aborted(ABORTED)[:-9])
    torn = txn_index(disk)
    assert torn.entries == ABORTED[:-1]
    with pytest.raises(CorruptIndexError, match="part of an entry"):
        torn.sanity_check()
    torn.append(ABORTED[-1])
    assert txn_index(disk).entries == ABORTED


def test_an_unknown_entry_version_names_file_and_position(disk: MemoryFileSystem) -> None:
    put(disk, "/x.txnindex", encode_aborted(ABORTED[:1]) + b"\x01" + encode_aborted(ABORTED[1:])[1:])
    with pytest.raises(CorruptIndexError, match=r"/x\.txnindex, position 34"):
        len(txn_index(disk))


# --- sanity checks


def swap(data: bytes, a: int, b: int, entry_bytes: int) -> bytes:
    rows = [data[n : n + entry_bytes] for n in range(0, len(data), entry_bytes)]
    rows[a], rows[b] = rows[b], rows[a]
    return b"".join(rows)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        pytest.param(lambda data: data[:-1], "bytes follow the last whole entry", id="misaligned"),
        pytest.param(lambda data: swap(data, 1, 2, 8), "entry 2 has offset", id="not sorted"),
        pytest.param(lambda data: data + data[-8:], "entry 4 has offset", id="an entry twice"),
        pytest.param(lambda data: b"\xff" + data[1:], "entry 0 is", id="below the base"),
        pytest.param(lambda data: data[:12] + bytes(4) + data[16:], "entry 1 has position 0", id="a position back"),
    ],
)
def test_a_damaged_offset_index_is_found(
    disk: MemoryFileSystem, four: OffsetIndex, spoil: Callable[[bytes], bytes], reason: str
) -> None:
    four.sanity_check()
    put(disk, "/x.index", spoil(bytes(disk.open("/x.index", "read").read(0, 32))))
    with pytest.raises(CorruptIndexError, match=reason):
        offset_index(disk).sanity_check()


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        pytest.param(lambda data: data[:-5], "7 bytes follow the last whole entry", id="misaligned"),
        pytest.param(lambda data: swap(data, 1, 2, 12), "entry 2 has timestamp", id="not sorted"),
        pytest.param(lambda data: b"\xff" + data[1:], "entry 0 is", id="negative timestamp"),
        pytest.param(lambda data: data[:20] + bytes(4) + data[24:], "entry 1 has offset", id="an offset back"),
    ],
)
def test_a_damaged_time_index_is_found(disk: MemoryFileSystem, spoil: Callable[[bytes], bytes], reason: str) -> None:
    index = time_index(disk)
    index.append_many(np.array([10, 20, 30]), np.array([BASE + 1, BASE + 5, BASE + 9]))
    index.sanity_check()
    put(disk, "/x.timeindex", spoil(bytes(disk.open("/x.timeindex", "read").read(0, 36))))
    with pytest.raises(CorruptIndexError, match=reason):
        time_index(disk).sanity_check()


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param(ABORTED[::-1], id="not sorted"),
        pytest.param([AbortedTxn(1, BASE - 9, BASE - 1, BASE)], id="a marker below the base"),
        pytest.param([AbortedTxn(1, BASE + 5, BASE + 5, BASE)], id="a marker that is its own data"),
    ],
)
def test_a_damaged_transaction_index_is_found(disk: MemoryFileSystem, entries: list[AbortedTxn]) -> None:
    put(disk, "/x.txnindex", encode_aborted(entries))
    with pytest.raises(CorruptIndexError, match="must be above its first offset"):
        txn_index(disk).sanity_check()
