"""Context: what handlers of requests work with."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from ..registry import Registry
from ..storage import Clock, LogManager
from .cluster import Cluster
from .config import GatewayConfig
from .figures import Figures
from .groups import GroupThreads
from .listeners import EVERYWHERE, Address
from .partitions import Appending, LedPartition, Partitions, Topics
from .producer_ids import ProducerIds
from .request import Request
from .security import RulesFile
from .threads import DiskWorker, FairWorker, Worker
from .transactions import TransactionThreads


class ManagerWorker(DiskWorker[LogManager]):
    """A worker with its own log manager, for requests that may take long: changes of topics, searches by time."""

    def __init__(self, name: str, open_manager: Callable[[], LogManager]) -> None:
        super().__init__(name, open_manager, LogManager.close)

    def answer(self, request: Request, task: Callable[[LogManager], Mapping[str, Any]]) -> None:
        """Answers ``request`` with the result of ``task``, which runs in the worker's thread, or with its error."""

        def run() -> None:
            try:
                request.answer(task(self.opened))
            except Exception as error:
                request.fail(error)

        self.run(run)


class Workers:
    """The threads of requests that wait for the disk, for ZooKeeper, or that take long."""

    def __init__(self, open_manager: Callable[[], LogManager], config: GatewayConfig) -> None:
        """``open_manager`` is called in the threads that use the managers."""
        self.admin = ManagerWorker("gateway-admin", open_manager)  # changes topics
        self.creations = ManagerWorker("gateway-creations", open_manager)  # creates many partitions, which takes long
        self.lookups = ManagerWorker("gateway-lookups", open_manager)  # searches by time
        self.logins = Worker("gateway-logins")  # answers tokens, as far as that is quick
        self.passwords = FairWorker("gateway-passwords", config.commitlog_login_queued_max_requests)  # hashes them
        self.registrar = Worker("gateway-registrar")  # waits for the registry
        self._all = self.admin, self.creations, self.lookups, self.logins, self.registrar

    def start(self) -> None:
        """Starts the threads."""
        for worker in self._all:
            worker.start()
        self.passwords.start()

    def stop(self) -> None:
        """Ends the threads, after what was given to them."""
        for worker in reversed(self._all):
            worker.stop()
        self.passwords.stop()


@dataclass
class Context:
    """The objects that handlers share. All of them may be used from any thread."""

    config: GatewayConfig
    cluster_id: str
    clock: Clock
    log_dir: str  # or the URL of a log on an object store
    is_remote: bool  # whether reading records waits for an object store
    listening: Mapping[str, Address]  # where each listener does, by its name
    topics: Topics
    partitions: Partitions
    appender: Appending
    workers: Workers
    cold: Executor  # does what takes long: reads from an object store, checks while code is being compiled
    figures: Figures
    rules: RulesFile | None  # None: everyone may do everything
    cluster: Cluster
    registry: Registry  # waits for the disk or for ZooKeeper: not for the threads of connections
    groups: GroupThreads
    transactions: TransactionThreads
    producer_ids: ProducerIds = field(default_factory=ProducerIds)  # only for ``workers.admin``

    @property
    def log_path(self) -> str:
        """The log directory as clients see it: an absolute path, or a URL."""
        return self.log_dir if self.is_remote else os.path.abspath(self.log_dir)

    def when_free(
        self, request: Request, led: Iterable[LedPartition | Exception], answer: Callable[[Request], None]
    ) -> None:
        """Calls ``answer``, which uses these partitions: in another thread if one is in use, perhaps for long."""
        if any(isinstance(each, LedPartition) and each.is_busy for each in led):
            self.cold.submit(request.or_fail(answer), request)
        else:
            answer(request)

    def address_for(self, request: Request) -> Address:
        """Returns the address for a client to connect to: that of the listener that it is connected to."""
        name = request.listener
        advertised = self.config.advertised.get(name)
        if advertised is not None:
            return advertised
        host, port = self.listening[name]
        return Address(request.local_host if host in EVERYWHERE else host, port)  # everywhere: as the client found us


Handler = Callable[[Request, Context], Mapping[str, Any] | None]
"""Answers a request: returns the body, or None if it has answered or will. Raises NotOpenError to be called again once
the partitions are open, before it has changed anything."""
