"""The driver is killed, or the power fails, at every change of a transaction: all of it is visible or nothing.

After every crash the same query is started again: it must end with each batch exactly once, wherever it was
interrupted, without any help. ``python -m tests.torture crash-states`` tries any number of disks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import OutcomeUnknownError
from pyspark_commitlog.storage.transactions.abandoned import resolve_dead_transactions
from pyspark_commitlog.storage.transactions.coordinator import TransactionCoordinator
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.disk.power_cuts import Effort
from tests.support.logs.transactions import PARTITIONS, Query, content, expected, make_topics, manage

BATCHES = 3


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
    leaves_syncs: bool = False  # to the commit


SCENARIOS = [
    Scenario("committing", committing),
    Scenario("committing, with a roll in every batch", committing, {"segment.bytes": "700"}),
    Scenario("committing what tasks left unsynced", committing, leaves_syncs=True),
    Scenario(
        "committing what tasks left unsynced, with rolls", committing, {"segment.bytes": "700"}, leaves_syncs=True
    ),
    Scenario("aborting and trying again", aborting_then_committing),
]


def disk_with_a_batch(configs: dict[str, str]) -> MemoryFileSystem:
    """One batch is committed; then the process was killed."""
    disk = MemoryFileSystem()
    make_topics(disk, **{"segment.bytes": "1000000", **configs})
    Query.on(disk).run(1)
    return disk


def check(disk: MemoryFileSystem, acknowledged: int, where: str) -> None:
    """Only whole batches are visible, nothing acknowledged is lost, and the query ends as if nothing had happened."""
    for partition in (0, 1):
        seen = content(manage(disk), partition)
        assert seen in [expected(partition, range(n)) for n in range(BATCHES + 1)], where
    query = Query.on(disk).start()
    done = query.done()
    assert done >= acknowledged, where
    for topic, partition in PARTITIONS:
        assert content(query.manager, partition) == expected(partition, range(done)), where
        log = query.manager.open_log(topic, partition)
        assert log.last_stable_offset == log.log_end_offset, where
    query.stop()
    Query.on(disk).run(BATCHES).stop()
    after = manage(disk.crash(0, unsynced="lost"))
    for partition in (0, 1):
        assert content(after, partition) == expected(partition, range(BATCHES)), where


@dataclass
class Interrupted:
    """A scenario as a program that is cut short."""

    scenario: Scenario
    query: Query | None = None  # of the latest run

    @property
    def start(self) -> MemoryFileSystem:
        return disk_with_a_batch(self.scenario.configs)

    @property
    def acknowledged(self) -> int:
        """Batches written by the latest run and before it."""
        return 1 if self.query is None else self.query.acknowledged

    def __call__(self, disk: MemoryFileSystem) -> None:
        self.query = None
        self.query = Query.on(disk)
        self.query.acknowledged = 1
        self.query.leaves_syncs = self.scenario.leaves_syncs
        self.scenario.during(self.query)


def check_power_cuts(scenario: Scenario, effort: Effort) -> None:
    program = Interrupted(scenario)
    for where, left in effort.cut(program, program.start):
        check(left, program.acknowledged, f"{scenario.name}: {where}")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_power_cut_leaves_whole_batches_and_the_query_continues(scenario: Scenario) -> None:
    check_power_cuts(scenario, QUICK)


def check_kills(scenario: Scenario, effort: Effort) -> None:
    program = Interrupted(scenario)
    for where, disk in effort.killed(program, program.start):
        check(disk.copy(), program.acknowledged, f"{scenario.name}: {where}, killed")


def test_a_killed_driver_leaves_whole_batches_and_the_query_continues() -> None:
    check_kills(SCENARIOS[0], QUICK)


def check_restarts(scenario: Scenario, kills: Effort, cuts: Effort) -> None:
    """The next start reads what was not synced, acts on it, and then the power fails."""
    program = Interrupted(scenario)
    for where, killed in kills.killed(program, program.start):
        for again, left in cuts.cut(lambda disk: Query.on(disk).start(), killed.copy()):
            check(left, program.acknowledged, f"{scenario.name}: {where}, killed; restarted: {again}")


@pytest.mark.parametrize("scenario", SCENARIOS[:2], ids=lambda scenario: scenario.name)
def test_the_power_may_fail_while_the_next_start_completes_a_transaction(scenario: Scenario) -> None:
    check_restarts(scenario, Effort(every=19, seeds=1), Effort(every=17, seeds=1))


def check_ended_by_others(effort: Effort) -> None:
    """A process that had the states open all along ends what a killed driver decided but did not sync."""

    def program(disk: MemoryFileSystem) -> None:
        others = manage(disk)
        TransactionCoordinator.open(others, "another").begin(PARTITIONS)
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

    for where, left in effort.cut(program, disk_with_a_batch({})):
        check(left, 1, f"ended by another process: {where}")


def test_another_process_that_ends_a_transaction_has_its_decision_on_the_disk_first() -> None:
    check_ended_by_others(QUICK)
