"""A log with a tier, both of which lose power and requests, and its twin without a tier, which loses nothing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random

from pyspark_commitlog.storage import MaintenanceRun, TopicPartition, in_this_process, select_partitions
from pyspark_commitlog.storage.bucket.stores.port import ObjectFacts
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.maintenance.partitions import retain_partitions
from pyspark_commitlog.storage.maintenance.run import ConfigOverrides
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.remote_metadata.topic import CONFIGS, MetadataTopic
from pyspark_commitlog.storage.tiering.copying import copy_to_tier
from pyspark_commitlog.storage.tiers.address import tier_address
from pyspark_commitlog.storage.tiers.files.filesystem import TieredFiles
from pyspark_commitlog.storage.tiers.opening import open_tier
from pyspark_commitlog.storage.writing.log import Log
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem, PowerCut
from tests.support.logs.building import NOW_MS, batch, end_transaction, rows
from tests.support.stores.memory_store import MemoryStore
from tests.torture.tiers.faults import BadDay

PLACE = TopicPartition("t", 0)
PRODUCERS = (7, 8, 9)
SMALL = {"segment.index.bytes": "120"}
Rows = list[tuple[int, bytes | None]]
Views = dict[Isolation, Rows]


def manager_of(disk: MemoryFileSystem, directory: str = "/logs") -> LogManager:
    return LogManager.open(directory, clock=ManualClock(NOW_MS), filesystem=disk, create=True)


def views_of(manager: LogManager, topic: str = "t", start: int = 0) -> Views:
    """What readers see from an offset on."""
    with manager.open_reader(topic, 0) as reader:
        return {each: [row for row in rows(reader, each) if row[0] >= start] for each in Isolation}


class World:
    """One log; ``chance`` draws all that happens to it."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.store, self.deleted = MemoryStore(), list[ObjectFacts]()
        self.disk, self.twin = (MemoryFileSystem(ManualClock(NOW_MS)) for _ in range(2))
        self.log_start = 0  # what DeleteRecords asked for, and retention has reached
        self.is_bounded = chance.random() < 0.4  # by retention.bytes
        self._sequences, self._open = dict.fromkeys(PRODUCERS, 0), set[int]()
        self._written = 0
        bound = {"retention.bytes": str(chance.choice((400, 1000)))} if self.is_bounded else {}
        tiered = {"remote.storage.enable": "true", "local.retention.bytes": str(chance.choice((1, 200)))}
        for disk, configs in ((self.disk, {**tiered, **bound}), (self.twin, {})):
            with manager_of(disk) as manager:
                manager.create_topic("__remote_log_metadata", partitions=1, configs=CONFIGS | SMALL)
                manager.create_topic("t", partitions=1, configs={"retention.ms": "-1", **SMALL, **configs})
        self.disk = self.disk.crash(0, unsynced="kept")

    # What clients do: acknowledged, so nothing of it may be lost

    def write(self) -> None:
        chance = self.chance
        producer = chance.choice((-1, *PRODUCERS))
        values = [b"%d" % n for n in range(self._written, self._written + chance.randint(1, 3))]
        self._written += len(values)
        codec = chance.choice([*Codec])
        if producer < 0:
            self._on_both(lambda log: log.append(batch(*values, codec=codec)))
            return
        first, is_transaction = self._sequences[producer], producer in self._open or chance.random() < 0.6
        self._sequences[producer] += len(values)
        if is_transaction:
            self._open.add(producer)
        fields = {"producer_id": producer, "base_sequence": first, "producer_epoch": 0}
        self._on_both(
            lambda log: log.append(batch(*values, codec=codec, transactional=is_transaction, **fields))  # type: ignore[arg-type]
        )

    def end(self) -> None:
        if self._open:
            producer, commit = self.chance.choice(sorted(self._open)), self.chance.random() < 0.5
            self._open.discard(producer)
            self._on_both(lambda log: end_transaction(log, producer, commit=commit))

    @property
    def has_open_transactions(self) -> bool:
        return bool(self._open)

    def end_all(self) -> None:
        while self._open:
            self.end()

    def roll(self) -> None:
        self._on_both(lambda log: log.roll())

    def delete_records(self) -> None:
        with manager_of(self.twin) as manager:
            end = manager.open_log(*PLACE).last_stable_offset
        offset = self.chance.randint(self.log_start, max(self.log_start, end // 2))
        with manager_of(self.disk) as manager:
            manager.open_log(*PLACE, reports_remote=False).delete_records(offset)
        self.log_start = max(self.log_start, offset)
        self.disk = self.disk.crash(0, unsynced="lost")

    def _on_both(self, change: Callable[[Log], object]) -> None:
        for disk in (self.disk, self.twin):
            with manager_of(disk) as manager:
                log = manager.open_log(*PLACE, reports_remote=False)
                change(log)
                log.sync()

    # What maintenance does: at any moment the power goes, or the store fails

    def copy(self, store: BadDay | MemoryStore) -> None:
        with manager_of(self.disk) as manager:
            log = manager.open_log(*PLACE, reports_remote=False)
            copy_to_tier(manager, store, log, PLACE, MetadataTopic(manager))

    def retain(self) -> None:
        run = MaintenanceRun("/logs", filesystem=self.disk, clock=ManualClock(NOW_MS))
        with run.manager() as manager:
            selection = select_partitions(manager, ["t"], ConfigOverrides())
        for outcome in retain_partitions(run, selection, in_this_process):
            assert outcome.status.value == "done", str(outcome)

    def with_power_cut(self, work: Callable[[], None], store: BadDay | None = None) -> bool:
        """Does some work, during which the power may go, at a change of the disk or a request; returns if it went."""
        if store is not None and self.chance.random() < 0.4:
            requests = count(self.chance.randint(1, 25), -1)

            def count_down() -> None:
                if next(requests) == 0:
                    self.disk.cut_power_at(1)
                    raise PowerCut("a request")

            store.before_request = count_down
        else:
            self.disk.cut_power_at(self.chance.choice((self.chance.randint(1, 12), self.chance.randint(1, 150))))
        try:
            work()
        except PowerCut:
            unsynced = self.chance.choice(("chance", "chance", "kept", "lost"))
            self.disk = self.disk.crash(self.chance.randrange(1 << 30), unsynced=unsynced)  # type: ignore[arg-type]
            return True
        self.disk = self.disk.crash(0, unsynced="lost")  # all of it was durable
        return False

    def bad_store(self, rate: float, late: float) -> BadDay:
        return BadDay(self.store, self.chance, rate, late, self.deleted)

    # What must hold

    def shown(self, store: BadDay | MemoryStore) -> TieredFiles:
        """The log and its tier as one."""
        return TieredFiles(tier_address("memory", "/logs"), open_tier("", store=store), self.disk)

    def wanted(self, start: int) -> Views:
        with manager_of(self.twin) as manager:
            return views_of(manager, start=start)

    def check(self) -> None:
        """Both isolation levels show all records from the log start on, each once."""
        files = self.shown(self.store) if self.store.objects else self.disk
        with LogManager.open("/logs", clock=ManualClock(NOW_MS), filesystem=files) as manager:
            with manager.open_reader(*PLACE) as reader:
                start = reader.log_start_offset
            assert views_of(manager) == self.wanted(start)
        assert start >= self.log_start, "deleted records are back"
        assert self.is_bounded or start == self.log_start, "records are gone"
        self.log_start = start
