"""Segments to scale, and offsets over time."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.browse.drawing import WIDTH, drawing_of, line, rates
from pyspark_commitlog.storage import SegmentDescription, describe_partition
from tests.support.logs.building import NOW_MS, append
from tests.support.logs.directories import managed


def segments(*ends: tuple[int, int]) -> list[SegmentDescription]:
    """Segments by their next offsets and their largest timestamps."""
    firsts = [0, *(offset for offset, _ in ends)]
    return [SegmentDescription(first, offset, 100, ms) for first, (offset, ms) in zip(firsts, ends, strict=False)]


def test_segments_are_as_wide_as_they_are_large_and_marks_where_their_offsets_are(tmp_path: Path) -> None:
    with managed(tmp_path / "log") as manager:
        manager.create_topic("t", partitions=1)
        log = manager.open_log("t", 0)
        append(log, *[b"x" * 100] * 10)
        log.roll()
        append(log, *[b"x" * 100] * 30)
        found = describe_partition(manager, "t", 0, as_of_ms=NOW_MS)
    first, second = drawing_of(found, {"etl": 25}).bars
    assert (first.x, first.width + second.width) == (0, pytest.approx(WIDTH))
    assert second.width / first.width == pytest.approx(3, rel=0.1)
    start, etl = drawing_of(found, {"etl": 25}).marks
    assert (start.name, start.x, etl.x) == ("log start", 0, pytest.approx(second.x + second.width / 2))
    assert "offsets 10 to 39" in second.title


def test_segments_that_are_too_narrow_are_drawn_together(tmp_path: Path) -> None:
    with managed(tmp_path / "log") as manager:
        manager.create_topic("t", partitions=1)
        log = manager.open_log("t", 0)
        for _ in range(20):
            append(log, b"x")
            log.roll()
        append(log, b"x" * 500_000)
        found = describe_partition(manager, "t", 0, as_of_ms=NOW_MS)
    bars = drawing_of(found, {}).bars
    assert len(bars) < 5
    assert "segments, offsets 0 to" in bars[0].title
    assert sum(bar.width for bar in bars) == pytest.approx(WIDTH)


def test_offsets_over_time_are_those_between_the_ends_of_segments() -> None:
    assert rates([segments((10, 0), (30, 100), (40, 200))], parts=4) == [10, 10, 5, 5]
    assert rates([segments((10, 0), (30, 100)), segments((5, 100), (9, 200))], parts=2) == [20, 4]
    assert sum(rates([segments((0, 7), (100, 1_000), (123, 1_001))])) == pytest.approx(123)


@pytest.mark.parametrize("logs", [[], [segments()], [segments((10, 5))], [segments((10, 5), (20, 5), (30, -1))]])
def test_nothing_is_drawn_of_logs_whose_times_are_unknown(logs: list[list[SegmentDescription]]) -> None:
    assert rates(logs) == []


def test_a_line_reaches_from_side_to_side() -> None:
    assert line([0, 2, 1], 10, 4) == "0.0,4.0 5.0,0.0 10.0,2.0"
    assert line([0, 0], 10, 4) == "0.0,4.0 10.0,4.0"
