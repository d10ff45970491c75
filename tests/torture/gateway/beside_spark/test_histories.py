"""The checks of the suite find what they are for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyspark_commitlog.storage import Isolation
from tests.torture.gateway.beside_spark.histories import (
    History,
    check_acknowledged,
    check_counters,
    check_once,
    check_order,
    check_same,
    records_of,
)

PARTITIONS = 2
COMMITTED, UNCOMMITTED = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED


def history(isolation: Isolation = COMMITTED, numbers: range = range(40)) -> History:
    """What a reader sees of two writers, whose records are the next ones of their partitions."""
    found, ends = History("r", isolation), [0] * PARTITIONS
    for number in numbers:
        for writer in (b"one", b"two"):
            for each in records_of(writer, number, PARTITIONS):
                found.add(each.partition, ends[each.partition], each.key, each.value)
                ends[each.partition] += 1
    return found


def check(found: History) -> None:
    log = history()
    check_order(found)
    check_same(found, log)
    for writer in (b"one", b"two"):
        check_once(found, writer)
        check_acknowledged(found, writer, range(40))
    check_counters(found)


def test_a_sound_history_passes() -> None:
    check(history())


def drop(found: History, index: int) -> None:
    del found.rows[0][index]


def repeat(found: History, index: int) -> None:
    found.rows[0].insert(index, found.rows[0][index])


def swap(found: History, index: int) -> None:
    found.rows[0][index : index + 2] = reversed(found.rows[0][index : index + 2])


def add_at_the_end(found: History, index: int) -> None:
    found.rows[0].append(found.rows[0][index]._replace(offset=1000))


def renumber(found: History, index: int) -> None:
    found.rows[0][index] = found.rows[0][index]._replace(number=1000)


@pytest.mark.parametrize("fault", [drop, repeat, swap, add_at_the_end, renumber])
@pytest.mark.parametrize("index", [0, 7, -3])
def test_a_fault_is_found_wherever_it_is(fault: Callable[[History, int], None], index: int) -> None:
    found = history()
    own = [number for number, row in enumerate(found.rows[0]) if row.is_own]
    fault(found, own[index])
    with pytest.raises(AssertionError):
        check(found)


def test_a_reader_of_uncommitted_records_may_see_more_but_not_less() -> None:
    log, found = history(), history(UNCOMMITTED)
    found.add(0, 1000, b"spark own 3", b"3")
    found.add(0, 1001, b"spark own 3", b"3")
    check_order(found)
    check_same(found, log)
    drop(found, 0)
    with pytest.raises(AssertionError, match="missing"):
        check_same(found, log)


def test_a_lost_newest_counter_is_found() -> None:
    found = history()
    for rows in found.rows.values():
        rows[:] = [row for row in rows if row.is_own or row.number != 35]
    with pytest.raises(AssertionError, match="is the newest, and not 35"):
        check_counters(found)
