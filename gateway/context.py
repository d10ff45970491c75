"""Context: the objects that request handlers share."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ..protocol.bodies import ErrorCode
from ..protocol.errors import RequestError, code_of
from ..registry.port import Registry
from ..storage import Address, Clock, CorruptionError, LogManager
from .cluster.cluster import Cluster
from .config import GatewayConfig
from .fetch_sessions import FetchSessions
from .figures import Figures
from .groups.threads import GroupThreads
from .listeners import EVERYWHERE
from .live_settings import LiveSettings
from .network.limits.memory import AnswerMemory
from .partitions.appending import Appending
from .partitions.led_partition import LedPartition
from .partitions.open_partitions import Partitions
from .partitions.topics import Topics
from .producer_ids import ProducerIds
from .quotas.entities import CONTROLLER_MUTATION_RATE
from .quotas.store import QuotaStore
from .quotas.throttle import Throttle
from .request import Request
from .security.rule_store import RuleStore
from .security.users import UsersFile
from .threads.counted import Counted
from .threads.disk import DiskWorker
from .threads.fair import FairWorker
from .threads.worker import Worker
from .tiers.reads import TierReads
from .transactions.threads import TransactionThreads

T = TypeVar("T")

TEXT_CHARACTERS_MAX = 200  # the length of a client's name in a line of the log
A_TURN_S = 0.02  # the time of one request in a thread that others wait for

logger = logging.getLogger(__name__)


class ManagerWorker(DiskWorker[LogManager]):
    """A worker with its own log manager, for requests that may take long: changes of topics, searches by time."""

    def __init__(self, name: str, open_manager: Callable[[], LogManager]) -> None:
        super().__init__(name, open_manager, LogManager.close)

    def answer(self, request: Request, task: Callable[[LogManager], Mapping[str, Any]]) -> None:
        """Answers ``request`` with the result of ``task``, which runs in the worker's thread, or with its error."""

        def run() -> None:
            try:
                with request.working():
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
        """Ends the threads after their queued tasks."""
        for worker in reversed(self._all):
            worker.stop()
        for fair in self._fair:
            fair.stop()


@dataclass
class Context:
    """The objects that handlers share. All of them may be used from any thread."""

    config: GatewayConfig  # what the gateway was started with
    settings: LiveSettings
    cluster_id: str
    clock: Clock
    log_dir: str  # or the URL of a log on an object store
    is_remote: bool  # whether reading records waits for an object store
    answers: AnswerMemory  # the memory for answers with records from an object store or the tier
    tier: TierReads | None  # None: the log directory has no tier
    listening: Mapping[str, Address]  # the address of each listener, by its name
    topics: Topics
    partitions: Partitions
    appender: Appending
    workers: Workers
    large: Executor  # serves requests with many entries, and writes answers with many, so that others need not wait
    cold: Executor  # runs long tasks: reads from an object store, checks while code is being compiled
    figures: Figures
    rules: RuleStore | None  # None: everyone may do everything
    users: UsersFile | None  # None: no listener has logins
    quotas: QuotaStore
    throttle: Throttle
    cluster: Cluster
    registry: Registry  # waits for the disk or for ZooKeeper: not for the threads of connections
    groups: GroupThreads
    transactions: TransactionThreads
    sessions: FetchSessions
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

    def is_limited(self, request: Request, key: str) -> bool:
        """Whether the client of a request has a quota."""
        return self.throttle.is_limited(key, *request.payer)

    def throttled_ms(self, request: Request, key: str, size: int) -> int:
        """Counts bytes of a client for its quotas; one that has exceeded them is not served for the time returned."""
        delay_s = max(self.throttle.delay_s(key, *request.payer, size), request.charged_s())
        if delay_s > 0:
            request.mute(delay_s)
        return math.ceil(delay_s * 1000)

    def mutations(self, request: Request, strict_since: int) -> Mutations:
        """Returns the counter of partitions that a request makes or deletes. ``strict_since``: see there."""
        return Mutations(self.throttle, request, is_strict=request.version >= strict_since)

    def when_free(
        self, request: Request, led: Iterable[LedPartition | Exception], answer: Callable[[Request], None]
    ) -> None:
        """Calls ``answer``, which uses these partitions; in another thread if one is in use, perhaps for long."""
        if any(isinstance(each, LedPartition) and each.is_busy for each in led):
            self.cold.submit(request.or_fail(answer), request)
        else:
            answer(request)

    def answer(self, request: Request, body: Mapping[str, Any], entries: int) -> None:
        """Answers a request with a body of about this many entries; in another thread if there are many."""
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


class Mutations:
    """Counts partitions that a request makes or deletes, for the quota ``controller_mutation_rate`` (KIP-599)."""

    def __init__(self, throttle: Throttle, request: Request, *, is_strict: bool) -> None:
        """``is_strict``: once the quota is used up, changes are refused; older versions are only slowed down."""
        self._throttle, self._request, self._is_strict = throttle, request, is_strict

    def record(self, partitions: int) -> None:
        """Counts partitions, before they are changed. Raises RequestError if that is refused."""
        payer = self._request.payer
        owed_s = self._throttle.owed_s(CONTROLLER_MUTATION_RATE, *payer)
        if self._is_strict and owed_s > 0:
            self._request.throttle(owed_s)
            raise RequestError(ErrorCode.throttling_quota_exceeded, "The throttling quota has been exceeded.")
        self._request.throttle(self._throttle.delay_s(CONTROLLER_MUTATION_RATE, *payer, partitions))


Handler = Callable[[Request, Context], Mapping[str, Any] | None]
"""Answers a request: returns the body, or None if it has answered or will. Raises NotOpenError to be called again once
the partitions are open, before it has changed anything."""
