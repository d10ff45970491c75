"""GroupThreads: the coordinator's thread, and the thread in which it reads and writes."""

from __future__ import annotations

from collections.abc import Callable

from ...storage import BucketGroups, ClientTransactions, CoordinatedGroups, GroupRecords, GroupsInUse, LogManager
from ..cluster.homes import Homes
from ..config import GatewayConfig
from ..consumer_groups.partitions import Catalog
from ..consumer_groups.settings import SettingsOf, no_settings
from ..threads.disk import DiskWorker
from ..threads.worker import Worker
from .coordinator import GroupCoordinator
from .store import GroupStore


class GroupThreads:
    """The coordinator of groups in its thread."""

    def __init__(
        self,
        config: GatewayConfig,
        manager: LogManager,
        open_manager: Callable[[], LogManager],
        homes: Homes,
        transactions: ClientTransactions | None = None,
        catalog: Callable[[], Catalog] = dict,
        *,
        settings_of: SettingsOf = no_settings,
    ) -> None:
        """``manager``: only its clock and its locks are used.

        ``open_manager`` opens another one for the thread that reads and writes. ``homes``: which groups this node
        coordinates. ``transactions``: the transactions of a log on an object store. ``catalog`` returns the
        topics that groups of Kafka 4 can read, ``settings_of`` the settings of a group; both for any thread.
        """
        self.homes = homes
        self._home = Worker("gateway-groups")
        self._disk = DiskWorker(
            "gateway-offsets",
            lambda: _records(open_manager(), config.offsets_topic_num_partitions, transactions),
            lambda records: records.close(),
        )
        store = GroupStore(self._disk, self._home, config.offsets_commit_timeout_ms)
        self._in_use = GroupsInUse(manager)
        self._coordinator = GroupCoordinator(
            *(config, manager.clock, self._home, store),
            homes=homes,
            in_use=self._in_use,
            catalog=catalog,
            settings_of=settings_of,
        )

    def start(self) -> None:
        """Starts the threads; they begin by loading all groups."""
        self._disk.start()
        self._home.start()
        self.run(lambda coordinator: coordinator.load())

    def run(self, task: Callable[[GroupCoordinator], None], *, is_patient: bool = False) -> None:
        """Runs ``task`` in the coordinator's thread, after earlier tasks. For any thread.

        ``is_patient``: after all other tasks, as in :meth:`Worker.run_patient`.
        """
        run = self._home.run_patient if is_patient else self._home.run
        run(lambda: task(self._coordinator))

    def give_up(self) -> None:
        """Answers all waiting requests with an error, and refuses new ones. For any thread."""
        self.run(lambda coordinator: coordinator.stop())

    def stop(self) -> None:
        """Completes the pending writes, and ends the threads."""
        self._disk.stop()
        self._home.stop()
        self._in_use.close()


def _records(manager: LogManager, partitions: int, transactions: ClientTransactions | None) -> GroupRecords:
    """Returns the records of groups; ``partitions``: of ``__consumer_offsets``, if it must be created."""
    return (
        CoordinatedGroups(manager, partitions=partitions)
        if transactions is None
        else BucketGroups(manager, transactions)
    )
