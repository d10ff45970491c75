"""Faults of transactional producers and their coordinator."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path

from tests.faults.fault import Fault, Mutation, Scenario, by_itself, call_by_name, on_gateway
from tests.gateway.handlers import test_offsets
from tests.gateway.handlers.transactions import test_producers
from tests.gateway.transactions import test_coordinator, test_takeover
from tests.support.disk.faulty_filesystem import FaultyFileSystem
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.gateway import WireClient, create_topic, serving
from tests.support.logs.transactions import make_topics
from tests.support.transaction_bench import Bench
from tests.support.transactions import WireProducer

_ENDINGS = "gateway.transactions.endings:Endings"
_IDS = "gateway.transactions.ids:HeldIds"
_GATE = "gateway.transactions.gate:Gate"


def _disk() -> MemoryFileSystem:
    disk = MemoryFileSystem()
    make_topics(disk)
    return disk


def _on_bench(test: Callable[..., object]) -> Scenario:
    """A test that gets a coordinator, its producer, and its disk, which may be broken."""

    @wraps(test)
    def scenario(_: Path) -> None:
        disk = _disk()
        faulty = FaultyFileSystem(disk)
        bench = Bench(disk, faulty)
        _, producer = bench.init()
        call_by_name(test, {"bench": bench, "producer": producer, "disk": disk, "faulty": faulty})

    return scenario


def _with_producer(test: Callable[..., object], **given: object) -> Scenario:
    """A test that gets a gateway with a transactional producer."""

    @wraps(test)
    def scenario(directory: Path) -> None:
        with serving(directory / "log") as gateway, WireClient(gateway) as client:
            create_topic(client, "t", 2)
            producer = WireProducer(client, "t")
            assert not producer.init().error
            call_by_name(test, {"gateway": gateway, "client": client, "topic": "t", "producer": producer, **given})

    return scenario


def _nodes() -> tuple[test_takeover.Node, test_takeover.Node]:
    disk = _disk()
    return test_takeover.Node(disk, leads=True), test_takeover.Node(disk, leads=False)


FAULTS = [
    Fault(
        76,
        "KAFKA-9600",
        "EndTxn with an epoch that no producer has yet is taken, and ends the transaction of another.",
        _on_bench(test_coordinator.test_an_end_of_another_epoch_is_refused),
        (
            Mutation(
                "gateway.transactions.held:HeldId.check_producer",
                "if self.value.producer_epoch != producer.epoch:",
                "if self.value.producer_epoch > producer.epoch:",
            ),
        ),
    ),
    Fault(
        77,
        "KAFKA-6119",
        "A late transaction is aborted, but its producer is not fenced, and commits the rest of it as the next one.",
        _on_bench(test_coordinator.test_what_is_late_is_aborted_with_the_next_epoch_and_what_is_idle_is_given_back),
        (Mutation(f"{_ENDINGS}._look_at", "commit=False, raise_epoch=True", "commit=False, raise_epoch=False"),),
    ),
    Fault(
        78,
        "KAFKA-9666",
        "While the states of transactions cannot be written, each try to fence raises the epoch in memory, to its end.",
        _on_bench(test_coordinator.test_epochs_do_not_rise_while_states_cannot_be_written),
        (
            Mutation(
                f"{_IDS}.change",
                "self.give_back(held)\n        done(coordinator_code(error))",
                "held.value = value\n        done(coordinator_code(error))",
            ),
        ),
    ),
    Fault(
        79,
        "KAFKA-5351",
        "A state cannot be written; the id stays marked as changing, and its producer tries again forever.",
        _on_bench(test_coordinator.test_partitions_that_could_not_be_stored_are_not_added),
        (Mutation(f"{_IDS}.change", "self.give_back(held)", "held.is_changing = True"),),
    ),
    Fault(
        80,
        "KAFKA-5202",
        "A topic is deleted before the markers are written; the transaction never ends.",
        _on_bench(test_coordinator.test_a_transaction_ends_without_the_partitions_of_a_topic_that_was_deleted),
        (
            Mutation(
                "gateway.transactions.markers:_is_gone",
                "return isinstance(found, UnknownTopicOrPartitionError)",
                "return False",
            ),
        ),
    ),
    Fault(
        81,
        "KAFKA-9749",
        "A disk error while a marker is written leaves a decided transaction as it is until a restart.",
        _on_bench(test_coordinator.test_markers_that_could_not_be_written_are_tried_again),
        (Mutation(f"{_ENDINGS}._look_at", "elif held.is_in(PREPARED):", "elif False:"),),
    ),
    Fault(
        82,
        "KAFKA-5283",
        "The epochs of a producer are used up; the next one overflows.",
        on_gateway(test_producers.test_another_producer_id_follows_when_the_epochs_are_used_up),
        (
            Mutation(
                "gateway.transactions.coordinator:TransactionCoordinator._init", "current.epoch >= EPOCH_MAX or ", ""
            ),
        ),
    ),
    Fault(
        83,
        "KAFKA-14884",
        "A batch is checked while its transaction is open, and appended after the marker: readers wait forever.",
        _on_bench(test_coordinator.test_no_batch_is_appended_once_the_end_is_asked_for),
        (Mutation(f"{_GATE}.check", "if shown.is_ending:", "if False:"),),
    ),
    Fault(
        84,
        "KAFKA-14402",
        "A batch for a partition that was not added begins a transaction there that no coordinator ends "
        "(also KAFKA-12671).",
        _with_producer(test_producers.test_a_batch_for_a_partition_that_was_not_added_is_refused, version=11, code=120),
        (Mutation(f"{_GATE}.check", "if partition not in shown.partitions:", "if False:"),),
    ),
    Fault(
        85,
        "KAFKA-10080",
        "A transaction is completed twice at once; the second time may end the next transaction.",
        _on_bench(test_coordinator.test_no_batch_is_appended_once_the_end_is_asked_for),
        (
            Mutation(
                "gateway.transactions.held:HeldId.is_busy", "self.is_changing or self.lock is None", "self.lock is None"
            ),
        ),
    ),
    Fault(
        86,
        "KAFKA-9235",
        "A node no longer has the partition of a transactional id, and goes on as its coordinator.",
        by_itself(test_takeover.test_a_node_that_does_not_coordinate_an_id_says_so, _nodes),
        (Mutation(f"{_IDS}.use", "if not self.homes.has(transactional_id):", "if False:"),),
    ),
    Fault(
        87,
        "KAFKA-15552",
        "A block of producer ids is handed out twice, and two producers have the same id.",
        on_gateway(test_offsets.test_producer_ids_are_handed_out_once),
        (
            Mutation(
                "gateway.producer_ids:ProducerIds.next",
                "range(first + 1, first + BLOCK)",
                "range(first, first + BLOCK)",
            ),
        ),
    ),
    Fault(
        88,
        "KAFKA-5522",
        "A search by time for readers of committed records finds one of an open transaction.",
        on_gateway(test_offsets.test_a_search_by_time_ends_where_readers_of_committed_records_do),
        (Mutation("gateway.handlers.offsets:_found", "found.offset >= led.end_offset(isolation)", "False"),),
    ),
]
