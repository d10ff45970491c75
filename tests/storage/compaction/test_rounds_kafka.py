"""Compaction compared with the results of Kafka 3.9.1's real cleaner on the same directories, batch for batch.

All files are compared byte for byte: logs, indexes, transaction indexes, snapshots. Permitted differences are listed
here, with the reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from pyspark_commitlog.storage.compaction import rounds
from pyspark_commitlog.storage.compaction.dirty import cleanable
from pyspark_commitlog.storage.compaction.markers import Transactions
from pyspark_commitlog.storage.format.tables import Bools
from pyspark_commitlog.storage.recovery.segment_recovery import read_markers
from pyspark_commitlog.storage.segment.walk import Window
from pyspark_commitlog.storage.segment.writer import LogSegment
from pyspark_commitlog.storage.writing.log import Log
from tests.support.clock import ManualClock
from tests.support.logs.compaction import Batch, Pass, batches, passes
from tests.support.logs.maintenance import DELETED_BELOW, EXACT, OTHER_BYTES, STALE_TRANSACTIONS, left_by, segment_files

# The last round of STALE_TRANSACTIONS emptied the batch before the first uncleanable offset: 3.9.1 drops it; newer
# versions (KAFKA-17076) and this engine keep its header, so that the log is known to reach that far.
KEPT_AT_THE_END: Batch = Batch((677, 683, 2, 16, 0, -1, 1795210757302, 2, 0, 217, 0), [])


class Cleaned(NamedTuple):
    """The result of one of our passes."""

    first_dirty_offset: int
    files: dict[str, bytes]
    modified_ms: dict[str, int]
    is_due: bool  # whether another round would follow at once


@pytest.fixture(scope="module", params=EXACT, ids=str)
def cleaned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Pass, Cleaned]:
    each: Pass = request.param
    directory = tmp_path_factory.mktemp("pass") / "log"
    each.lay_out(directory)
    first_dirty = each.clean(directory)
    found = segment_files(directory, DELETED_BELOW.get(str(each), 0))
    modified_ms = {name: (directory / name).stat().st_mtime_ns // 1_000_000 for name in found}
    with each.open(directory, ManualClock(each.times_ms[-1])) as log:
        is_due = cleanable(log, first_dirty, each.times_ms[-1]).is_due
    return each, Cleaned(first_dirty, found, modified_ms, is_due)


def test_a_pass_leaves_what_the_real_cleaner_left(cleaned: tuple[Pass, Cleaned]) -> None:
    each, ours = cleaned
    expected = left_by(each)
    assert ours.first_dirty_offset == each.next_first_dirty_offset
    assert ours.files.keys() == expected.keys()
    assert batches(ours.files) == batches(expected)
    if each.partition not in OTHER_BYTES:
        assert [name for name in expected if ours.files[name] != expected[name]] == []


def test_new_segments_are_as_old_as_what_they_were_made_of(cleaned: tuple[Pass, Cleaned]) -> None:
    each, ours = cleaned
    closed = sorted(set(each.modified_after_ms) & set(ours.files))[:-1]  # the active one is trimmed when it is closed
    assert {name: ours.modified_ms[name] for name in closed} == {name: each.modified_after_ms[name] for name in closed}


def test_nothing_is_due_after_a_pass_as_nothing_was_for_kafka(cleaned: tuple[Pass, Cleaned]) -> None:
    assert not cleaned[1].is_due


def test_with_kafkas_mistake_about_earlier_aborts_kafkas_files_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (each,) = (one for one in passes() if str(one) == STALE_TRANSACTIONS)
    build_map = rounds._Round._build_map

    def build_map_as_kafka(self: rounds._Round) -> None:
        with monkeypatch.context() as patch:
            start = self.what.first_dirty_offset
            patch.setattr(rounds, "Transactions", lambda log: WithEarlierAborts(log, start))
            build_map(self)

    monkeypatch.setattr(rounds._Round, "_build_map", build_map_as_kafka)
    each.lay_out(tmp_path / "log")
    assert each.clean(tmp_path / "log") == each.next_first_dirty_offset
    found, expected = segment_files(tmp_path / "log"), each.files_after
    assert found.keys() == expected.keys()
    assert [batch for batch in batches(found) if batch != KEPT_AT_THE_END] == batches(expected)
    assert [name for name in found if found[name] != expected[name]] == ["00000000000000000600.log"]


def test_without_that_mistake_each_key_has_the_same_newest_record(tmp_path: Path) -> None:
    (each,) = (one for one in passes() if str(one) == STALE_TRANSACTIONS)
    each.lay_out(tmp_path / "log")
    each.clean(tmp_path / "log")
    assert newest(batches(segment_files(tmp_path / "log"))) == newest(batches(each.files_after))


class WithEarlierAborts(Transactions):
    """Transactions as Kafka 3.9.1 tracks them when it builds the map from ``start`` on."""

    def __init__(self, log: Log, start: int) -> None:
        super().__init__(log)
        segment = log.segments.floor(start)
        assert segment is not None
        first = next(segment.batches(segment.position_before(start))).headers.table["base_offset"][0]
        self.earlier = {entry.producer_id for entry in segment.txn_index.entries if entry.last_offset < first}

    def discardable(self, segment: LogSegment, window: Window) -> Bools:
        found = super().discardable(segment, window)
        markers, _ = read_markers(window)
        table = window.headers.table
        for row in np.flatnonzero(window.headers.is_transactional).tolist():
            marker = markers.get(int(table["base_offset"][row]))
            if marker is None:
                found[row] |= int(table["producer_id"][row]) in self.earlier
            elif not marker.is_commit:
                self.earlier.discard(int(table["producer_id"][row]))
        return found


def newest(found: list[Batch]) -> dict[bytes, object]:
    return {record[2]: record for batch in found if not batch.header[3] & 0x20 for record in batch.records}
