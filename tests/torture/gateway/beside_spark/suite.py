"""Everything at once on one topic, while gateways and Spark's driver are killed at random.

Writers: a streaming query of Spark's with our sink, a Java producer with transactions of which some are aborted, and
two idempotent producers of librdkafka; beside them compactions, of which some are killed. Readers, each at both
isolation levels: streaming queries of Spark's, the engine, consumers of librdkafka; and a group that commits. At the
end, what each reader saw is compared with the log, and the log with what each writer was told: an acknowledged record
is there once, in order by writer; a transaction is there whole or not at all, as it was answered, and nobody that
reads committed records has seen one of an aborted one; a committed offset never goes back. Kills come at random
times, so the same seed chooses the same kinds of kills, not the same instants.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from random import Random

from pyspark_commitlog.storage import Isolation, LogManager
from tests.support.logs.directories import directory_with_internal_topics
from tests.torture.gateway import kills
from tests.torture.gateway.beside_spark import histories, readers, writers
from tests.torture.gateway.beside_spark.histories import History
from tests.torture.gateway.beside_spark.spark import Driver
from tests.torture.gateway.beside_spark.spark_driver import TOPIC
from tests.torture.gateway.clients import (
    LIMIT_S,
    PARTITIONS,
    Client,
    Told,
    Work,
    consume,
    finish,
    new_transactional,
    produce,
    watch,
)
from tests.torture.gateway.server import Server
from tests.torture.suite import Run, Suite

LIFE_S = 600.0  # of a directory, at most
PAUSE_S = (1.0, 25.0)  # between two kills
Disturb = Callable[[Sequence[Server], Random, Run], None]
ENDS_S = LIMIT_S + 60  # for a client, whose Java producer may take LIMIT_S itself
DRIVER_S = (0.0, 12.0)  # that a driver lives on after its first progress
PRODUCERS = (b"one", b"two")
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "60000",
    "index.interval.bytes": "1000",
    "min.cleanable.dirty.ratio": "0",
    "file.delete.delay.ms": "0",
}


class World:
    """A directory with all that work on it."""

    def __init__(self, directory: Path, chance: Random) -> None:
        self.directory = directory
        directory_with_internal_topics(directory, partitions=2)
        with LogManager.open(str(directory)) as manager:
            manager.create_topic(TOPIC, partitions=PARTITIONS, configs=CONFIGS)
        self.told = Told()
        self.driver = Driver(directory, directory.with_suffix(".spark"))
        self.histories: list[History] = []
        self._chance = chance

    def clients(self, address: str) -> tuple[list[Client], list[Client]]:
        """All but Spark's: those that write or commit, and those that read."""
        told = self.told
        records = partial(histories.records_of, partitions=PARTITIONS)
        works: list[Work] = [
            *(partial(produce, address, name, told, topic=TOPIC, records=records) for name in PRODUCERS),
            partial(writers.transact, address, told, Random(self._chance.random())),
            partial(writers.compact, self.directory, told, Random(self._chance.random())),
            partial(consume, address, told, topic=TOPIC),
            partial(watch, address, told, topic=TOPIC),
        ]
        reading: list[Work] = []
        for isolation in Isolation:
            wire = History(f"librdkafka, {isolation.value}", isolation)
            files = History(f"the engine, {isolation.value}", isolation)
            self.histories += [wire, files]
            reading.append(partial(readers.follow_wire, address, wire))
            reading.append(partial(readers.follow_files, self.directory, files))
        return [Client(work, told) for work in works], [Client(work, told) for work in reading]

    def check(self) -> None:
        """The end of all: what is there, and what each reader saw."""
        log = readers.whole_log(self.directory)
        seen = [*self.histories, *map(self.driver.history, Isolation)]
        for history in (log, *seen):
            histories.check_order(history)
        for writer in (*PRODUCERS, b"spark", writers.JAVA):
            histories.check_once(log, writer)
        for history in seen:
            histories.check_same(history, log)
        histories.check_counters(log)
        self._check_acknowledged(log)
        for history in seen:
            if history.isolation is Isolation.READ_COMMITTED:
                self._check_transactions(history)

    def _check_acknowledged(self, log: History) -> None:
        told, acknowledged = self.told, 0
        for name in PRODUCERS:
            acknowledged += histories.check_acknowledged(log, name, told.acknowledged[name])
        written = histories.numbers_of(log, b"spark")
        assert written == [*range(len(written))], "Spark's rows are missing in part"
        acknowledged += histories.check_acknowledged(log, b"spark", range(self.driver.written))
        told.notes["records acknowledged"] += acknowledged
        self._check_transactions(log)

    def _check_transactions(self, history: History) -> None:
        """Each is there whole or not at all, as it was answered."""
        found = histories.numbers_of(history, writers.JAVA)
        whole = {number // writers.RECORDS for number in found}
        expected = [t * writers.RECORDS + index for t in sorted(whole) for index in range(writers.RECORDS)]
        assert found == expected, f"{history.reader}: transactions are there in part"
        missing, aborted = self.told.committed - whole, self.told.aborted & whole
        assert not missing, f"{history.reader}: committed, but missing: {sorted(missing)[:5]}"
        assert not aborted, f"{history.reader}: aborted, but there: {sorted(aborted)[:5]}"


def live(
    run: Run,
    chance: Random,
    directory: Path,
    *,
    serving: Callable[[Path], AbstractContextManager[Sequence[Server]]] = kills.one_server,
    disturb: Disturb = kills.kill,
    pause_s: tuple[float, float] = PAUSE_S,
) -> None:
    """A directory's life. ``pause_s``: between two times that a gateway or the driver is disturbed, from and to."""
    world = World(directory, chance)
    with ExitStack() as stack:
        servers = stack.enter_context(serving(directory))
        address = ",".join(each.bootstrap for each in servers)
        world.driver.start()
        stack.callback(world.driver.kill)
        working, reading = world.clients(address)
        for client in (*working, *reading):
            client.start()
        _harass(run, world, chance, lambda: disturb(servers, chance, run), pause_s)
        assert not world.told.faults, world.told.faults[:3]
        finish(working, ENDS_S)
        new_transactional(address, writers.TRANSACTIONAL_ID)  # ends what was left open
        world.driver.finish()
        finish(reading, ENDS_S)
    assert not world.told.faults, world.told.faults[:3]
    for server in servers:
        server.check_log()
    world.check()
    world.told.note(run)
    run.note("rows of Spark's", world.driver.written)


def _harass(run: Run, world: World, chance: Random, disturb: Callable[[], None], pause_s: tuple[float, float]) -> None:
    """Disturbs the gateways and kills the driver until that was done often enough, or there is a fault."""
    until_s, spares_s = time.monotonic() + LIFE_S, chance.uniform(*DRIVER_S)
    while not (run.enough or world.told.faults) and time.monotonic() < until_s:
        time.sleep(chance.uniform(*pause_s))
        assert world.driver.failure is None, world.driver.failure
        now_s = time.monotonic()
        if world.driver.told_s and now_s - world.driver.told_s > spares_s:
            spares_s = chance.uniform(*DRIVER_S)
            world.driver.kill()
            world.driver.start()
            world.told.notes["drivers killed"] += 1
        else:
            disturb()
            world.told.notes["gateways disturbed"] += 1
        run.passed()


def run(run: Run) -> None:
    for case in run.cases():
        with run.watching(case, "a directory's life"):
            live(run, case.chance, run.directory / f"{case.number}")


SUITE = Suite("kills", 60, run)
