"""Transactional ids that move from one node to another, and partitions that other nodes lead."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyspark_commitlog.gateway.cluster.homes import Homes
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.storage import Producer
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.transactions import APP, content, manage
from tests.support.transaction_bench import Bench

NONE = ErrorCode.none


class Node:
    """A node that may lead the partition of all ids."""

    def __init__(self, disk: MemoryFileSystem, *, leads: bool) -> None:
        self.leads = leads
        self.bench = Bench(disk, homes=Homes(leads=lambda _: self.leads))


@pytest.fixture
def nodes(disk: MemoryFileSystem) -> Iterator[tuple[Node, Node]]:
    """The first one coordinates."""
    found = Node(disk, leads=True), Node(disk, leads=False)
    yield found
    for each in found:
        each.bench.close()


def move(source: Node, target: Node) -> None:
    source.leads, target.leads = False, True
    for each in (source, target):
        each.bench.coordinator.reassign()
        each.bench.serve()


def begun(bench: Bench) -> Producer:
    error, producer = bench.init()
    assert not error
    assert producer is not None
    assert bench.add(producer, 0) is NONE
    assert bench.add(producer, 1) is NONE
    return producer


def test_a_node_that_does_not_coordinate_an_id_says_so(nodes: tuple[Node, Node]) -> None:
    _, other = nodes
    assert other.bench.init() == (ErrorCode.not_coordinator, None)
    assert other.bench.add(Producer(1, 0), 0) is ErrorCode.not_coordinator
    assert other.bench.end(Producer(1, 0)) is ErrorCode.not_coordinator


def test_a_transaction_goes_on_at_the_node_that_took_over(disk: MemoryFileSystem, nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    producer = begun(first.bench)
    assert first.bench.append(producer, 0, b"a") is NONE
    move(first, second)
    assert second.bench.add(producer, 1) is NONE  # it has read the state now
    assert second.bench.append(producer, 1, b"b") is NONE
    assert first.bench.end(producer) is ErrorCode.not_coordinator
    assert second.bench.end(producer) is NONE
    assert [content(manage(disk), each) for each in (0, 1)] == [[b"a"], [b"b"]]


def test_a_partition_that_the_coordinator_does_not_lead_takes_batches_of_open_transactions_only(
    disk: MemoryFileSystem, nodes: tuple[Node, Node]
) -> None:
    coordinator, leader = nodes
    producer = begun(coordinator.bench)
    assert leader.bench.append(producer, 0, b"a") is NONE
    assert leader.bench.append(Producer(producer.id, producer.epoch + 1), 0, b"x") is ErrorCode.invalid_producer_epoch
    assert coordinator.bench.end(producer) is NONE
    assert leader.bench.append(producer, 0, b"late") in (ErrorCode.invalid_txn_state, ErrorCode.transaction_abortable)
    assert content(manage(disk), 0) == [b"a"]


def test_an_id_that_moves_while_markers_are_written_is_given_back_behind_them(
    disk: MemoryFileSystem, nodes: tuple[Node, Node]
) -> None:
    first, second = nodes
    producer = begun(first.bench)
    assert first.bench.append(producer, 0, b"a") is NONE
    answers: list[ErrorCode] = []
    first.bench.coordinator.end(APP, producer, answers.append, commit=True)
    first.leads, second.leads = False, True
    first.bench.coordinator.reassign()
    assert second.bench.init()[0] is ErrorCode.concurrent_transactions
    first.bench.serve()
    assert answers == [NONE]
    assert second.bench.init()[0] is ErrorCode.concurrent_transactions
    first.bench.serve_later()
    error, after = second.bench.init()
    assert (error, after) == (NONE, Producer(producer.id, producer.epoch + 1))
    assert content(manage(disk), 0) == [b"a"]


def test_an_id_that_moves_on_while_it_is_opened_is_not_kept(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    producer = begun(first.bench)
    move(first, second)
    answers: list[ErrorCode] = []
    second.bench.coordinator.load(APP, answers.append)
    move(second, first)
    assert answers == [ErrorCode.not_coordinator]
    assert first.bench.end(producer) is NONE


def test_batches_are_sent_again_while_the_earlier_coordinator_still_has_an_id(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    begun(first.bench)
    first.leads, second.leads = False, True
    assert loaded(second.bench) is ErrorCode.not_enough_replicas
    assert found_group(second.bench) is ErrorCode.coordinator_not_available
    move(first, second)
    assert loaded(second.bench) is NONE
    assert found_group(second.bench) is NONE


def loaded(bench: Bench) -> ErrorCode:
    answers: list[ErrorCode] = []
    bench.coordinator.load(APP, answers.append)
    bench.serve()
    return answers[0]


def found_group(bench: Bench) -> ErrorCode:
    answers: list[ErrorCode] = []
    bench.coordinator.find_group(APP, "group", lambda error, _: answers.append(error))
    bench.serve()
    return answers[0]
