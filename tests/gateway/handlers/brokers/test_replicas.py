"""What administrators ask about replicas: a broker of Kafka 3.9.1 that is alone answers the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from pyspark_commitlog.gateway.server import Gateway
from tests.support.gateway import WireClient

INVALID_ASSIGNMENT, UNKNOWN, NO_REASSIGNMENT, NOT_NEEDED, NO_LOG_DIR, INVALID = 39, 3, 85, 84, 57, 42


def codes(partitions: Iterable[Any]) -> list[int]:
    return [int(each.error_code) for each in partitions]


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("kind", [0, 1])
def test_no_partition_needs_a_new_leader(client: WireClient, topic: str, version: int, kind: int) -> None:
    asked = [{"topic": topic, "partitions": (0, 1, 2)}, {"topic": "none", "partitions": (0,)}]
    answer = client.ask(43, version, election_type=kind, topic_partitions=asked)
    found = {each.topic: codes(each.partition_result) for each in answer.replica_election_results}
    assert found == {topic: [NOT_NEEDED, NOT_NEEDED, UNKNOWN], "none": [UNKNOWN]}
    everything = client.ask(43, version, election_type=kind, topic_partitions=None).replica_election_results
    assert {each.topic: each.partition_result for each in everything}[topic] == ()


def test_an_election_of_an_unknown_kind_is_refused(client: WireClient, topic: str) -> None:
    answer = client.ask(43, 2, election_type=2, topic_partitions=[{"topic": topic, "partitions": (0,)}])
    assert answer.error_code == INVALID
    assert codes(answer.replica_election_results[0].partition_result) == [INVALID]


def test_a_partition_stays_where_it_is(client: WireClient, topic: str) -> None:
    wanted = {0: (1,), 1: (2,), 2: (1,)}
    partitions = [{"partition_index": number, "replicas": replicas} for number, replicas in wanted.items()]
    others = [{"partition_index": 0, "replicas": replicas} for replicas in (None, (), (1, 1), (1, 2))]
    asked = [{"name": topic, "partitions": [*partitions, *others]}, {"name": "none", "partitions": others[:1]}]
    known, unknown = client.ask(45, 0, topics=asked).responses
    refused = [NO_REASSIGNMENT, *[INVALID_ASSIGNMENT] * 3]
    assert codes(known.partitions) == [0, INVALID_ASSIGNMENT, UNKNOWN, *refused]
    assert "on node 1, which leads it" in known.partitions[1].error_message
    assert codes(unknown.partitions) == [UNKNOWN]
    for topics in (None, [{"name": topic, "partition_indexes": (0, 1)}]):
        listed = client.ask(46, 0, topics=topics)
        assert (listed.error_code, listed.topics) == (0, ())


@pytest.mark.parametrize("version", [1, 2])
def test_a_partition_is_in_the_one_directory(gateway: Gateway, client: WireClient, topic: str, version: int) -> None:
    described = client.ask(35, 4, topics=None).results[0].log_dir
    topics = [{"name": topic, "partitions": (0, 2)}]
    for path, expected in ((described, {0: 0, 2: UNKNOWN}), (described + "-2", {0: NO_LOG_DIR, 2: NO_LOG_DIR})):
        (found,) = client.ask(34, version, dirs=[{"path": path, "topics": topics}]).results
        assert {each.partition_index: int(each.error_code) for each in found.partitions} == expected
