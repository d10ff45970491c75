"""TransactionThreads: the coordinator's thread, and the thread in which it reads and writes."""

from __future__ import annotations

from collections.abc import Callable

from ...storage import ClientTransactions, Clock, LogManager
from ..cluster.homes import Homes
from ..config import GatewayConfig
from ..partitions.appending import Appending
from ..partitions.open_partitions import Partitions
from ..threads.disk import DiskWorker
from ..threads.worker import Worker
from .bucket_states import BucketEnds, BucketStates
from .coordinator import TransactionCoordinator
from .gate import Gate
from .ids import HeldIds
from .markers import Markers
from .store import OthersStates, States, StoredStates, TransactionStore


class TransactionThreads:
    """The coordinator of transactions in its thread, and the gate that it keeps."""

    def __init__(
        self,
        config: GatewayConfig,
        clock: Clock,
        open_manager: Callable[[], LogManager],
        partitions: Partitions,
        appender: Appending,
        homes: Homes,
        transactions: ClientTransactions | None = None,
    ) -> None:
        """``open_manager`` is called in the thread that uses the manager.

        ``homes``: which ids this node coordinates. ``transactions``: the transactions of a log on an object store.
        """
        self.homes = homes
        self._others = OthersStates(open_manager)
        self.gate = Gate(homes, self._others.newest)
        self._home = Worker("gateway-transactions")
        self._ends = None if transactions is None else BucketEnds(transactions)

        def states() -> States:
            if transactions is None:
                return StoredStates(open_manager(), config)
            return BucketStates(open_manager(), transactions, config.offsets_topic_num_partitions)

        self._disk: DiskWorker[States] = DiskWorker("gateway-transaction-states", states, lambda opened: opened.close())
        ids = HeldIds(clock, self._home, TransactionStore(self._disk, self._home), self.gate, homes)
        self._coordinator = TransactionCoordinator(
            config, ids, self._ends or Markers(partitions, appender, self._home.run)
        )

    def start(self) -> None:
        """Starts the threads; they begin by ending abandoned transactions."""
        if self._ends is not None:
            self._ends.start()
        self._disk.start()
        self._home.start()
        self.run(lambda coordinator: coordinator.look())

    def run(self, task: Callable[[TransactionCoordinator], None], *, is_patient: bool = False) -> None:
        """Runs ``task`` in the coordinator's thread, after earlier tasks. For any thread.

        ``is_patient``: after all other tasks, as in :meth:`Worker.run_patient`.
        """
        run = self._home.run_patient if is_patient else self._home.run
        run(lambda: task(self._coordinator))

    def give_up(self) -> None:
        """Refuses all later requests. For any thread."""
        self.run(lambda coordinator: coordinator.stop())

    def stop(self) -> None:
        """Completes the pending writes, releases all locks, and ends the threads."""
        if self._ends is not None:
            self._ends.stop()
        self._home.stop()
        self._disk.stop()
        self._others.close()
