"""Power cuts at every change that every operation makes to the disk, and what the log is afterwards.

A case is one operation, with sizes, keys and settings drawn where that tells more; the power goes at each of its
changes, or at some of them where it goes twice, and leaves one of the disks that tests/support/disk/disk_model.py
allows. What must hold then is said beside each check, in tests/storage. Counted are disks that no power cut left
before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

from pyspark_commitlog.storage.index_rebuild.log import plan_rebuild, rebuild_log
from pyspark_commitlog.storage.retention.apply import retain
from pyspark_commitlog.storage.verify.findings import Severity
from pyspark_commitlog.storage.verify.log import verify_log
from tests.storage.compaction import test_rounds_crash
from tests.storage.compaction.test_rounds import Pairs
from tests.storage.recovery import test_loader_crash_states
from tests.storage.recovery.test_loader_crash_states import LAZY, PREALLOCATED, SMALL, Scenario, Steps, Story
from tests.storage.retention import test_apply_crash
from tests.storage.transactions import test_coordinator_crash
from tests.support.disk.disks import digest_of
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.disk.power_cuts import Effort
from tests.support.logs.building import end_transaction, open_log, rows, write_transactional
from tests.torture.suite import Run, Suite, quiet

Check = Callable[[Random, Effort], object]


def without_chance(check: Callable[[Effort], object]) -> Check:
    return lambda _, effort: check(effort)


def sometimes(chance: Random, effort: Effort, every: int) -> Effort:
    """Not at every change, since each is followed by many."""
    return replace(effort, every=every, first=chance.randint(1, every))


# A drawn history of one log


def drawn_history(chance: Random, effort: Effort) -> None:
    settings = chance.choice(
        (
            {},
            SMALL,
            LAZY,
            {**PREALLOCATED, "segment.bytes": "2000"},
            {**LAZY, "segment.bytes": "700"},
            {**SMALL, **PREALLOCATED},
        )
    )
    before, during = ([drawn_step(chance, settings) for _ in range(chance.randint(1, 6))] for _ in range(2))
    scenario = Scenario("drawn", partial(take_steps, before), partial(take_steps, during), settings)
    test_loader_crash_states.check_scenario(scenario, effort)


def take_steps(steps: list[Steps], story: Story) -> None:
    for step in steps:
        step(story)


def drawn_step(chance: Random, settings: dict[str, str]) -> Steps:
    """One of the things a writer does; what it is about is drawn now, so that every run of it is the same."""
    values = [chance.randbytes(chance.choice((0, 5, chance.randint(1, 110)))) for _ in range(chance.randint(1, 2))]
    part = chance.random()
    steps: list[Steps] = [
        lambda story: story.append(*values, is_acknowledged=settings.get("flush.messages") is None),
        lambda story: story.sync(),
        lambda story: story.log.roll(),
        lambda story: story.truncate_to(round(part * story.log.log_end_offset)),
        lambda story: story.delete_records(round(part * story.log.log_end_offset)),
        lambda story: retain(story.log),
        reopen,
    ]
    return chance.choices(steps, weights=(8, 2, 2, 1, 1, 1, 1))[0]


def reopen(story: Story) -> None:
    story.log.sync()
    story.acknowledged()
    story.manager.close()
    story.open()


# Compaction of drawn keys


def drawn_pairs(chance: Random) -> list[Pairs]:
    """Segments of keys that come again and again, tombstones among them; no two values are alike."""
    numbers = iter(range(1000))
    return [
        [
            (b"%d" % chance.randrange(5), b"%d" % next(numbers) * chance.choice((1, 15)))
            for _ in range(chance.randint(1, 4))
        ]
        for _ in range(chance.randint(2, 5))
    ]


def drawn_compaction(chance: Random, effort: Effort) -> None:
    settings = test_rounds_crash.compacted(chance.choice((300, 500, 1 << 20)), chance.choice((0, 60_000)))
    deque(test_rounds_crash.check_compaction(settings, drawn_pairs(chance), effort), maxlen=0)


def compaction_cut_twice(chance: Random, effort: Effort) -> None:
    settings = test_rounds_crash.compacted(chance.choice((300, 500)), chance.choice((0, 60_000)))
    cuts, again = sometimes(chance, effort, 7), sometimes(chance, effort, 2)
    test_rounds_crash.check_crash_after_crash(settings, drawn_pairs(chance), cuts, again)


# Indexes and snapshots built again


def drawn_rebuild(chance: Random, effort: Effort) -> None:
    """Sidecars are damaged or gone; a rebuild that is cut short leaves a log that opens, and the next one ends it."""
    start = MemoryFileSystem()
    with open_log("/t-0", filesystem=start, segment_bytes=300, index_interval_bytes=0, segment_index_bytes=240) as log:
        for n in range(chance.randint(4, 9)):
            write_transactional(log, 1, n, b"%d" % n * chance.randint(1, 120))
            if chance.random() < 0.5:
                end_transaction(log, 1, commit=chance.random() < 0.5)
        content = rows(log)
    damage_sidecars(chance, start)

    def rebuild(disk: MemoryFileSystem) -> None:
        with open_log(
            "/t-0", filesystem=disk, segment_bytes=300, index_interval_bytes=0, segment_index_bytes=240
        ) as log:
            rebuild_log(log)

    for where, left in effort.cut(rebuild, start):
        rebuild(left)
        with open_log("/t-0", filesystem=left, index_interval_bytes=0, segment_index_bytes=240) as log:
            assert rows(log) == content, where
            assert plan_rebuild(log).changes == (), where
            damage = [str(found) for found in verify_log(log.context).findings if found.severity is Severity.DAMAGE]
            assert damage == [], where


def damage_sidecars(chance: Random, disk: MemoryFileSystem) -> None:
    for name in disk.list("/t-0"):
        path = f"/t-0/{name}"
        if not name.endswith(("index", ".snapshot", "checkpoint")) or chance.random() < 0.5:
            continue
        if chance.random() < 0.3:
            disk.remove(path)
            continue
        with disk.open(path, "write") as file:
            file.write(chance.randint(0, file.size()), chance.randbytes(chance.randint(1, 40)))
            file.sync()
    disk.sync_directory("/t-0")


# Transactions: states, data, markers and offsets of a group


def drawn_restart(chance: Random, effort: Effort) -> None:
    scenario = chance.choice(test_coordinator_crash.SCENARIOS)
    kills, cuts = sometimes(chance, effort, 19), sometimes(chance, effort, 5)
    test_coordinator_crash.check_restarts(scenario, kills, cuts)


def retention(chance: Random, effort: Effort) -> None:
    days_later, start = chance.choice([*test_apply_crash.SITUATIONS.values()])
    disk = test_apply_crash.disk_with_days()
    deque(test_apply_crash.check_retention(disk, days_later, start, effort), maxlen=0)


CHECKS: dict[str, Check] = {
    **{
        scenario.name: without_chance(partial(test_loader_crash_states.check_scenario, scenario))
        for scenario in test_loader_crash_states.SCENARIOS
    },
    "recovery": without_chance(test_loader_crash_states.check_recovery_can_be_interrupted),
    "recovery beside another process": without_chance(test_loader_crash_states.check_recovery_point_may_rise),
    "a rebuild of indexes": without_chance(test_loader_crash_states.check_rebuild_can_be_interrupted),
    "a batch sent again": without_chance(partial(test_loader_crash_states.check_retries, {})),
    "a batch sent again, over segments": without_chance(partial(test_loader_crash_states.check_retries, SMALL)),
    "transactions of one log": without_chance(partial(test_loader_crash_states.check_transactions, {})),
    "transactions over segments": without_chance(
        partial(test_loader_crash_states.check_transactions, {"segment.bytes": "200"})
    ),
    "offsets of a group": without_chance(test_loader_crash_states.check_group_commits),
    "a drawn history": drawn_history,
    "another drawn history": drawn_history,
    "retention": retention,
    "compaction and its swap": drawn_compaction,
    "compaction, cut twice": compaction_cut_twice,
    "index rebuild": drawn_rebuild,
    **{
        f"coordinator: {scenario.name}": without_chance(partial(test_coordinator_crash.check_power_cuts, scenario))
        for scenario in test_coordinator_crash.SCENARIOS
    },
    "coordinator: the next start": drawn_restart,
    "coordinator: ended by another": without_chance(test_coordinator_crash.check_ended_by_others),
}


def run(run: Run) -> None:
    seen: set[bytes] = set()
    names = list(CHECKS)

    def count(disk: MemoryFileSystem) -> None:
        digest = digest_of(disk)
        run.passed(digest not in seen)
        run.note("power cuts")
        seen.add(digest)

    for case in run.cases():
        name = names[case.number % len(names)]
        with_kills = case.chance.random() < 0.3
        effort = Effort(first_seed=case.chance.randrange(1 << 40), with_kills=with_kills, on_disk=count)
        with run.watching(case, name), quiet():  # of every cut
            CHECKS[name](case.chance, effort)


SUITE = Suite("distinct disks", 10_000, run)
