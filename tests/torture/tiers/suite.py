"""Random logs that are copied to a tier, published and restored, with power cuts and a store on a bad day.

A case is a log of plain, idempotent and transactional batches. Copies, local retention, deletions in the tier are cut
off at any change of the disk, or the store fails them; after each, readers of log and tier see what a twin of the log
has, in both isolation levels, nothing less and nothing twice. Readers of a bad store see the same, or an error. At the
end the topic is published to a directory like a broker's, and restored from the tier alone, both with cuts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from random import Random

import pytest

from pyspark_commitlog.mirror.tiers.publishing import _publish
from pyspark_commitlog.storage import plan_publishing, prepare_directory
from pyspark_commitlog.storage.bucket.stores.patience import Patience
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import LogStoreError, TopicExistsError
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.remote_metadata.topic import CONFIGS, MetadataTopic
from pyspark_commitlog.storage.tiering.restoring import opened_to_restore, restore_to_directory
from pyspark_commitlog.storage.tiers.address import tier_address
from pyspark_commitlog.storage.tiers.files.filesystem import TieredFiles
from pyspark_commitlog.storage.tiers.opening import open_tier
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem, PowerCut
from tests.support.logs.building import NOW_MS
from tests.support.stores.memory_store import MemoryStore
from tests.torture.suite import Run, Suite, quiet
from tests.torture.tiers.faults import BadDay
from tests.torture.tiers.world import PLACE, SMALL, Views, World, manager_of, views_of

STEPS = ("write", "write", "write", "end", "roll", "roll", "copy", "copy", "retain", "delete_records", "read")
CUTS_MAX = 8  # of one work at the end
PATIENT, HASTY = Patience(60_000, 1, 2), Patience(1, 1, 2)


@contextmanager
def patience(limits: Patience) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("pyspark_commitlog.storage.bucket.stores.patience.Patience.of_process", lambda: limits)
        yield


def step(run: Run, world: World, name: str) -> None:
    chance = world.chance
    if name == "copy":
        is_hasty = chance.random() < 0.3
        store = world.bad_store(chance.choice((0.5, 1) if is_hasty else (0, 0.1, 0.3)), 0.3)
        with patience(HASTY if is_hasty else PATIENT):
            try:
                run.note("power cuts", world.with_power_cut(partial(world.copy, store), store))
            except LogStoreError as error:
                check_refusal(error, is_hasty=is_hasty)
                world.disk = world.disk.crash(chance.randrange(1 << 30))
                run.note("failed copies")
    elif name == "retain":
        run.note("power cuts", world.with_power_cut(world.retain))
    elif name == "read":
        read_badly(run, world)
    else:
        getattr(world, name)()


def read_badly(run: Run, world: World) -> None:
    """Readers of a bad store see what is there, or an error; listings alone do not matter where there is a log."""
    if not world.store.objects:
        return
    is_hasty = world.chance.random() < 0.3
    store = world.bad_store(world.chance.choice((0.5, 1) if is_hasty else (0, 0.2)), 0.5)
    with patience(HASTY if is_hasty else PATIENT):
        try:
            files = world.shown(store)
            with LogManager.open(files.root, clock=ManualClock(NOW_MS), filesystem=files) as manager:
                assert views_of(manager) == world.wanted(world.log_start)
        except LogStoreError as error:
            check_refusal(error, is_hasty=is_hasty)
            run.note("refused reads")


def check_refusal(error: LogStoreError, *, is_hasty: bool) -> None:
    """Only who has no patience with the store is refused, and the error names the object."""
    names = (MemoryStore.url, "kafka-tiered-storage/")
    if not is_hasty or not any(name in str(error) for name in names):
        raise AssertionError(f"names no object, or came too early: {error}") from error


def read_alone(world: World) -> None:
    """A tier alone has a run of the log's records, or is an error; a late listing makes it shorter, never wrong."""
    store = world.bad_store(0.0, 0.5)
    with suppress(LogStoreError):
        files = TieredFiles(tier_address("memory"), open_tier("", store=store))
        with LogManager.open(files.root, clock=ManualClock(NOW_MS), filesystem=files) as manager:
            with manager.open_reader(*PLACE) as reader:
                start, end = reader.log_start_offset, reader.log_end_offset
            found = views_of(manager)
        wanted = world.wanted(start)[Isolation.READ_UNCOMMITTED]
        assert found[Isolation.READ_UNCOMMITTED] == [row for row in wanted if row[0] < end]


# Publishing, to what a broker's directory is to us


def publish(world: World, target: MemoryFileSystem, store: BadDay) -> None:
    with manager_of(target, "/broker") as broker, manager_of(world.twin) as source:
        broker.ensure_topic("__remote_log_metadata", partitions=1, configs=CONFIGS | SMALL)
        topic = broker.ensure_topic("t", partitions=1, configs=SMALL)
        if not broker.partitions_found("t"):
            broker.open_log("t", 0)
        for planned in plan_publishing(source, "t", -1, aborts_open=True):
            _publish(planned, store, MetadataTopic(broker), topic.topic_id or "")  # type: ignore[arg-type]
    with manager_of(target, "/broker") as broker:
        list(prepare_directory(broker, ["t"]))


def check_published(world: World, target: MemoryFileSystem) -> None:
    files = TieredFiles(tier_address("memory", "/broker"), open_tier("", store=world.store), target)
    with LogManager.open(files.root, clock=ManualClock(NOW_MS), filesystem=files) as manager:
        compare(world, views_of(manager), world.wanted(0))


def compare(world: World, found: Views, wanted: Views) -> None:
    """What was open is aborted, so that readers of committed records see what is behind it."""
    assert found[Isolation.READ_UNCOMMITTED] == wanted[Isolation.READ_UNCOMMITTED]
    decided, committed = wanted[Isolation.READ_COMMITTED], found[Isolation.READ_COMMITTED]
    assert committed[: len(decided)] == decided
    assert world.has_open_transactions or committed == decided


# Restoring


def restore(target: MemoryFileSystem) -> None:
    with opened_to_restore("memory") as source, manager_of(target, "/restored") as restored, suppress(TopicExistsError):
        list(restore_to_directory(source, restored))


def check_restored(world: World, target: MemoryFileSystem) -> None:
    files = TieredFiles(tier_address("memory"), open_tier("", store=world.store))
    with LogManager.open(files.root, clock=ManualClock(NOW_MS), filesystem=files) as manager:
        wanted = views_of(manager)
    with manager_of(target, "/restored") as restored, restored.open_reader(*PLACE) as reader:
        assert reader.last_stable_offset == reader.log_end_offset
        compare(world, views_of(restored), wanted)


def with_cuts(run: Run, chance: Random, disk: MemoryFileSystem, work: object) -> MemoryFileSystem:
    """Does some work again and again, with power cuts, until it is done."""
    for _ in range(CUTS_MAX):
        disk.cut_power_at(chance.randint(1, 120))
        try:
            work(disk)  # type: ignore[operator]
        except PowerCut:
            run.note("power cuts")
            disk = disk.crash(chance.randrange(1 << 30))
            continue
        return disk.crash(0, unsynced="lost")
    disk = disk.crash(0)
    work(disk)  # type: ignore[operator]
    return disk


def finish(run: Run, world: World) -> None:
    chance = world.chance
    if chance.random() < 0.5:
        world.end_all()
    world.roll()
    with patience(PATIENT):
        world.copy(world.store)
    world.check()
    if world.store.objects:
        read_alone(world)
        with pytest.MonkeyPatch.context() as patched, patience(PATIENT):
            patched.setattr("pyspark_commitlog.storage.tiering.restoring.open_tier", _in(world))
            restored = with_cuts(run, chance, MemoryFileSystem(ManualClock(NOW_MS)), restore)
        check_restored(world, restored)
    world.store = MemoryStore()
    if not world.wanted(0)[Isolation.READ_UNCOMMITTED]:
        return
    with patience(PATIENT):
        store, broker = world.bad_store(chance.choice((0, 0.2)), 0.0), MemoryFileSystem(ManualClock(NOW_MS))
        broker = with_cuts(run, chance, broker, lambda disk: publish(world, disk, store))
    check_published(world, broker)


def _in(world: World) -> object:
    return lambda url, keys=(): open_tier("", keys, store=world.store)


def run(run: Run) -> None:
    with quiet():
        for case in run.cases():
            steps: list[str] = []
            with run.watching(case, steps):
                world = World(case.chance)
                for _ in range(case.chance.randint(6, 40)):
                    steps.append(case.chance.choice(STEPS))
                    step(run, world, steps[-1])
                    world.check()
                    run.passed()
                finish(run, world)
                run.note("logs")


SUITE = Suite("steps", 20_000, run)
