"""What building the map shows about records, so that a compaction need not read or look them up a second time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.compaction import filter, superseded
from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.compaction.superseded import Superseded
from pyspark_commitlog.storage.format import compaction_view, v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.legacy import v1
from pyspark_commitlog.storage.format.tables import BatchHeaders, Int64s
from pyspark_commitlog.storage.kernels.compaction.offset_map import OffsetMap
from pyspark_commitlog.storage.segment.walk import Window
from pyspark_commitlog.storage.segment.writer import LogSegment
from pyspark_commitlog.storage.writing.log import Log
from tests.storage.kernels.test_twins import table
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs import reference
from tests.support.logs.building import config, records

Batch = list[tuple[int, bytes | None]]  # offset and key of each record


def encoded(batches: Sequence[Batch], module: object = v2) -> np.ndarray:
    pieces = []
    for batch in batches:
        rows = table([reference.Record(offset, 0, key, b"value", ()) for offset, key in batch])
        pieces.append(v2.encode(rows, v2.BatchFields()) if module is v2 else v1.encode(rows, Codec.GZIP))
    return np.concatenate(pieces)


def seen(*runs: np.ndarray, start: int = 0, end: int = 100, limit: int = 50) -> tuple[list[bool], BatchHeaders]:
    """Which batches of the last run are superseded once all runs are put."""
    (_, found), headers = put(*runs, start=start, end=end, limit=limit), formats.scan(runs[-1]).headers
    return found.of(headers).tolist(), headers


def put(*runs: np.ndarray, start: int, end: int, limit: int = 50) -> tuple[OffsetMap, Superseded]:
    offset_map, found = OffsetMap(24 * limit, 1.0), Superseded(start, end)
    for buffer in runs:
        headers = formats.scan(buffer).headers
        keys = compaction_view.read(buffer, headers, offset_map.secret)
        found.see_put(headers, keys)
        offset_map.put_all(keys.hashes, keys.has_key, keys.offsets, start)
    found.close(offset_map)
    return offset_map, found


def in_order(keys: list[list[bytes | None]]) -> list[Batch]:
    """Batches with these keys, from offset 10 on."""
    offsets = count(10)
    return [[(next(offsets), key) for key in batch] for batch in keys]


def test_a_batch_is_superseded_when_all_of_its_keys_occur_again() -> None:
    batches = encoded([[(0, b"a"), (1, b"b")], [(2, b"c"), (3, b"a")], [(4, b"b"), (5, b"c")]])
    assert seen(batches)[0] == [True, False, False]


def test_a_record_without_a_key_wants_its_batch_read_since_it_is_counted() -> None:
    assert seen(encoded([[(0, b"a"), (1, None)], [(2, b"a")]]))[0] == [False, False]


def test_nothing_below_the_dirty_part_is_superseded_unread() -> None:
    assert seen(encoded([[(0, b"a"), (1, b"a")], [(2, b"a")], [(3, b"a")]]), start=1)[0] == [False, True, False]


def test_nothing_above_the_end_of_the_map_is_superseded() -> None:
    batches = encoded([[(0, b"a")], [(1, b"a"), (2, b"b")], [(3, b"c"), (4, b"c")], [(5, b"c")]])
    assert seen(batches, limit=2)[0] == [True, False, False, False]


@pytest.mark.parametrize(
    "batches",
    [
        [[(0, b"a")], [(7, b"a")], [(5, b"a")], [(8, b"b")]],
        [[(3, b"a")], [(3, b"a")], [(4, b"a")]],
    ],
)
def test_in_a_log_whose_offsets_do_not_ascend_every_batch_is_read(batches: list[Batch]) -> None:
    assert not any(seen(encoded(batches))[0])


def test_a_record_outside_the_offsets_of_its_batch_makes_every_batch_be_read() -> None:
    buffer = encoded([[(0, b"a"), (9, b"b")], [(10, b"a")]])
    headers = formats.scan(buffer).headers
    buffer[23:27] = np.frombuffer((3).to_bytes(4, "big"), dtype=np.uint8)  # the last offset delta
    v2.sign(buffer, headers.table["position"], headers.table["size"])
    assert not any(seen(buffer)[0])


def test_records_not_put_are_read_again() -> None:
    buffer, found, offset_map = encoded([[(0, b"a")], [(1, b"b")]]), Superseded(0, 10), OffsetMap(24 * 50, 1.0)
    headers = formats.scan(buffer).headers
    found.see_unput(headers[1:])
    offset_map.update_latest_offset(1)
    found.close(offset_map)
    assert found.of(headers).tolist() == [True, False]


def test_older_messages_are_always_read_and_do_not_keep_newer_ones_from_being_superseded() -> None:
    old = encoded([[(0, b"a"), (1, b"b")], [(2, b"a")]], v1)
    assert not any(seen(old)[0])
    assert seen(old, encoded([[(3, b"a")], [(4, b"a")]]))[0] == [True, False]


@given(st.lists(st.lists(st.sampled_from([b"a", b"b", b"c", None]), min_size=1, max_size=4), min_size=1, max_size=20))
def test_a_superseded_batch_has_no_surviving_record_however_coarse_the_cells(
    keys: list[list[bytes | None]],
) -> None:
    batches = in_order(keys)
    offset = batches[-1][-1][0] + 1
    newest = {key: at for batch in batches for at, key in batch}
    goes = [all(key is not None and newest[key] > at for at, key in batch) for batch in batches]
    fine = seen(encoded(batches), start=10, end=offset)[0]
    assert fine == goes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(superseded, "_CELLS_MAX", 4)
        coarse = seen(encoded(batches), start=10, end=offset)[0]
        behind_end = seen(encoded(batches), start=10, end=12)[0]
    for some in (coarse, behind_end):
        assert not any(more and not all_ for more, all_ in zip(some, goes, strict=True))


@given(
    st.lists(st.lists(st.sampled_from([b"a", b"b", b"c", None]), min_size=1, max_size=4), min_size=1, max_size=20),
    st.integers(0, 30),
    st.integers(1, 60),
    st.integers(1, 5),
)
def test_marks_find_the_latest_records_like_the_map_or_not_at_all(
    keys: list[list[bytes | None]], start: int, end: int, limit: int
) -> None:
    buffer = encoded(in_order(keys))
    offset_map, found = put(buffer, start=start, end=start + end, limit=limit)
    headers = formats.scan(buffer).headers
    for n in range(len(headers)):
        records = compaction_view.read(buffer, headers[n : n + 1], offset_map.secret)
        unhashed = compaction_view.read(buffer, headers[n : n + 1], None)
        assert (unhashed.offsets.tolist(), len(unhashed.hashes)) == (records.offsets.tolist(), 0)
        if found.knows_each_record(headers[n : n + 1]):
            looked_up = offset_map.are_latest(records.hashes, records.has_key, records.offsets)
            assert found.are_latest(unhashed).tolist() == looked_up.tolist()


def test_all_records_of_the_dirty_part_are_known_where_a_cell_is_one_offset() -> None:
    buffer = encoded([[(0, b"a"), (1, None)], [(2, b"a"), (3, b"b")]])
    headers = formats.scan(buffer).headers
    _, found = put(buffer, start=0, end=4)
    assert found.knows_each_record(headers)
    assert found.are_latest(compaction_view.read(buffer, headers, None)).tolist() == [False, False, True, True]
    assert not put(buffer, start=1, end=4)[1].knows_each_record(headers)
    assert not put(buffer, start=0, end=3)[1].knows_each_record(headers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(superseded, "_CELLS_MAX", 2)
        assert not put(buffer, start=0, end=4)[1].knows_each_record(headers)


def test_a_superseded_batch_is_counted_and_dropped_and_read_only_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = ManualClock()
    settings = config(cleanup_policy="compact", file_delete_delay_ms=0)
    with Log.open("/p-0", settings, clock=clock, filesystem=MemoryFileSystem(clock)) as log:
        for value in (b"1", b"2", b"3"):
            log.append(v2.encode(records([value, value], keys=[b"a", b"b"]), v2.BatchFields(codec=Codec.LZ4)))
        log.roll()
        read: list[int] = []
        original = filter.read_keys

        def watched(
            segment: LogSegment, window: Window, rows: Int64s, secret: compaction_view.Uint64s | None
        ) -> compaction_view.Keyed:
            read.extend(rows.tolist())
            return original(segment, window, rows, secret)

        monkeypatch.setattr(filter, "read_keys", watched)
        result = Cleaner().clean(log, None, clock.now_ms())
        assert read == [2]
        assert (result.counts.records_read, result.counts.records_kept) == (6, 2)
        (part,) = log.records(0, log.log_end_offset)
        assert part.offsets.tolist() == [4, 5]
