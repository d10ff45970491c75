"""A query as the sink runs one: each batch is a transaction, and what it did is in the group's offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.filesystem.port import FileSystem
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.groups.coordinator_port import GroupRecords, TransactionalOffsets
from pyspark_commitlog.storage.groups.offsets import CommittedOffset, GroupOffsets
from pyspark_commitlog.storage.transactions.coordinator import TransactionCoordinator
from pyspark_commitlog.storage.transactions.producer_ids import FIRST_PRODUCER_ID, PRODUCER_IDS_FILE
from pyspark_commitlog.storage.transactions.transaction import Transaction, TransactionPart
from pyspark_commitlog.storage.transactions.writer import TransactionalWriter
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import committed, records

APP = "app"
TOPIC = "t"
PARTITIONS = ((TOPIC, 0), (TOPIC, 1))
SINK = ("__sink.t", 0)  # what the group commits
SMALL = {"segment.index.bytes": "1000"}  # ten megabytes would be copied for each crash


def encoded(*values: bytes) -> v2.EncodedBatches:
    """Records as a task encodes them."""
    return v2.encode_batches(records(list(values)), v2.BatchFields(), batch_bytes_max=200)


def manage(disk: MemoryFileSystem) -> LogManager:
    """As another process opens the directory."""
    return LogManager.open("/logs", create=True, clock=disk.clock, filesystem=disk)


def make_topics(disk: MemoryFileSystem, **configs: str) -> None:
    """A topic of two partitions, and internal ones of one each."""
    with manage(disk) as manager:
        manager.create_topic(TOPIC, partitions=2, configs={**SMALL, **configs})
        for internal in ("__consumer_offsets", "__transaction_state"):
            manager.create_topic(internal, partitions=1, configs={**SMALL, "cleanup.policy": "compact"})


def values_of(batch: int, partition: int) -> list[bytes]:
    """What a batch holds for a partition; some of it spans several blocks of a disk."""
    return [b"%d.%d.%d" % (batch, partition, n) + b"." * (150 * n) for n in range(3)]


def content(manager: LogManager, partition: int) -> list[bytes | None]:
    """What a reader of committed records sees."""
    return [value for _, value in committed(manager.open_reader(TOPIC, partition))]


def expected(partition: int, batches: Sequence[int]) -> list[bytes]:
    return [value for batch in batches for value in values_of(batch, partition)]


@dataclass
class Query:
    """A driver and its tasks, as processes that can be killed together."""

    filesystem: FileSystem
    manager: LogManager
    tasks: LogManager
    acknowledged: int = 0  # batches
    leaves_syncs: bool = False  # its tasks leave to the commit what they may
    coordinator: TransactionCoordinator = field(init=False)

    @classmethod
    def on(cls, disk: MemoryFileSystem) -> Self:
        return cls(disk, manage(disk), manage(disk))

    def start(self) -> Self:
        self.coordinator = TransactionCoordinator.open(self.manager, APP, holder="a query")
        return self

    def done(self) -> int:
        """How many batches the group says are done."""
        return GroupOffsets(self.manager).fetch(APP).get(SINK, CommittedOffset(0)).offset

    def begin(self) -> Transaction:
        self.coordinator.recover()
        return self.coordinator.begin(PARTITIONS, groups=[APP])

    def write(self, transaction: Transaction, batch: int) -> list[TransactionPart]:
        """The tasks, one after the other: each writes a part of each partition."""
        parts = []
        partitions = PARTITIONS if self.leaves_syncs else ()
        unsynced = {
            partition: self.manager.open_log(*partition).segments.active.base_offset for partition in partitions
        }
        for half in (slice(0, 1), slice(1, 3)):
            writer = TransactionalWriter(self.tasks, transaction, unsynced=unsynced)
            for topic, partition in PARTITIONS:
                values = values_of(batch, partition)[half]
                writer.append(topic, partition, encoded(*values))
                parts.append(TransactionPart(topic, partition, len(values)))
            writer.sync()
        return parts

    def commit(self, transaction: Transaction, batch: int, parts: list[TransactionPart]) -> None:
        self.coordinator.commit(transaction, parts, {APP: {SINK: CommittedOffset(batch + 1)}})
        self.acknowledged = batch + 1

    def run_batch(self, batch: int) -> None:
        transaction = self.begin()
        self.commit(transaction, batch, self.write(transaction, batch))
        self.coordinator.checkpoint()

    def abort_batch(self, batch: int) -> None:
        """A batch whose last task failed."""
        transaction = self.begin()
        self.write(transaction, batch)
        self.coordinator.abort(transaction)

    def run(self, batches: int) -> Self:
        """Whatever is not done yet, up to so many batches."""
        self.start()
        for batch in range(self.done(), batches):
            self.run_batch(batch)
        return self

    def stop(self) -> None:
        self.coordinator.close()
        self.manager.close()
        self.tasks.close()


def clock_of(disk: MemoryFileSystem) -> ManualClock:
    """The clock of a disk, to set it forward."""
    assert isinstance(disk.clock, ManualClock)
    return disk.clock


def set_back_producer_ids(disk: MemoryFileSystem) -> None:
    """As after a restored backup: the next producer id is the first of all."""
    with disk.open(file_names.join("/logs", PRODUCER_IDS_FILE), "create") as file:
        file.truncate(0)
        file.write(0, b'{"version": 1, "next_producer_id": %d}' % FIRST_PRODUCER_ID)


def write_transactional(groups: GroupRecords, *write: Any) -> None:
    """Writes offsets in a transaction, as :class:`TransactionalOffsets` has them; raises the error."""
    (error,) = groups.write_transactional([TransactionalOffsets(*write)])
    if error is not None:
        raise error
