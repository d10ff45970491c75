"""What is read from a table and what from the log, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pyspark_commitlog.pipeline.delta.table_and_tail.plan import Plan, Seam, Span, tail
from pyspark_commitlog.pipeline.delta.table_and_tail.wanted import Wanted
from pyspark_commitlog.pipeline.rows.offsets import DataLoss
from pyspark_commitlog.pipeline.rows.topic_ids import KnownOffsets
from pyspark_commitlog.storage import (
    InvalidConfigError,
    LogManager,
    OffsetOutOfRangeError,
    ProgressMismatchError,
    TopicPartition,
    delete_topic,
    topic_ids,
)
from tests.support.logs.building import append, end_transaction, write_transactional

T = [TopicPartition("t", number) for number in range(3)]


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[LogManager]:
    """A topic with five records in partition 0, and none in partition 1."""
    with LogManager.open(str(tmp_path / "log"), create=True) as opened:
        opened.create_topic("t", partitions=2)
        append(opened.open_log("t", 0), b"a", b"b", b"c", b"d", b"e")
        yield opened


def spans(
    manager: LogManager,
    offsets: dict[int, int],
    *,
    ends: dict[int, int] | None = None,
    is_complete: bool = True,
    loss: DataLoss | None = None,
    ids: dict[str, str] | None = None,
) -> list[tuple[int, int]]:
    known = KnownOffsets({TopicPartition("t", number): at for number, at in offsets.items()}, ids or {})
    plan = Plan(manager, "t", "table x", ends or {}, loss or DataLoss())
    return [(each.start, each.end) for each in plan.spans(Seam(known, is_complete))]


def test_log_is_read_from_where_the_table_ends(manager: LogManager) -> None:
    assert spans(manager, {0: 3, 1: 0}) == [(3, 5), (0, 0)]


def test_partition_without_a_tail_is_not_read() -> None:
    assert tail([Span(T[0], 5, 5), Span(T[1], 0, 2), Span(T[2], 7, 3)]) == ({1: 0}, {1: 2})


def test_records_of_an_open_transaction_are_not_read_until_it_ends(manager: LogManager) -> None:
    log = manager.open_log("t", 0)
    write_transactional(log, 1, 0, b"f")
    append(log, b"g")
    assert spans(manager, {0: 3}) == [(3, 5), (0, 0)]
    end_transaction(log, 1, commit=True)
    assert spans(manager, {0: 3}) == [(3, 8), (0, 0)]


def test_ends_are_those_that_were_asked_for_also_below_the_table(manager: LogManager) -> None:
    assert spans(manager, {0: 3, 1: 0}, ends={0: 4}) == [(3, 4), (0, 0)]
    assert spans(manager, {0: 3, 1: 0}, ends={0: 1}) == [(3, 1), (0, 0)]


def test_ends_that_the_log_does_not_have_are_refused(manager: LogManager) -> None:
    with pytest.raises(InvalidConfigError, match=r"offset 6 of t-0 .* end before 5"):
        spans(manager, {0: 3}, ends={0: 6})


def test_offsets_that_neither_has_are_named(manager: LogManager) -> None:
    manager.open_log("t", 0).delete_records(4)
    with pytest.raises(OffsetOutOfRangeError, match=r"table x ends before offset 2 of t-0, .* offsets 2 to 3 are in"):
        spans(manager, {0: 2, 1: 0})
    assert spans(manager, {0: 2, 1: 0}, loss=DataLoss(fails=False)) == [(4, 5), (0, 0)]
    assert spans(manager, {0: 2, 1: 0}, ends={0: 1}) == [(2, 1), (0, 0)]
    assert spans(manager, {0: 4, 1: 0}) == [(4, 5), (0, 0)]


def test_partition_that_is_newer_than_the_table_must_have_all_its_records(manager: LogManager) -> None:
    """Without recorded offsets, it may as well be one that had no row yet."""
    manager.open_log("t", 0).delete_records(4)
    with pytest.raises(OffsetOutOfRangeError, match="offsets 0 to 3 are in neither"):
        spans(manager, {1: 0})
    assert spans(manager, {1: 0}, is_complete=False) == [(4, 5), (0, 0)]


def test_log_that_the_table_did_not_come_from_is_refused(manager: LogManager) -> None:
    with pytest.raises(ProgressMismatchError, match=r"has t-0 up to offset 8, but the log in .* ends at 5"):
        spans(manager, {0: 9})
    with pytest.raises(ProgressMismatchError, match="has rows of t-2, which"):
        spans(manager, {0: 3, 2: 0})
    ids = topic_ids(manager, manager.topic("t").topic_partitions)
    assert spans(manager, {0: 3}, ids=ids) == [(3, 5), (0, 0)]
    delete_topic(manager, "t")
    manager.create_topic("t", partitions=2)
    append(manager.open_log("t", 0), b"a", b"b", b"c", b"d")
    with pytest.raises(ProgressMismatchError, match="topic t was deleted and made again"):
        spans(manager, {0: 3}, ids=ids)


def test_table_of_another_topic_is_refused(manager: LogManager) -> None:
    known = KnownOffsets({TopicPartition("u", 0): 1}, {})
    with pytest.raises(InvalidConfigError, match="table x has rows of topic u, not of t"):
        Plan(manager, "t", "table x", {}, DataLoss()).spans(Seam(known, is_complete=True))


def test_offsets_that_neither_has_and_nobody_asks_for_are_passed_over(manager: LogManager) -> None:
    manager.open_log("t", 0).delete_records(4)
    known, asked = KnownOffsets({T[0]: 2, T[1]: 0}, {}), Wanted(starts={0: 4})
    plan = Plan(manager, "t", "table x", {}, DataLoss(), asked.asks_below)
    assert plan.spans(Seam(known, True))[0] == Span(T[0], 4, 5)
    for other in (Wanted(starts={0: 3}), Wanted(partitions=[0])):
        with pytest.raises(OffsetOutOfRangeError):
            replace(plan, asks_below=other.asks_below).spans(Seam(known, True))
    replace(plan, asks_below=Wanted(partitions=[1]).asks_below).spans(Seam(known, True))
