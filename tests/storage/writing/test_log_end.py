"""What is written at the end of a log, and what moves with it: over a view of the log, without the log."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.recovery.producer_state import Origin
from pyspark_commitlog.storage.segment.joining import Holes
from pyspark_commitlog.storage.segment.writer import LogSegment
from tests.support.logs.building import batch, records, replicated, rows
from tests.support.logs.parts import Parts


def test_one_batch_by_plain_numbers_is_what_it_is_by_tables() -> None:
    logs = Parts(b"0"), Parts(b"0")
    infos = [
        logs[0].append(batch(b"1", b"2", producer_id=7, base_sequence=0)),
        logs[1].append_one(b"1", b"2", producer_id=7, base_sequence=0),
    ]
    assert infos[0] == infos[1]
    for each in logs:
        assert each.view.log_end_offset == 3
        assert rows(each.view) == [(0, b"0"), (1, b"1"), (2, b"2")]
    assert logs[0].view.producers.entries() == logs[1].view.producers.entries()


def test_batches_fill_as_many_segments_as_they_need() -> None:
    parts = Parts(segment_bytes=200)
    values = [b"%d" % number * 50 for number in range(5)]
    buffer, headers = v2.encode_batches(records(values), v2.BatchFields(), batch_bytes_max=0)
    info = parts.end.write(parts.checks.encoded(buffer, headers))
    assert (info.first_offset, info.last_offset, info.size) == (0, 4, int(headers.table["size"].sum()))
    assert parts.bases == [0, 1, 2, 3, 4]
    assert rows(parts.view) == list(enumerate(values))


def test_a_log_has_begun_with_its_first_batch_and_again_after_a_roll() -> None:
    parts = Parts()
    assert not parts.end.has_begun
    parts.append(batch(b"0"))
    assert parts.end.has_begun
    parts.rolling.roll()
    assert not parts.end.has_begun
    parts.append_one(b"1")
    assert parts.end.has_begun


def test_a_gap_is_noted_before_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    parts, seen = Parts(b"0"), []
    append = LogSegment.append

    def noting(segment: LogSegment, *args: Any) -> None:
        seen.append(parts.marks.holes())
        append(segment, *args)

    monkeypatch.setattr(LogSegment, "append", noting)
    both = np.concatenate([replicated(b"5", base_offset=5), replicated(b"9", base_offset=9)])
    parts.append(both, Origin.REPLICATION)
    assert seen == [Holes.ANYWHERE]
    assert parts.view.log_end_offset == 10


def test_a_write_that_is_interrupted_moves_no_end_and_stops_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = Parts(b"0")

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LogSegment, "append_batch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        parts.append_one(b"1")
    assert parts.view.log_end_offset == 1
    assert parts.fail_stop.failure == "a change was interrupted"
