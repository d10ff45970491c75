"""Context: what handlers of requests work with."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ..protocol import ErrorCode, code_of
from ..registry import Registry
from ..storage import Clock, CorruptionError, LogManager
from .cluster import Cluster
from .config import GatewayConfig
from .figures import Figures
from .groups import GroupThreads
from .listeners import EVERYWHERE, Address
from .network import AnswerMemory
from .partitions import Appending, LedPartition, Partitions, Topics
from .producer_ids import ProducerIds
from .request import Request
from .security import RulesFile
from .threads import Counted, DiskWorker, FairWorker, Worker
from .transactions import TransactionThreads

T = TypeVar("T")

TEXT_CHARACTERS_MAX = 200  # of what a client calls itself, in a line of the log
A_TURN_S = 0.02  # of one request in a thread that others wait for

logger = logging.getLogger(__name__)


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

    def answer_each(
        self,
        request: Request,
        items: Sequence[Any],
        task: Callable[[LogManager, Any], T],
        body: Callable[[Sequence[T]], Mapping[str, Any]],
    ) -> None:
        """Like :meth:`answer`, with the body of the results of ``task`` for each item; others have turns in between."""
        _Turn(self, request, items, task, body).start()


class _Turn(Generic[T]):
    """A request whose items are worked on a few at a time."""

    def __init__(
        self,
        worker: ManagerWorker,
        request: Request,
        items: Sequence[Any],
        task: Callable[[LogManager, Any], T],
        body: Callable[[Sequence[T]], Mapping[str, Any]],
    ) -> None:
        self._worker, self._request, self._items, self._task, self._body = worker, request, items, task, body
        self._done: list[T] = []

    def start(self) -> None:
        self._worker.run(self._request.or_fail(self._go_on))

    def _go_on(self) -> None:
        until_s = time.monotonic() + A_TURN_S
        for item in self._items[len(self._done) :]:
            self._done.append(self._task(self._worker.opened, item))
            if time.monotonic() > until_s:
                break
        if len(self._done) == len(self._items):
            self._request.answer(self._body(self._done))
        else:
            self.start()


class Workers:
    """The threads of requests that wait for the disk, for ZooKeeper, or that take long."""

    def __init__(self, open_manager: Callable[[], LogManager], config: GatewayConfig) -> None:
        """``open_manager`` is called in the threads that use the managers."""
        self.admin = ManagerWorker("gateway-admin", open_manager)  # changes topics
        self.configs = ManagerWorker("gateway-configs", open_manager)  # reads configs
        self.ids = ManagerWorker("gateway-ids", open_manager)  # reserves producer ids, which producers wait for
        self.creations = ManagerWorker("gateway-creations", open_manager)  # creates many partitions, which takes long
        self.lookups = ManagerWorker("gateway-lookups", open_manager)  # searches by time
        self.logins = Worker("gateway-logins")  # answers tokens, as far as that is quick
        self.passwords = FairWorker("gateway-passwords", config.commitlog_login_queued_max_requests)  # hashes them
        self.checks = FairWorker("gateway-checks", config.queued_max_requests)  # decompresses much for a check
        self.conversions = FairWorker("gateway-conversions", config.queued_max_requests)  # for clients before 0.11
        self.registrar = Worker("gateway-registrar")  # waits for the registry
        managing = self.admin, self.configs, self.ids, self.creations, self.lookups
        self._all: Sequence[Worker] = (*managing, self.logins, self.registrar)
        self._fair = self.passwords, self.checks, self.conversions

    def start(self) -> None:
        """Starts the threads."""
        for worker in self._all:
            worker.start()
        for fair in self._fair:
            fair.start()

    def stop(self) -> None:
        """Ends the threads, after what was given to them."""
        for worker in reversed(self._all):
            worker.stop()
        for fair in self._fair:
            fair.stop()


@dataclass
class Context:
    """The objects that handlers share. All of them may be used from any thread."""

    config: GatewayConfig
    cluster_id: str
    clock: Clock
    log_dir: str  # or the URL of a log on an object store
    is_remote: bool  # whether reading records waits for an object store
    answers: AnswerMemory  # that has records which were read from one
    listening: Mapping[str, Address]  # where each listener does, by its name
    topics: Topics
    partitions: Partitions
    appender: Appending
    workers: Workers
    large: Executor  # serves requests with many entries, and writes answers with many, so that others need not wait
    cold: Executor  # does what takes long: reads from an object store, checks while code is being compiled
    figures: Figures
    rules: RulesFile | None  # None: everyone may do everything
    cluster: Cluster
    registry: Registry  # waits for the disk or for ZooKeeper: not for the threads of connections
    groups: GroupThreads
    transactions: TransactionThreads
    producer_ids: ProducerIds = field(default_factory=ProducerIds)  # only for ``workers.ids``
    refusals: Counted = field(default_factory=lambda: Counted(logger))  # logs why clients are refused

    @property
    def log_path(self) -> str:
        """The log directory as clients see it: an absolute path, or a URL."""
        return self.log_dir if self.is_remote else os.path.abspath(self.log_dir)

    def code_of(self, error: Exception) -> ErrorCode:
        """Returns the code for the error of a partition; damage is logged, and in the metrics, by file and position."""
        if isinstance(error, CorruptionError):
            self.figures.found_damage(error)
        return code_of(error)

    def when_free(
        self, request: Request, led: Iterable[LedPartition | Exception], answer: Callable[[Request], None]
    ) -> None:
        """Calls ``answer``, which uses these partitions: in another thread if one is in use, perhaps for long."""
        if any(isinstance(each, LedPartition) and each.is_busy for each in led):
            self.cold.submit(request.or_fail(answer), request)
        else:
            answer(request)

    def answer(self, request: Request, body: Mapping[str, Any], entries: int) -> None:
        """Answers a request with a body of about so many entries: in another thread if they are many."""
        self.answer_with(request, lambda: body, entries)

    def answer_with(self, request: Request, body: Callable[[], Mapping[str, Any]], entries: int) -> None:
        """Like :meth:`answer`, with what ``body`` returns."""
        if entries <= request.limits.entries_here:
            request.answer(body())
        else:
            self.large.submit(request.or_fail(lambda: request.answer(body())))

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
