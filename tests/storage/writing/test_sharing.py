"""What a log shares with other processes, seen from a view of the log: who had the lock, and what they did."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.segment.walk import LogContext
from pyspark_commitlog.storage.writing.log import Log
from pyspark_commitlog.storage.writing.sharing import Sharing
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import NOW_MS, append, config, open_log

DIRECTORY = "/t-0"


class Pair:
    """A log that another process writes, and a view of it with what both share."""

    def __init__(self) -> None:
        disk, marks = MemoryFileSystem(), KeptInMemory()
        self.other: Log = open_log(DIRECTORY, marks, filesystem=disk)
        append(self.other, b"0", b"1")
        context = LogContext(DIRECTORY, config(), ManualClock(NOW_MS), disk, True)
        self.view = LogReader(context, marks)
        self.sharing = Sharing(self.view.context, self.view)
        self.sharing.note_active()


def test_who_had_the_lock_in_between() -> None:
    pair, found = Pair(), []
    for is_marked, appends in ((False, False), (True, False), (True, True), (True, False)):
        found.append(pair.sharing.take())
        if is_marked:
            pair.sharing.mark()
        pair.sharing.release()
        if appends:
            append(pair.other, b"x")
    assert found == [False, False, True, False]


def test_the_lock_is_had_at_once_or_not_at_all() -> None:
    pair = Pair()
    assert not pair.sharing.take_if_alone()  # nothing is known yet
    pair.sharing.take()
    pair.sharing.mark()
    pair.sharing.release()
    assert pair.sharing.take_if_alone()
    pair.sharing.release()
    append(pair.other, b"x")
    assert not pair.sharing.take_if_alone()


def test_what_others_appended_moves_the_end() -> None:
    pair = Pair()
    assert pair.sharing.is_as_left()
    append(pair.other, b"2", b"3")
    assert not pair.sharing.is_as_left()
    assert pair.sharing.catch_up()
    assert pair.view.log_end_offset == 4
    assert pair.sharing.is_as_left()


@pytest.mark.parametrize(
    "change",
    [Log.roll, lambda log: log.truncate_to(1), lambda log: log.truncate_fully_and_start_at(7)],
    ids=["rolled", "truncated", "emptied"],
)
def test_more_than_the_end_has_changed(change: Callable[[Log], None]) -> None:
    pair = Pair()
    change(pair.other)
    assert not pair.sharing.is_as_left()
    assert not pair.sharing.catch_up()


def test_records_that_others_deleted_are_maintenance_and_appends_are_none() -> None:
    pair = Pair()
    append(pair.other, b"2")
    assert not pair.sharing.is_maintained()
    pair.other.delete_records(1)
    assert pair.sharing.is_maintained()
