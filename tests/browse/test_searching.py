"""Searches in threads: what they find, how far they come, and that one that nobody waits for ends."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from pyspark_commitlog.browse import searching
from pyspark_commitlog.browse.logs import Logs
from pyspark_commitlog.browse.searching import Hit, Progress, RunningSearch, SearchEnd, Wanted
from pyspark_commitlog.storage import Bounds, Condition
from pyspark_commitlog.storage.format.tables import Bools, Records
from tests.support.logs.building import append, records
from tests.support.logs.directories import managed


def logs_of(path: Path, count: int) -> Logs:
    with managed(path / "log") as manager:
        manager.create_topic("t", partitions=1)
        log = manager.open_log("t", 0)
        for number in range(count):
            log.append_records(records([b"value %d" % number], keys=[b"key"]))
            log.roll()
    return Logs(str(path / "log"))


def taken(search: RunningSearch) -> list[Hit | SearchEnd]:
    found = list[Hit | SearchEnd]()
    while not (found and isinstance(found[-1], SearchEnd)):
        step = search.take(5)
        assert not isinstance(step, Progress)
        found.append(step)
    return found


def ended(search: RunningSearch) -> bool:
    until = time.monotonic() + 30
    while search.is_running and time.monotonic() < until:
        time.sleep(0.01)
    return not search.is_running


def test_all_that_is_found_is_taken_and_then_the_end(tmp_path: Path) -> None:
    search = RunningSearch(logs_of(tmp_path, 10), Wanted("t", Condition(value_contains=b"7"), Bounds()))
    hit, end = taken(search)
    assert isinstance(hit, Hit)
    assert (hit.partition, hit.record.offset, hit.record.value.data, end) == (("t", 0), 7, b"value 7", SearchEnd())


def test_a_page_has_a_limit_of_records_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "FOUND_MAX", 3)
    found = taken(RunningSearch(logs_of(tmp_path, 10), Wanted("t", Condition(key=b"key"), Bounds())))
    assert (len(found), found[-1]) == (4, SearchEnd(is_full=True))


class Slow(Condition):
    """Finds nothing, and waits at its first records."""

    began, may_go_on = threading.Event(), threading.Event()
    read = 0

    def rows(self, records: Records) -> Bools:
        Slow.read += 1
        self.began.set()
        assert self.may_go_on.wait(30)
        return np.zeros(len(records), np.bool_)


def test_a_search_that_finds_nothing_stops_at_its_next_read(tmp_path: Path) -> None:
    search = RunningSearch(logs_of(tmp_path, 50), Wanted("t", Slow(), Bounds()))
    assert Slow.began.wait(30)
    step = search.take(0)
    assert isinstance(step, Progress)
    assert 0 < step.done < step.total
    search.stop()
    Slow.may_go_on.set()
    assert ended(search)
    assert Slow.read < 5


def test_a_search_ends_whose_records_nobody_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "WAITING_MAX", 2)
    monkeypatch.setattr(searching, "UNTAKEN_S", 0.3)
    logs = logs_of(tmp_path, 10)
    assert ended(RunningSearch(logs, Wanted("t", Condition(key=b"key"), Bounds())))
    with logs.open():  # its turn is over
        pass


def test_searches_whose_records_nobody_takes_hold_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "WAITING_MAX", 2)
    monkeypatch.setattr(searching, "TURN_KEPT_S", 0.05)
    logs_of(tmp_path, 10)
    logs = Logs(str(tmp_path / "log"), at_once=2)
    unread = [RunningSearch(logs, Wanted("t", Condition(key=b"key"), Bounds())) for _ in range(2)]
    until = time.monotonic() + 30
    while not all(each._found.full() for each in unread):
        assert time.monotonic() < until
        time.sleep(0.01)
    hit, end = taken(RunningSearch(logs, Wanted("t", Condition(value_contains=b"7"), Bounds())))
    assert isinstance(hit, Hit)
    assert end == SearchEnd()
    assert all(each.is_running for each in unread)
    assert len(taken(unread[0])) == 11  # it goes on, where its page does
    unread[1].stop()
    assert ended(unread[1])


def test_a_search_whose_records_are_taken_slowly_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "WAITING_MAX", 2)
    logs_of(tmp_path, 40)
    logs = Logs(str(tmp_path / "log"), at_once=1)
    slow = RunningSearch(logs, Wanted("t", Condition(key=b"key"), Bounds()))
    hits = [slow.take(30)]
    other = RunningSearch(logs, Wanted("t", Condition(value_contains=b"value 7"), Bounds()))
    while other.is_running:
        hits.append(slow.take(30))
        time.sleep(0.3)  # less than TURN_KEPT_S
    assert {type(each) for each in hits} == {Hit}
    assert len(hits) < 30  # the search through 40 records is not at its end
    assert [type(each) for each in taken(other)] == [Hit, SearchEnd]
    slow.stop()


def test_a_page_that_takes_records_too_slowly_learns_that_its_search_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "WAITING_MAX", 2)
    monkeypatch.setattr(searching, "UNTAKEN_S", 0.3)
    search = RunningSearch(logs_of(tmp_path, 10), Wanted("t", Condition(key=b"key"), Bounds()))
    assert ended(search)
    *hits, end = taken(search)
    assert len(hits) == 2
    assert isinstance(end, SearchEnd)
    assert "taken too slowly" in end.error


def test_what_could_not_be_searched_is_in_the_end(tmp_path: Path) -> None:
    with managed(tmp_path / "log") as manager:
        manager.create_topic("t", partitions=1)
        for value in (b"first", b"second", b"third"):
            append(manager.open_log("t", 0), value)
    file = tmp_path / "log" / "t-0" / f"{0:020}.log"
    file.write_bytes(file.read_bytes().replace(b"second", b"sec*nd"))
    search = RunningSearch(Logs(str(tmp_path / "log")), Wanted("t", Condition(value_contains=b"i"), Bounds()))
    *hits, end = taken(search)
    assert [hit.record.value.data for hit in hits if isinstance(hit, Hit)] == [b"first", b"third"]
    assert isinstance(end, SearchEnd)
    assert "t-0, offset 1" in end.unsearched[0]


def test_an_error_is_the_end(tmp_path: Path) -> None:
    (end,) = taken(RunningSearch(logs_of(tmp_path, 1), Wanted("missing", Condition(), Bounds())))
    assert isinstance(end, SearchEnd)
    assert "no topic 'missing'" in end.error
