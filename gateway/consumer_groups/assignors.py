"""Assignors: which member of a group is to read which partition (Kafka 4's ``UniformAssignor``, ``RangeAssignor``).

``uniform`` keeps what members have, as far as no member then has two partitions more than another that could read
them. ``range`` gives each member a range of each topic, so that members read partitions of the same numbers.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from .partitions import Part, Topic

UNIFORM, RANGE = "uniform", "range"


class Subscriber(NamedTuple):
    """A member of a group, as assignors see it."""

    id: str
    instance_id: str | None
    topics: frozenset[str]  # ids of the topics that it reads
    parts: frozenset[Part]  # the parts assigned to it before


Assignment = Mapping[str, frozenset[Part]]  # by the ids of members
Assignor = Callable[[Sequence[Subscriber], Collection[Topic]], Assignment]


def uniform(members: Sequence[Subscriber], topics: Collection[Topic]) -> Assignment:
    """Assigns every partition that a member reads, as evenly as subscriptions allow, and moves as few as it can."""
    there = {part for topic in topics for part in topic.parts}
    held = _kept(members, there)
    taken = {part for parts in held.values() for part in parts}
    _give(members, held, sorted(there - taken))
    if len({each.topics for each in members}) > 1:
        _level(members, held)
    return {each: frozenset(parts) for each, parts in held.items()}


def _kept(members: Sequence[Subscriber], there: Collection[Part]) -> dict[str, set[Part]]:
    """Returns what members keep of their partitions; no partition twice.

    If all members read the same topics, none keeps more than its share: the last of those above it give some up.
    """
    is_same = len({each.topics for each in members}) == 1
    read = members[0].topics if members else frozenset()
    share, extra = divmod(sum(part.topic_id in read for part in there), len(members) or 1)
    held: dict[str, set[Part]] = {}
    taken: set[Part] = set()
    for each in members:
        had = sorted(part for part in each.parts - taken if part in there and part.topic_id in each.topics)
        most = share + (1 if extra else 0) if is_same else len(had)
        extra -= 1 if is_same and extra and len(had) > share else 0
        held[each.id] = set(had[:most])
        taken |= held[each.id]
    return held


def _give(members: Sequence[Subscriber], held: dict[str, set[Part]], parts: Iterable[Part]) -> None:
    """Gives each of ``parts`` to the member with the fewest partitions among those that read its topic."""
    queues: dict[str, list[tuple[int, int, str]]] = {}  # by topic: each reader's count, index and id
    for part in parts:
        if part.topic_id not in queues:
            readers = ((at, each.id) for at, each in enumerate(members) if part.topic_id in each.topics)
            queues[part.topic_id] = [(len(held[member]), at, member) for at, member in readers]
            heapq.heapify(queues[part.topic_id])
        queue = queues[part.topic_id]
        while queue:
            had, at, member = queue[0]
            has = len(held[member])
            heapq.heapreplace(queue, (has, at, member))
            if has == had:  # otherwise the member got other partitions since it was queued
                held[member].add(part)
                break


def _level(members: Sequence[Subscriber], held: dict[str, set[Part]]) -> None:
    """Moves partitions until no member has two more than another one that reads the topic of one of them.

    This terminates, because each move lowers the sum of the squares of the members' partition counts.
    """
    readers: dict[str, list[str]] = {}
    for each in members:
        for topic_id in each.topics:
            readers.setdefault(topic_id, []).append(each.id)
    has_moved = True
    while has_moved:
        has_moved = False
        for member in sorted(held, key=lambda each: -len(held[each])):
            for topic_id in sorted({part.topic_id for part in held[member]}):
                has_moved |= _move(member, topic_id, readers[topic_id], held)


def _move(member: str, topic_id: str, readers: Sequence[str], held: dict[str, set[Part]]) -> bool:
    """Moves partitions of a topic to members that have fewer, the last ones first; returns whether any was moved."""
    has_moved = False
    for part in sorted((each for each in held[member] if each.topic_id == topic_id), reverse=True):
        least = min(readers, key=lambda each: len(held[each]))
        if len(held[least]) + 1 >= len(held[member]):
            break
        held[member].remove(part)
        held[least].add(part)
        has_moved = True
    return has_moved


def ranges(members: Sequence[Subscriber], topics: Collection[Topic]) -> Assignment:
    """Assigns to each reader of a topic a range of its partitions; the first readers get the remainder."""
    held: dict[str, set[Part]] = {each.id: set() for each in members}
    ordered = sorted(members, key=lambda each: (each.instance_id is None, each.instance_id or each.id))
    for topic in topics:
        readers = [each for each in ordered if topic.id in each.topics]
        share, extra = divmod(len(topic.partitions), len(readers) or 1)
        parts = iter(topic.parts)
        for at, reader in enumerate(readers):
            held[reader.id].update(part for _, part in zip(range(share + (at < extra)), parts, strict=False))
    return {each: frozenset(parts) for each, parts in held.items()}


ASSIGNORS: Mapping[str, Assignor] = {UNIFORM: uniform, RANGE: ranges}
