"""Who reads which partition: what real consumers of 0.7.2, 0.8.2.2 and 0.10.2.2 decided, and what always holds."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.classic.errors import RebalanceError
from pyspark_commitlog.classic.zookeeper_groups.assignment import Partition, Strategy, Stream, assign
from tests.support.classic.zookeeper_groups import Case, cases, situations

CASES = cases()


def test_all_recordings_are_there() -> None:
    assert sum(len(case.steps) for case in CASES) == 86
    assert {case.strategy for case in CASES} == {"range", "roundrobin"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.release}-{case.group}")
def test_every_recorded_decision_comes_out(case: Case) -> None:
    for step, members, brokers in situations(case):
        streams: dict[str, list[Stream]] = {}
        for member in members:
            for topic, count in case.members[member].items():
                streams.setdefault(topic, []).extend(Stream(f"{case.group}_{member}", each) for each in range(count))
        partitions = {topic: case.partitions(topic, there) for topic, there in brokers.items()}
        found = assign(Strategy(case.strategy), partitions, streams)
        assert {str(partition): str(stream) for partition, stream in found.items()} == step.owners


# How the documents say it, and how Kafka does it (the first streams take what does not divide evenly)


def decided(names: str, consumers: int) -> list[str]:
    partitions = [Partition("t", int(name.split("-")[1]), int(name.split("-")[0])) for name in names.split()]
    found = assign(Strategy.RANGE, {"t": partitions}, {"t": [Stream(f"c{each}", 0) for each in range(consumers)]})
    return [
        " ".join(each.name for each in found if found[each].consumer == f"c{number}") for number in range(consumers)
    ]


def test_the_remainder_goes_to_the_first_streams() -> None:
    assert decided("0-0 0-1 0-2 1-0 1-1", 2) == ["0-0 0-1 0-2", "1-0 1-1"]
    assert decided("0-0 0-1 1-0", 5) == ["0-0", "0-1", "1-0", "", ""]
    assert [len(each.split()) for each in decided(" ".join(f"0-{each}" for each in range(10)), 3)] == [4, 3, 3]


def test_names_of_0_7_sort_as_text() -> None:
    assert decided(" ".join(f"0-{each}" for each in range(11)), 2)[0] == "0-0 0-1 0-10 0-2 0-3 0-4"


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, list[Partition]], dict[str, list[Stream]]]:
    topics = draw(st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=4, unique=True))
    counts = draw(st.dictionaries(st.text("xyz", min_size=1, max_size=2), st.integers(1, 4), min_size=1, max_size=5))
    streams = [Stream(consumer, each) for consumer, count in counts.items() for each in range(count)]
    return (
        {topic: [Partition(topic, each) for each in range(draw(st.integers(0, 12)))] for topic in topics},
        {topic: draw(st.permutations(streams)) for topic in topics},
    )


@given(groups(), st.sampled_from(Strategy))
def test_every_partition_has_one_stream_and_shares_differ_by_one(
    group: tuple[dict[str, list[Partition]], dict[str, list[Stream]]], strategy: Strategy
) -> None:
    partitions, streams = group
    found = assign(strategy, partitions, streams)
    assert set(found) == {each for there in partitions.values() for each in there}
    for topics in [{topic} for topic in partitions] if strategy is Strategy.RANGE else [set(partitions)]:
        readers = streams[next(iter(topics))]
        shares = Counter(stream for each, stream in found.items() if each.topic in topics)
        assert set(shares) <= set(readers)
        sizes = [shares[each] for each in readers]
        assert max(sizes) - min(sizes) <= 1


def test_roundrobin_refuses_a_group_with_unequal_streams() -> None:
    with pytest.raises(RebalanceError, match="use range"):
        assign(Strategy.ROUNDROBIN, {"a": [], "b": []}, {"a": [Stream("c", 0)], "b": [Stream("c", 0), Stream("c", 1)]})


def test_a_topic_that_nobody_reads_and_one_without_partitions_are_left_out() -> None:
    for strategy in Strategy:
        assert assign(strategy, {"a": [Partition("a", 0)]}, {}) == {}
        assert assign(strategy, {"a": []}, {"a": [Stream("c", 0)]}) == {}
