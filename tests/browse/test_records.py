"""Pages of records: every record is on one, forward and backward, with times, damage, gaps and transactions."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.browse.records import Asked, Found, RecordPages
from pyspark_commitlog.storage import CorruptionError, Isolation, LogReader, Timespan
from pyspark_commitlog.storage.writing.log import Log
from tests.support.logs.building import (
    NOW_MS,
    append,
    end_transaction,
    open_log,
    open_reader,
    records,
    write_transactional,
)


def offsets(found: Found) -> list[int]:
    return [each.offset for each in found.records]


def page(log: LogReader, **asked: object) -> Found:
    return RecordPages(log, seconds_max=60).page(Asked(**asked))  # type: ignore[arg-type]


def with_gaps(log: Log) -> list[int]:
    """Appends records with markers between them, so that offsets have gaps; returns their offsets."""
    found = []
    for number in range(8):
        found += [log.log_end_offset, log.log_end_offset + 1]
        write_transactional(log, 1, number * 2, b"a", b"b")
        for _ in range(number * 9):
            end_transaction(log, 1, commit=True)
        end_transaction(log, 1, commit=True)
    return found


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
def test_pages_forward_and_backward_have_every_record_once(tmp_path: Path, limit: int) -> None:
    with open_log(tmp_path, segment_bytes=700) as log:
        expected = with_gaps(log)
    with open_reader(tmp_path) as reader:
        forward, at = list[int](), 0
        while at < reader.log_end_offset:
            found = page(reader, offset=at, limit=limit)
            assert found.end > at
            forward, at = [*forward, *offsets(found)], found.end
        backward, before = list[int](), reader.log_end_offset
        while before > 0:
            found = page(reader, before=before, limit=limit)
            assert found.start < before
            backward, before = [*offsets(found), *backward], found.start
    assert forward == backward == expected


def test_without_an_offset_the_last_records_are_shown(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        append(log, *[b"x"] * 30)
        found = page(log, limit=10)
    assert (offsets(found), found.start, found.end) == ([*range(20, 30)], 20, 30)


def test_an_offset_that_is_not_in_the_log_shows_the_nearest_page(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        append(log, *[b"x"] * 3)
        assert offsets(page(log, offset=99)) == []
        assert offsets(page(log, offset=1)) == [1, 2]
        assert offsets(page(log, before=99)) == [0, 1, 2]


def test_times_and_offsets_are_asked_for_together(tmp_path: Path) -> None:
    times = [NOW_MS + 1000 * each for each in (0, 5, 1, 6, 2, 7)]  # not in order
    with open_log(tmp_path) as log:
        for each in times:
            append(log, b"x", timestamps=each)
        between = Timespan(NOW_MS + 1000, NOW_MS + 6000)
        assert offsets(page(log, times=between)) == [1, 2, 3, 4]
        assert offsets(page(log, times=between, offset=2)) == [2, 3, 4]
        assert offsets(page(log, times=between, before=4)) == [1, 2, 3]
        assert offsets(page(log, times=Timespan(NOW_MS + 60_000))) == []


def test_a_search_that_takes_its_time_says_how_far_it_came(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        for _ in range(3):
            append(log, b"x" * 300_000)
        late = RecordPages(log, seconds_max=0)
        found = late.page(Asked(offset=0, times=Timespan(NOW_MS + 1)))
        assert found.is_over or found.end == 3  # no batch can have such a time, so none is read
        found = late.page(Asked(offset=0, limit=10))
        assert (offsets(found), found.end, found.is_over) == ([0], 1, True)


def test_a_page_of_large_values_has_fewer_records_and_their_beginnings(tmp_path: Path) -> None:
    with open_log(tmp_path, max_message_bytes=10**8) as log:
        for _ in range(100):
            append(log, b"x" * 100_000)
        found = page(log, offset=0, limit=100)
        assert 60 < len(found.records) < 70
        assert {(len(each.value.data or b""), each.value.size) for each in found.records} == {(64 << 10, 100_000)}
        assert offsets(page(log, offset=found.end, limit=1)) == [found.end]


def test_records_around_damage_are_shown_and_the_damage_is_reported(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        for each in (b"first", b"second", b"third"):
            append(log, each)
    file = tmp_path / f"{0:020}.log"
    file.write_bytes(file.read_bytes().replace(b"second", b"sec*nd"))
    with open_reader(tmp_path) as reader:
        found = page(reader, offset=0)
        assert offsets(found) == [0, 2]
        assert [error.skipped_offsets for error in found.damage] == [(1, 1)]
        assert offsets(page(reader, limit=1)) == [2]
        with pytest.raises(CorruptionError):
            RecordPages(reader).one(1, 100)


def test_records_of_aborted_and_open_transactions_are_named(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        write_transactional(log, 1, 0, b"kept")
        end_transaction(log, 1, commit=True)
        write_transactional(log, 1, 1, b"withdrawn")
        end_transaction(log, 1, commit=False)
        append(log, b"plain")
        write_transactional(log, 1, 2, b"undecided")
        append(log, b"plain")
        assert offsets(page(log)) == [0, 4]
        found = page(log, isolation=Isolation.READ_UNCOMMITTED)
        states = {each.offset: each.state for each in found.records}
        assert states == {0: "", 2: "aborted", 4: "", 5: "open", 6: "open"}
        one = RecordPages(log).one(2, 100)
        assert one is not None
        assert (one.state, one.value.data) == ("aborted", b"withdrawn")


def test_there_is_no_record_where_a_marker_is(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        write_transactional(log, 1, 0, b"kept")
        end_transaction(log, 1, commit=True)
        log.append_records(records([None], keys=[b"key"]))
        pages = RecordPages(log)
        assert [pages.one(each, 100) is not None for each in range(-1, 5)] == [False, True, False, True, False, False]
