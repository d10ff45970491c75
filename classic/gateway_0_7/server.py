"""PositionGateway: the server. It owns the threads, the sockets and the logs."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from ...gateway.network.acceptor import Acceptor, listening
from ...gateway.network.exchange import Exchange
from ...gateway.network.limits.admission import Admission, AdmissionLimits
from ...gateway.network.limits.clients import Limits, Terms
from ...gateway.network.limits.memory import RequestMemory
from ...gateway.network.limits.pace import LeastRate
from ...gateway.network.limits.quota import Quota
from ...gateway.network.limits.untaken import UntakenBytes
from ...gateway.network.processor import Processor
from ...gateway.threads.worker import Worker
from ...registry.opening import open_registry
from ...registry.port import Registry
from ...storage import Address, Clock, LogStoreError
from ..log_0_7.directory import PositionLogDirectory
from ..requests_0_7 import MalformedFrameError
from .answers import Answers
from .config import PositionGatewayConfig
from .registrations import LOOK_S, Registrations

# 0.7 has no limits of these.
REQUESTS_MAX = 500  # in progress together
MEMORY_MAX = 1 << 30  # bytes of larger requests that are being read or in progress, and of answers that wait
CONNECTIONS_MAX = 2**31 - 1
LEAST_RATE = LeastRate(bytes_per_s=16 << 10, grace_s=10.0)  # at which a request arrives
BACKLOG = 50  # connections that may wait to be accepted
FIRST_CLEANUP_S = 60.0

logger = logging.getLogger(__name__)


class PositionGateway:
    """Serves a directory of 0.7 on the protocol of 0.7; a context manager that starts and stops it.

    As in 0.7, the thread of a connection carries out its requests, one after the other.
    """

    def __init__(
        self, log_dir: str, config: PositionGatewayConfig | None = None, *, clock: Clock | None = None
    ) -> None:
        """Opens nothing before :meth:`start`, which also creates ``log_dir`` if it is missing."""
        self.config = config or PositionGatewayConfig()
        self._log_dir, self._clock = log_dir, clock
        self._stopping = ExitStack()
        self.address = self.config.listener
        self.registry: Registry | None = None  # after the start, if the settings name a ZooKeeper

    def start(self) -> None:
        """Opens the logs, recovers those that were not closed cleanly, and listens.

        Raises what :class:`PositionLogDirectory` raises, and OSError if the address is taken.
        """
        config = self.config
        with ExitStack() as starting:
            self._logs = starting.enter_context(PositionLogDirectory(self._log_dir, config.logs, clock=self._clock))
            self._answers = Answers(self._logs)
            listener = listening(
                *config.listener,
                backlog=BACKLOG,
                send_bytes=config.send_buffer_bytes,
                receive_bytes=config.receive_buffer_bytes,
            )
            starting.callback(listener.close)
            self.address = Address(config.hostname, listener.getsockname()[1])
            self._start_upkeep(starting)
            registrations = self._registrations(starting)
            admission = Admission(AdmissionLimits(most=CONNECTIONS_MAX))
            processors = self._processors(admission)
            for processor in processors:
                processor.start()
                starting.callback(processor.stop)
            acceptor = Acceptor(listener, Terms("0.7"), processors, admission)
            acceptor.start()
            starting.callback(acceptor.stop)
            if registrations is not None:
                registrations.look(config.zk_session_timeout_ms / 1000 + 1)
                _started(starting, "gateway-registrations").repeat(LOOK_S, registrations.look)
            self._stopping = starting.pop_all()

    def _processors(self, admission: Admission) -> list[Processor]:
        memory, places = RequestMemory(MEMORY_MAX), Quota(REQUESTS_MAX)
        limits = Limits(
            request_bytes_max=self.config.request_bytes_max,
            places_of=lambda *_: places,
            memory=memory,
            login_memory=memory,
            admission=admission,
            least_rate=LEAST_RATE,
            untaken=UntakenBytes(MEMORY_MAX),
        )
        return [
            Processor(f"gateway-network-{number}", self._serve, lambda _: False, limits)
            for number in range(self.config.threads)
        ]

    def _start_upkeep(self, starting: ExitStack) -> None:
        """Starts the threads that sync logs and delete old files at intervals."""
        settings = self.config.logs
        _started(starting, "gateway-flusher").repeat(settings.flush_check_ms / 1000, self._logs.sync_due)
        clean_s = settings.cleanup_interval_mins * 60.0
        _started(starting, "gateway-cleaner").repeat(clean_s, self._clean, first_s=FIRST_CLEANUP_S)

    def _registrations(self, starting: ExitStack) -> Registrations | None:
        """Begins a session in the ZooKeeper of the settings; returns None if they name no ZooKeeper."""
        if not self.config.zk_connect:
            return None
        registry = open_registry(
            self._log_dir, self.config.zk_connect, session_timeout_ms=self.config.zk_session_timeout_ms
        )
        starting.callback(registry.close)
        self.registry = registry
        return Registrations(registry, self.config.broker_id, self.address, self._logs, self._logs.clock)

    def _clean(self) -> None:
        for path in self._logs.retain():
            logger.info("%s was deleted by retention", path)

    def _serve(self, exchange: Exchange) -> None:
        try:
            answer = self._answers.answer(exchange.frame)
        except (MalformedFrameError, LogStoreError) as error:
            exchange.processor.log_hostile(exchange.connection, error)
            exchange.close()
        except Exception:
            logger.exception("a request failed; its connection is closed")
            exchange.close()
        else:
            exchange.is_last = answer.is_last
            exchange.answer(answer.parts)

    def stop(self) -> None:
        """Answers the requests that were read, syncs and closes the logs, and ends the threads.

        Raises StorageError if a sync fails or has failed earlier.
        """
        self._stopping.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def _started(starting: ExitStack, name: str) -> Worker:
    worker = Worker(name)
    worker.start()
    starting.callback(worker.stop)
    return worker
