"""Where a log begins, and where it ends once records are cut off: over a view of the log, without the log."""

from __future__ import annotations

import pytest

from pyspark_commitlog.storage.reading.marks import KeptInMemory, Marks
from tests.support.logs.building import batch, rows
from tests.support.logs.parts import Parts


class Recorded(KeptInMemory):
    """Checkpoints that remember what was written to them."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[int | None, int]] = []

    def write(self, marks: Marks) -> None:
        super().write(marks)
        self.written.append((marks.recovery_point, marks.log_start_offset))


def parts() -> tuple[Parts, Recorded]:
    """A log of four batches in two segments, at 0 and 2."""
    marks = Recorded()
    found = Parts(b"0", b"1", marks=marks)
    found.rolling.roll()
    for value in (b"2", b"3"):
        found.append(batch(value))
    found.durability.note_synced(4)
    marks.written.clear()
    return found, marks


def test_a_log_start_that_another_process_raised_is_never_lowered() -> None:
    found, marks = parts()
    marks.write(Marks(2, 3))
    found.bounds.write_marks()
    assert found.view.log_start_offset == 3
    assert marks.read() == Marks(4, 3)


def test_the_log_start_of_what_only_a_tier_has_is_kept() -> None:
    found, marks = parts()
    found.view.move_start(2)
    found.view.remote = range(0, 2)
    found.bounds.write_marks()
    assert marks.written == [(4, 0)]
    found.bounds.raise_start_in_tier(1)
    assert (found.view.remote, marks.written[1:]) == (range(1, 2), [(4, 1)])
    found.bounds.raise_start_in_tier(2)
    assert (found.view.remote, marks.written[2:]) == (None, [(4, 2)])


def test_a_raised_start_is_written_and_its_producers_are_forgotten() -> None:
    found, marks = parts()
    found.bounds.raise_start(3)
    assert marks.written == [(4, 3)]
    assert rows(found.view) == [(3, b"3")]


@pytest.mark.parametrize(
    ("offset", "end", "start", "written"),
    [
        (5, 4, 0, []),
        (3, 3, 0, [(2, 0), (3, 0)]),
        (2, 2, 0, [(2, 0), (2, 0)]),
        (1, 1, 0, [(0, 0), (1, 0)]),
    ],
    ids=["above", "in the last segment", "at its base", "below it"],
)
def test_marks_are_lowered_before_a_cut(offset: int, end: int, start: int, written: list[tuple[int, int]]) -> None:
    found, marks = parts()
    found.bounds.truncate_to(offset)
    assert (found.view.log_start_offset, found.view.log_end_offset) == (start, end)
    assert found.durability.recovery_point == found.view.producers.map_end_offset == end
    assert rows(found.view) == [(each, b"%d" % each) for each in range(end)]
    assert marks.written == written


def test_an_empty_log_begins_where_it_is_asked_to() -> None:
    found, marks = parts()
    found.bounds.start_at(9)
    assert (found.bases, found.view.log_start_offset, found.view.log_end_offset) == ([9], 9, 9)
    assert marks.written == [(0, 9), (9, 9)]


def test_an_interrupted_cut_stops_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = parts()

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(found.view, "rebuild_producers", interrupted)
    with pytest.raises(KeyboardInterrupt):
        found.bounds.truncate_to(3)
    assert found.fail_stop.failure == "a change was interrupted"
