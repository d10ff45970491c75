"""Assignors: every partition has one reader, readers have their share, and what need not move stays."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.gateway.consumer_groups.assignors import ASSIGNORS, Assignment, Subscriber, ranges, uniform
from pyspark_commitlog.gateway.consumer_groups.partitions import Part, Topic

A, B = Topic("a", "a", tuple(range(4))), Topic("b", "b", tuple(range(2)))


def member(name: str, *topics: str, had: Assignment | None = None, instance_id: str | None = None) -> Subscriber:
    return Subscriber(name, instance_id, frozenset(topics), (had or {}).get(name, frozenset()))


def numbers(assignment: Assignment) -> dict[str, list[str]]:
    return {name: [f"{each.topic_id}{each.partition}" for each in sorted(parts)] for name, parts in assignment.items()}


def test_a_second_member_gets_half_and_the_first_keeps_the_first_half() -> None:
    alone = uniform([member("x", "a")], [A])
    assert numbers(uniform([member("x", "a", had=alone), member("y", "a")], [A])) == {
        "x": ["a0", "a1"],
        "y": ["a2", "a3"],
    }


def test_members_with_other_subscriptions_are_levelled_as_by_kafka() -> None:
    # The second member of the group new-a in tests/golden: it gets n-in-3 and both partitions of n-other.
    alone = uniform([member("x", "a")], [A])
    assert numbers(uniform([member("x", "a", had=alone), member("y", "a", "b")], [A, B])) == {
        "x": ["a0", "a1", "a2"],
        "y": ["a3", "b0", "b1"],
    }


def test_ranges_give_members_the_same_numbers_of_each_topic_and_static_members_come_first() -> None:
    members = [member("x", "a", "b"), member("y", "a", "b", instance_id="i")]
    assert numbers(ranges(members, [A, B])) == {"x": ["a2", "a3", "b1"], "y": ["a0", "a1", "b0"]}


@pytest.mark.parametrize("name", ASSIGNORS)
def test_without_members_or_topics_nothing_is_assigned(name: str) -> None:
    assert ASSIGNORS[name]([], [A]) == {}
    assert ASSIGNORS[name]([member("x", "gone")], []) == {"x": frozenset()}


TOPICS = [Topic(name, name, tuple(range(count))) for name, count in (("a", 1), ("b", 3), ("c", 7))]
SUBSCRIPTIONS = st.sets(st.sampled_from("abc"))


@pytest.mark.parametrize("name", ASSIGNORS)
@given(history=st.lists(st.dictionaries(st.sampled_from("uvwxyz"), SUBSCRIPTIONS, min_size=1), min_size=1, max_size=4))
def test_each_partition_that_is_read_has_one_reader(name: str, history: list[dict[str, set[str]]]) -> None:
    had: Assignment = {}
    for wanted in history:
        members = [member(each, *topics, had=had) for each, topics in wanted.items()]
        had = ASSIGNORS[name](members, TOPICS)
        assigned = [part for parts in had.values() for part in parts]
        read = {part for topic in TOPICS for part in topic.parts if any(topic.id in each for each in wanted.values())}
        assert sorted(assigned) == sorted(read)
        assert all(part.topic_id in wanted[each] for each, parts in had.items() for part in parts)


@given(history=st.lists(st.dictionaries(st.sampled_from("uvwxyz"), SUBSCRIPTIONS, min_size=1), min_size=2, max_size=4))
def test_uniform_is_even_and_moves_nothing_without_need(history: list[dict[str, set[str]]]) -> None:
    had: Assignment = {}
    for wanted in history:
        had = uniform([member(each, *topics, had=had) for each, topics in wanted.items()], TOPICS)
        for parts in had.values():
            for part in parts:
                takers = [each for each, topics in wanted.items() if part.topic_id in topics]
                assert all(len(had[each]) >= len(parts) - 1 for each in takers)
        assert uniform([member(each, *topics, had=had) for each, topics in wanted.items()], TOPICS) == had


@given(counts=st.lists(st.integers(1, 9), min_size=2, max_size=5))
def test_where_all_read_the_same_no_more_moves_than_must(counts: list[int]) -> None:
    topic = Topic("t", "t", tuple(range(23)))
    had: Assignment = {}
    for before, count in pairwise([0, *counts]):
        names = [f"m{each}" for each in range(count)]
        now = uniform([member(each, "t", had=had) for each in names], [topic])
        moved = sum(1 for name in names for part in now[name] if before and part not in had.get(name, frozenset()))
        orphans = sum(len(parts) for name, parts in had.items() if name not in names)
        newcomers = sum(len(now[name]) for name in names if before and name not in had)
        assert moved <= max(orphans, newcomers)
        had = now


def test_a_partition_that_two_members_had_is_kept_by_one() -> None:
    both: Assignment = {"x": frozenset({Part("b", 0)}), "y": frozenset({Part("b", 0)})}
    assert numbers(uniform([member("x", "b", had=both), member("y", "b", had=both)], [B])) == {"x": ["b0"], "y": ["b1"]}
