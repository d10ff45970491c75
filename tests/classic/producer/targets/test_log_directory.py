"""A log directory as the target of a producer."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.classic.producer import Message, Record
from pyspark_commitlog.classic.producer.targets.log_directory import LogDirectoryTarget
from pyspark_commitlog.classic.producer.targets.port import RecordSet
from pyspark_commitlog.storage import Codec, LogManager, add_partitions
from tests.classic.producer.reading import values_in
from tests.support.clock import ManualClock


def test_partitions_that_another_process_adds_are_found_after_a_time(tmp_path: Path) -> None:
    clock = ManualClock()
    target = LogDirectoryTarget(str(tmp_path), clock, refresh_ms=1000)
    assert target.partitions("t") == [(0, 0)]
    with LogManager.open(str(tmp_path)) as manager:
        add_partitions(manager, "t", 3)
    clock.advance(999)
    assert target.partitions("t") == [(0, 0)]
    clock.advance(1)
    assert target.partitions("t") == [(0, 0), (0, 1), (0, 2)]
    target.close()


@pytest.mark.parametrize(("refresh_ms", "found"), [(-1, [(0, 0)]), (0, [(0, 0), (0, 1)])])
def test_with_a_time_below_0_partitions_are_never_looked_for_again_and_with_0_each_time(
    tmp_path: Path, refresh_ms: int, found: list[tuple[int, int]]
) -> None:
    clock = ManualClock()
    target = LogDirectoryTarget(str(tmp_path), clock, refresh_ms=refresh_ms)
    assert target.partitions("t") == [(0, 0)]
    with LogManager.open(str(tmp_path)) as manager:
        add_partitions(manager, "t", 2)
    clock.advance(10**9)
    assert target.partitions("t") == found
    target.close()


def test_a_field_of_a_wrong_type_fails_its_set_only(tmp_path: Path) -> None:
    """A program that sends again what is said to have failed must not write the other sets a second time."""
    target = LogDirectoryTarget(str(tmp_path), ManualClock(), refresh_ms=1000)
    places = {topic: target.partitions(topic)[0] for topic in ("first", "wrong", "last")}
    wrong = Record(b"v", headers=((b"name", b"1"),))  # type: ignore[arg-type]
    sent: dict[str, Message] = {"first": b"1", "wrong": wrong, "last": b"2"}
    failed = target.send([RecordSet(each, places[each], [sent[each]], Codec.NONE) for each in sent], wait=True)
    target.close()
    assert [each.number for each in failed] == [1]
    assert [values_in(tmp_path, each) for each in sent] == [[b"1"], [], [b"2"]]
