"""The driver is killed, or the power goes, at every change that a transaction makes: content is all or nothing.

After every crash the query is started again, as it is: it must end with each batch once, wherever it was interrupted,
and without anybody's help. ``python -m tests.storage.test_transactions_crash 20`` tries as many disks as it is told.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from pyspark_commitlog.storage.errors import OutcomeUnknownError
from pyspark_commitlog.storage.manager import LogManager
from pyspark_commitlog.storage.transactions import TransactionCoordinator, resolve_dead_transactions
from tests.support.faulty_filesystem import FaultyFileSystem, fail
from tests.support.memory_filesystem import MemoryFileSystem, crash_points
from tests.support.transactions import PLACES, Query, content, expected, make_topics, manage

BATCHES = 3


@dataclass(frozen=True)
class Effort:
    """How many of the possible disks are tried: every so many changes, and seeds for each of those."""

    every: int
    seeds: int


QUICK = Effort(every=9, seeds=1)


def committing(query: Query) -> None:
    query.run(2)


def aborting_then_committing(query: Query) -> None:
    query.start()
    query.abort_batch(1)
    query.run_batch(1)


@dataclass(frozen=True)
class Scenario:
    name: str
    during: Callable[[Query], None]
    configs: dict[str, str] = field(default_factory=dict)


SCENARIOS = [
    Scenario("committing", committing),
    Scenario("committing, with a roll in every batch", committing, {"segment.bytes": "700"}),
    Scenario("aborting and trying again", aborting_then_committing),
]


def disk_with_a_batch(configs: dict[str, str]) -> MemoryFileSystem:
    """One batch is committed; then the process was killed."""
    disk = MemoryFileSystem()
    make_topics(disk, **{"segment.bytes": "1000000", **configs})
    Query.on(disk).run(1)
    return disk


def check(disk: MemoryFileSystem, acknowledged: int, where: str) -> None:
    """What is there is whole batches, nothing acknowledged is gone, and the query ends as if nothing had happened."""
    for partition in (0, 1):
        seen = content(manage(disk), partition)
        assert seen in [expected(partition, range(n)) for n in range(BATCHES + 1)], where
    query = Query.on(disk).start()
    done = query.done()
    assert done >= acknowledged, where
    for topic, partition in PLACES:
        assert content(query.manager, partition) == expected(partition, range(done)), where
        log = query.manager.open_log(topic, partition)
        assert log.last_stable_offset == log.log_end_offset, where
    query.stop()
    Query.on(disk).run(BATCHES).stop()
    after = manage(disk.crash(0, unsynced="lost"))
    for partition in (0, 1):
        assert content(after, partition) == expected(partition, range(BATCHES)), where


def crashes(scenario: Scenario, effort: Effort) -> Iterator[tuple[str, MemoryFileSystem, int]]:
    """Where it was interrupted, the disk as a killed process leaves it, and the batches acknowledged until then."""
    queries: list[Query] = []

    def program(disk: MemoryFileSystem) -> None:
        queries.append(Query.on(disk))
        queries[-1].acknowledged = 1
        scenario.during(queries[-1])

    for operation, disk in crash_points(program, disk_with_a_batch(scenario.configs), every=effort.every):
        yield f"{scenario.name}: {operation}", disk, queries[-1].acknowledged


def check_power_cuts(scenario: Scenario, effort: Effort) -> None:
    for n, (where, disk, acknowledged) in enumerate(crashes(scenario, effort)):
        for seed in range(n, n + effort.seeds):
            check(disk.crash(seed), acknowledged, f"{where}, seed {seed}")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_power_cut_leaves_whole_batches_and_the_query_goes_on(scenario: Scenario) -> None:
    check_power_cuts(scenario, QUICK)


def check_kills(scenario: Scenario, effort: Effort) -> None:
    for where, disk, acknowledged in crashes(scenario, effort):
        check(disk.copy(), acknowledged, f"{where}, killed")


def test_a_killed_driver_leaves_whole_batches_and_the_query_goes_on() -> None:
    check_kills(SCENARIOS[0], QUICK)


def check_restarts(scenario: Scenario, kills: Effort, cuts: Effort) -> None:
    """The next start reads what was not synced, acts on it, and then the power goes."""
    for n, (where, killed, acknowledged) in enumerate(crashes(scenario, kills)):
        restarted = crash_points(lambda disk: Query.on(disk).start(), killed.copy(), every=cuts.every)
        for m, (operation, disk) in enumerate(restarted):
            for seed in range(n + m, n + m + cuts.seeds):
                check(disk.crash(seed), acknowledged, f"{where}, killed; restarted: {operation}, seed {seed}")


@pytest.mark.parametrize("scenario", SCENARIOS[:2], ids=lambda scenario: scenario.name)
def test_the_power_may_go_while_the_next_start_brings_a_transaction_to_its_end(scenario: Scenario) -> None:
    check_restarts(scenario, Effort(every=19, seeds=1), Effort(every=17, seeds=1))


def check_ended_by_others(effort: Effort) -> None:
    """A process that has the states open meanwhile ends what a killed driver decided, but did not sync."""

    def program(disk: MemoryFileSystem) -> None:
        others = manage(disk)
        TransactionCoordinator.open(others, "another").begin(PLACES)
        failing = FaultyFileSystem(disk)
        dead = Query(failing, LogManager.open("/logs", clock=disk.clock, filesystem=failing), manage(disk)).start()
        transaction = dead.begin()
        parts = dead.write(transaction, 1)
        failing.rules.append(fail("sync", "*/__transaction_state-0/*.log"))
        with pytest.raises(OutcomeUnknownError):
            dead.commit(transaction, 1, parts)
        disk.lose_locks()
        resolve_dead_transactions(others)
        assert content(others, 0) == expected(0, range(2))

    for n, (operation, disk) in enumerate(crash_points(program, disk_with_a_batch({}), every=effort.every)):
        for seed in range(n, n + effort.seeds):
            check(disk.crash(seed), 1, f"ended by another process: {operation}, seed {seed}")


def test_another_process_that_ends_a_transaction_has_its_decision_on_the_disk_first() -> None:
    check_ended_by_others(QUICK)


def torture(effort: Effort) -> None:
    """Everything above, with more of the possible disks."""
    check_ended_by_others(effort)
    for scenario in SCENARIOS:
        check_power_cuts(scenario, effort)
        check_kills(scenario, effort)
        check_restarts(scenario, effort, effort)


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # of every transaction that was left
    torture(Effort(every=1, seeds=int(sys.argv[1])))
