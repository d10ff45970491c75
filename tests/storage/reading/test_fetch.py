"""Reading parts of a log: by offset inside batches of every format, and by time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pyspark_commitlog.storage.finding.conditions import Condition
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.fetch import Timespan
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.segment.reader import SegmentReader
from tests.support.kafka import broker_dirs
from tests.support.logs.building import NOW_MS, append, open_log, open_reader, rows

UNCOMMITTED = Isolation.READ_UNCOMMITTED


def offsets(reader: LogReader, start: int, end: int, timespan: Timespan | None = None) -> list[int]:
    found = reader.records(start, end, isolation=UNCOMMITTED, timespan=timespan or Timespan())
    return [offset for part in found for offset in part.offsets.tolist()]


@pytest.mark.parametrize("partition", ["upgraded-0", "v0-gzip-0", "v1-gzip-0", "v1-compacted-0", "v2-gzip-0"])
def test_a_log_of_any_format_can_be_read_in_parts_that_begin_and_end_inside_batches(partition: str) -> None:
    """A header of magic 0 or 1 contains only the last offset: offsets below it must be found all the same."""
    with broker_dirs.open_manager(broker_dirs.legacy() / "log") as manager:
        reader = manager.open_reader(*broker_dirs.topic_partition(partition))
        everything = [offset for offset, _ in rows(reader)]
        for step in (3, 7):
            parts = [offsets(reader, start, start + step) for start in range(0, reader.log_end_offset, step)]
            assert [offset for part in parts for offset in part] == everything


@pytest.fixture
def by_time(tmp_path: Path) -> LogReader:
    """Four segments of two batches of two records: 0 and 1 s, 2 and 3 s, …; but batch 5 has the time of the first."""
    log = open_log(tmp_path)
    for number in range(8):
        first = NOW_MS + (0 if number == 5 else number) * 2000
        append(log, b"a", b"b", timestamps=[first, first + 1000])
        if number % 2:
            log.roll()
    log.close()
    return open_reader(tmp_path)


@pytest.mark.parametrize(
    ("first", "last", "found"),
    [
        pytest.param(NOW_MS, NOW_MS + 10**6, [*range(16)], id="all"),
        pytest.param(NOW_MS + 5000, NOW_MS + 10**6, [4, 5, 6, 7, 8, 9, 12, 13, 14, 15], id="an old batch in between"),
        pytest.param(NOW_MS + 9000, NOW_MS + 10**6, [8, 9, 12, 13, 14, 15], id="from the middle on"),
        pytest.param(NOW_MS + 10**6, NOW_MS + 10**7, [], id="younger than all"),
        pytest.param(NOW_MS, NOW_MS + 1000, [*range(16)], id="of CreateTime no header tells the smallest"),
    ],
)
def test_batches_that_are_too_old_are_skipped(by_time: LogReader, first: int, last: int, found: list[int]) -> None:
    assert offsets(by_time, 0, 16, Timespan(first, last)) == found


def test_the_records_of_segments_that_are_too_old_are_not_decoded(
    by_time: LogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: set[int] = set()
    inner = SegmentReader.decode

    def decode(segment: SegmentReader, *arguments: object, **more: object) -> object:
        read.add(segment.base_offset)
        return inner(segment, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(SegmentReader, "decode", decode)
    assert offsets(by_time, 0, 16, Timespan(NOW_MS + 12_000)) == [12, 13, 14, 15]
    assert read == {12}


@pytest.mark.parametrize(
    ("condition", "found", "decodes"),
    [
        pytest.param(Condition(), [*range(16)], 1, id="all, which needs no test"),
        pytest.param(Condition(value_contains=b"a"), [*range(0, 16, 2)], 2, id="by values, then with all columns"),
        pytest.param(Condition(value_contains=b"c"), [], 1, id="none, which needs no other columns"),
    ],
)
def test_batches_are_decoded_again_only_for_columns_that_a_choice_did_not_need(
    by_time: LogReader, monkeypatch: pytest.MonkeyPatch, condition: Condition, found: list[int], decodes: int
) -> None:
    read = Counter[int]()
    inner = SegmentReader.decode

    def decode(segment: SegmentReader, *arguments: object, **more: object) -> object:
        read[segment.base_offset] += 1
        return inner(segment, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(SegmentReader, "decode", decode)
    chosen = [*by_time.records(0, 16, choice=condition)]
    assert [offset for records in chosen for offset in records.offsets.tolist()] == found
    assert all(records.keys is not None and records.values is not None for records in chosen)
    assert {*read.values()} == {decodes}


def test_batches_of_append_time_that_are_too_young_are_skipped(tmp_path: Path) -> None:
    log = open_log(tmp_path, message_timestamp_type="LogAppendTime")
    clock = log.context.clock
    for _ in range(3):
        append(log, b"a", b"b")
        clock.advance(1000)  # type: ignore[attr-defined]
    assert offsets(open_reader(tmp_path), 0, 6, Timespan(last=NOW_MS + 1000)) == [0, 1, 2, 3]
