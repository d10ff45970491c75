"""What the notes of members say about a group, and which of it is a fault."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

import pytest

from tests.torture.gateway.members.history import (
    Life,
    Log,
    Logged,
    Note,
    Place,
    faults,
    is_forgotten,
    read_log,
    read_notes,
    second_lookups,
)

TOPIC = "t"
PLACE = Place(TOPIC, 0)


def at_work(from_s: float, to_s: float) -> list[Note]:
    """A member's marks, four a second."""
    return [Note(from_s + number / 4, "at work") for number in range(int((to_s - from_s) * 4) + 1)]


def life(name: str, *notes: tuple[object, ...], at: tuple[float, float] = (0, 10), **more: object) -> Life:
    """A member's life: ``notes`` are times, kinds and offsets; ``at``: while it is at work."""
    own = [Note(note[0], note[1], TOPIC, 0, *note[2:3], *note[2:3]) for note in notes]
    return Life(name, sorted([*at_work(*at), *own]), **more)


def records(count: int) -> dict[Place, dict[int, int]]:
    return {PLACE: {number: number for number in range(count)}}


def test_a_partition_that_is_handed_over_is_no_fault() -> None:
    one = life("one", (1, "assigned"), (2, "read", 0), (3, "ask", 1), (4, "committed", 1), (5, "revoked"))
    two = life("two", (6, "assigned"), (7, "read", 1))
    assert faults([one, two], records(2), {}) == []


def test_a_partition_that_is_assigned_before_it_is_given_up_has_two_owners() -> None:
    one, two = life("one", (1, "assigned"), (5, "revoked")), life("two", (4, "assigned"))
    (found,) = faults([one, two], {}, {})
    assert "two owners" in found


def test_a_member_that_is_assigned_its_own_partition_again_begins_another_turn() -> None:
    one = life("one", (1, "assigned"), (2, "read", 0), (3, "assigned"), (4, "read", 0), (8, "revoked"))
    assert faults([one], {}, {}) == []
    assert faults([one, life("two", (7, "assigned"))], {}, {}) != []


def test_the_turn_of_a_killed_member_ends_with_it() -> None:
    one, two = life("one", (1, "assigned"), at=(0, 3), killed_s=3.5), life("two", (4, "assigned"))
    assert faults([one, two], {}, {}) == []


def forgotten(time_s: float, *, member_id: str = "id", joins: bool = False) -> Log:
    return {member_id: [Logged(time_s, member_id, joins)]}


def test_the_turn_of_a_member_ends_where_a_gateway_forgot_it() -> None:
    one, two = life("one", (1, "assigned"), (8, "lost")), life("two", (5, "assigned"))
    one.notes.insert(0, Note(0, "known", "id"))
    assert faults([one, two], {}, forgotten(4.5)) == []
    assert faults([one, two], {}, forgotten(5.5)) != []
    assert faults([one, two], {}, forgotten(4.5, member_id="other")) != []
    assert faults([one, two], {}, {}) != []


def test_an_assignment_that_a_client_hands_on_when_it_was_forgotten_gives_it_no_turn() -> None:
    one, two = life("one", (1, "assigned"), (9, "revoked")), life("two", (5, "assigned"), (5.5, "read", 0))
    two.notes.insert(0, Note(0, "known", "id"))
    assert faults([one, two], {}, forgotten(4)) == []
    back = {"id": [*forgotten(4)["id"], *forgotten(4.5, joins=True)["id"]]}
    assert faults([one, two], {}, back) != []
    two.notes.append(Note(6, "read", TOPIC, 0, 2, 2))
    assert faults([one, two], {}, forgotten(4)) == ["two read 2 after 0 of Place(topic='t', number=0)"]


def test_a_member_is_forgotten_if_it_was_removed_last() -> None:
    one = Life("one", [Note(0, "known", "id")])
    assert is_forgotten(one, forgotten(4))
    assert not is_forgotten(one, forgotten(4, joins=True))
    assert not is_forgotten(one, {})
    assert is_forgotten(Life("one", []), {})


def test_what_a_member_gets_when_it_joins_may_be_given_away_before_it_says_that_it_has_it() -> None:
    one, two = life("one", (1, "assigned"), (3, "revoked")), life("two", (2, "assigned"))
    one.notes.insert(0, Note(0, "known", "id"))
    assert faults([one, two], {}, forgotten(0.5, joins=True)) == []
    assert faults([one, two], {}, forgotten(-0.5, joins=True)) != []


def test_what_gateways_log_of_members() -> None:
    first = """2026-11-30 13:02:52,904 INFO group 'members': member 'a' is removed, because it sent nothing in time
2026-11-30 13:02:53,405 INFO group 'members', generation 7: rebalance: the group has become a classic one
2026-11-30 13:04:02,974 INFO group 'members': member 'b' leaves
"""
    second = "2026-11-30 13:02:51,904 INFO group 'members': member 'a' joins, epoch 4\n"
    found = read_log([first, second])
    assert {member_id: [each.joins for each in logged] for member_id, logged in found.items()} == {
        "a": [True, False],
        "b": [False],
    }
    assert found["b"][0].time_s - found["a"][1].time_s == pytest.approx(70.07)
    (now,) = read_log([f"{datetime.now():%Y-%m-%d %H:%M:%S,000} INFO group 'g': member 'a' leaves"])["a"]
    assert now.time_s == pytest.approx(time.monotonic(), abs=10)


def test_a_record_read_again_after_its_commit_is_a_fault() -> None:
    one = life("one", (1, "assigned"), (2, "read", 0), (3, "ask", 1), (4, "committed", 1), (5, "revoked"))
    two = life("two", (6, "assigned"), (7, "read", 0), (8, "read", 1))
    (found,) = faults([one, two], records(2), {})
    assert "read twice" in found


def test_a_record_read_again_before_its_commit_was_answered_is_none() -> None:
    one = life("one", (1, "assigned"), (2, "read", 0), (3, "ask", 1), (5, "revoked"))
    two = life("two", (6, "assigned"), (7, "read", 0))
    assert faults([one, two], records(1), {}) == []


def test_a_record_that_nobody_read_is_a_fault() -> None:
    one = life("one", (1, "assigned"), (2, "read", 0))
    (found,) = faults([one], records(2), {})
    assert "read by nobody" in found


def test_a_record_that_is_left_out_is_a_fault() -> None:
    one = life("one", (1, "assigned"), (2, "read", 0), (3, "read", 2))
    assert any("read 2 after 0" in found for found in faults([one], records(1), {}))


def test_a_member_that_begins_again_where_the_log_begins_has_looked_that_up_twice() -> None:
    one = life("one", (1, "assigned"), (2, "read", 0), (3, "read", 1), (4, "read", 0), (5, "read", 1))
    assert faults([one], records(2), {}) == []
    assert second_lookups([one], {}) == 1
    later = life("one", (1, "assigned"), (2, "read", 0), (3, "read", 1), (3.5, "read", 2), (4, "read", 1))
    assert any("read 1 after 2" in found for found in faults([later], records(2), {}))


def test_a_turn_that_begins_where_nobody_committed_is_a_fault() -> None:
    one = life("one", (1, "assigned"), (2, "read", 3))
    assert any("nobody asked to commit" in found for found in faults([one], {}, {}))


def test_a_commit_that_goes_back_is_a_fault() -> None:
    one = life("one", (1, "assigned"), (2, "ask", 5), (3, "committed", 5), (4, "revoked"))
    two = life("two", (5, "ask", 4), (6, "committed", 4))
    (found,) = faults([one, two], {}, {})
    assert "committed 4" in found


def test_a_record_that_is_read_as_another_is_a_fault() -> None:
    one = life("one", (1, "assigned"), (2, "read", 0))
    (found,) = faults([one], {PLACE: {0: 7}}, {})
    assert "as others" in found


def test_a_last_line_that_was_not_ended_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text('[1.5, "read", "t", 0, 3, 9]\n[2.0, "re')
    assert read_notes(tmp_path / "notes") == [Note(1.5, "read", "t", 0, 3, 9)]
    assert read_notes(tmp_path / "none") == []
