"""A coordinator of transactions without threads or sockets: each request is served to its end, on any disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from pyspark_commitlog.gateway.cluster.homes import Homes
from pyspark_commitlog.gateway.config import GatewayConfig
from pyspark_commitlog.gateway.partitions.appending import Soon
from pyspark_commitlog.gateway.partitions.file_partition import FilePartition
from pyspark_commitlog.gateway.threads.worker import Task
from pyspark_commitlog.gateway.transactions.coordinator import TransactionCoordinator
from pyspark_commitlog.gateway.transactions.gate import Gate
from pyspark_commitlog.gateway.transactions.ids import HeldIds
from pyspark_commitlog.gateway.transactions.markers import Markers
from pyspark_commitlog.gateway.transactions.store import OthersStates, StoredStates, TransactionStore
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.protocol.errors import RequestError
from pyspark_commitlog.storage import (
    AppendInfo,
    FileSystem,
    Log,
    LogManager,
    LogStoreError,
    Producer,
    TopicPartition,
    check_batch,
)
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs import building
from tests.support.logs.transactions import APP, TOPIC


class _Home:
    is_patient = False

    def __init__(self) -> None:
        self.tasks: deque[Task] = deque()
        self.delayed: list[Task] = []

    def run(self, task: Task) -> None:
        self.tasks.append(task)

    def later(self, delay_s: float, task: Task) -> None:
        """Nothing is done later, unless a test does it: most look themselves."""
        self.delayed.append(task)


class _Disk(NamedTuple):
    run: Callable[[Task], None]
    run_patient: Callable[[Task], None]
    opened: StoredStates


class _Served:
    """Partitions that are open, and an appender that does everything at once."""

    def __init__(self, manager: LogManager) -> None:
        self._manager = manager
        self._led: dict[TopicPartition, FilePartition] = {}

    def one(self, partition: TopicPartition) -> FilePartition:
        if partition not in self._led or not self._led[partition].is_usable:
            self._led[partition] = FilePartition(*partition, self._manager.open_log(*partition))
        return self._led[partition]

    def led(
        self, wanted: Collection[TopicPartition], *, by_any: bool = False
    ) -> dict[TopicPartition, FilePartition | Exception]:
        found: dict[TopicPartition, FilePartition | Exception] = {}
        for each in wanted:
            try:
                found[each] = self.one(each)
            except (LogStoreError, OSError) as error:
                found[each] = error
        return found

    def change(
        self, led: FilePartition, change: Callable[[Log], object], done: Callable[[Any], None], soon: Soon | None = None
    ) -> None:
        try:
            (error,) = led.change([change])
            led.sync()
        except LogStoreError as failure:
            error = failure
        done(error)


class Bench:
    """A gateway's transactions on a disk with the topics of ``tests.support.logs.transactions``."""

    def __init__(
        self,
        disk: MemoryFileSystem,
        filesystem: FileSystem | None = None,
        homes: Homes | None = None,
        **settings: Any,
    ) -> None:
        """``homes``: which ids it coordinates; None: all."""

        def manager() -> LogManager:
            return LogManager.open("/logs", clock=disk.clock, filesystem=filesystem or disk)

        self._others = OthersStates(manager)
        self.gate = Gate(homes, self._others.newest)
        self._home = _Home()
        self._served = _Served(manager())
        self._states = StoredStates(manager())
        store = TransactionStore(_Disk(self._home.run, self._home.run, self._states), self._home)
        ids = HeldIds(disk.clock, self._home, store, self.gate, homes)
        markers = Markers(self._served, self._served)  # type: ignore[arg-type]
        self.coordinator = TransactionCoordinator(GatewayConfig(**settings), ids, markers)
        self._sequences: dict[tuple[Producer, TopicPartition], int] = {}

    def serve(self) -> None:
        """Does all that there is to do."""
        while self._home.tasks:
            self._home.tasks.popleft()()

    def serve_later(self) -> None:
        """Does what was to be done later, and what follows."""
        delayed, self._home.delayed = self._home.delayed, []
        for task in delayed:
            task()
        self.serve()

    @property
    def waiting(self) -> int:
        """How many tasks wait for the disk or the coordinator."""
        return len(self._home.tasks)

    def look(self) -> None:
        """Looks for what is late or was left."""
        self.coordinator.look()
        self.serve()

    def init(self, expected: Producer | None = None, timeout_ms: int = 60_000) -> tuple[ErrorCode, Producer | None]:
        answers: list[tuple[ErrorCode, Producer | None]] = []
        self.coordinator.init_producer_id(APP, timeout_ms, expected, lambda *answer: answers.append(answer))
        self.serve()
        return answers[0]

    def add(self, producer: Producer, *partitions: int) -> ErrorCode:
        wanted = [TopicPartition(TOPIC, each) for each in partitions]
        return self._answer(lambda done: self.coordinator.add_partitions(APP, producer, wanted, done))

    def end(self, producer: Producer, *, commit: bool = True) -> ErrorCode:
        return self._answer(lambda done: self.coordinator.end(APP, producer, done, commit=commit))

    def _answer(self, ask: Callable[[Callable[[ErrorCode], None]], None]) -> ErrorCode:
        answers: list[ErrorCode] = []
        ask(answers.append)
        self.serve()
        (answer,) = answers
        return answer

    def append(self, producer: Producer, partition: int, *values: bytes) -> ErrorCode:
        """Appends a batch as Produce does, synced."""
        place = TopicPartition(TOPIC, partition)
        sequence = self._sequences.get((producer, place), 0)
        data = building.batch(
            *values,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        led = self._served.one(place)
        batch = check_batch(data.tobytes(), led.config)
        (result,) = led.append([batch], [lambda: self.gate.check(APP, producer, place)])
        if isinstance(result, RequestError):
            return result.code
        assert isinstance(result, AppendInfo), result
        led.sync()
        self._sequences[producer, place] = sequence + len(values)
        return ErrorCode.none

    def transaction(self, producer: Producer, *values: bytes, commit: bool = True) -> list[ErrorCode]:
        """A transaction with a record of each value in both partitions; the answers."""
        answers = [self.add(producer, 0), self.add(producer, 1)]
        answers += [self.append(producer, partition, *values) for partition in (0, 1)]
        return [*answers, self.end(producer, commit=commit)]

    def state(self) -> str:
        """The state of the id."""
        value = self._states.newest(APP)
        return "" if value is None else f"{value.transaction_status.name} {value.producer_epoch}"

    def close(self) -> None:
        """Releases the locks, and closes the managers."""
        self._others.close()
        self._states.close()
        self._served._manager.close()
