"""Gateway: the server.

It passes requests from the network to their handlers; ``parts`` creates the objects that handlers use.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Self

from ..protocol.apis import APIS, ApiKey
from ..protocol.bodies import ErrorCode, write_answer
from ..protocol.headers import RequestHeader, parse_header
from ..protocol.reading import MalformedRequestError, TooManyEntriesError
from ..registry.port import Registry, SessionState
from ..storage import Address, InvalidConfigError, LogManager, is_store_url
from .accepting import Accepting
from .announcement import announcement
from .children.kernels import compile_kernels_beside
from .children.maintenance import Maintenance
from .cluster.maintainer import claim_maintenance
from .cluster.topic_nodes import TopicNodes
from .cluster.view import View
from .config import GatewayConfig
from .context import Context
from .figures import Figures
from .handlers.access.guards import guarded
from .handlers.logins import check_login, take_raw_token
from .handlers.produce import QUICK_BYTES
from .handlers.table import KINDS
from .live_settings import admission_limits
from .network.exchange import Exchange
from .network.limits.admission import Admission
from .network.limits.clients import Limits
from .network.limits.memory import RequestMemory
from .network.limits.pace import LeastRate
from .network.limits.untaken import UntakenBytes
from .network.processor import Processor
from .partitions.open_partitions import NotOpenError
from .parts import Parts
from .places import Places
from .quotas.entities import REQUEST_PERCENTAGE
from .request import Request, RequestLimits
from .security.listener import Security, made_security, made_tls
from .security.scram import LoginError
from .security.session import Stage
from .threads.worker import Task
from .turns.ends import end_of
from .turns.rights import Rights
from .turns.transactions import OpenTransactions
from .turns.turn import PRODUCE, ProduceTurn, Shared

INT64_MAX = 2**63 - 1
ENTRIES_HERE = 1_000  # limit of a request that the thread of connections serves itself, in some 10 ms

logger = logging.getLogger(__name__)


class Gateway:
    """Serves a log directory; a context manager that starts and stops the server."""

    def __init__(
        self, log_dir: str, config: GatewayConfig | None = None, *, create: bool = False, **settings: str | int | bool
    ) -> None:
        """``log_dir``: may be the URL of a log on an object store. ``create``: makes the log if it is missing.

        ``settings`` are those of ``config``, by Kafka's names with ``_`` for ``.``: ``offsets_topic_num_partitions=1``.
        Nothing is opened or bound before :meth:`start`. Raises InvalidConfigError for an unknown or bad setting.
        """
        if config is not None and settings:
            raise InvalidConfigError(f"give the settings in config or by name, not both: {', '.join(settings)}")
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self.config = config or GatewayConfig.from_mapping(given)
        self.config.tier_of(log_dir)  # raises for a log on an object store, which has no tier
        self._log_dir, self._create = log_dir, create
        self._kinds = KINDS
        self._stopping = ExitStack()
        self._context: Context | None = None
        self.figures = Figures()
        self._security = Security(None, (), None)  # until it is started
        entries_max = self.config.commitlog_request_max_entries
        self._limits = RequestLimits(
            min(ENTRIES_HERE, entries_max), entries_max, self.config.commitlog_answer_max_bytes
        )

    @property
    def address(self) -> Address:
        """The address of the first listener; only after :meth:`start`."""
        return next(iter(self.addresses.values()))

    @property
    def addresses(self) -> Mapping[str, Address]:
        """The address of each listener, by its name; only after :meth:`start`."""
        return self.context.listening

    @property
    def bootstrap_servers(self) -> str:
        """The first address as clients' setting ``bootstrap.servers``, ``host:port``; only after :meth:`start`."""
        return str(self.address)

    @property
    def log_dir(self) -> str:
        """The directory, or the URL, that is served."""
        return self._log_dir

    @property
    def context(self) -> Context:
        """The objects that handlers share; only after :meth:`start`."""
        if self._context is None:
            raise RuntimeError("the gateway has not been started")
        return self._context

    def start(self) -> None:
        """Opens the directory, starts to listen, and returns; threads serve clients from then on.

        Raises NotALogDirError, LogDirLockedError while a broker runs on the directory, and OSError if the address is
        taken.
        """
        with ExitStack() as starting:
            self._start(starting)
            self._stopping = starting.pop_all()

    def _start(self, starting: ExitStack) -> None:
        """Starts all parts; ``starting`` stops them in the opposite order."""
        compile_kernels_beside()
        own = self._open_log()
        starting.callback(own.close)
        own.check_writable()
        self._security = made_security(self.config)
        self._security.start()
        starting.callback(self._security.stop)
        if any(each.has_tls for each in self.config.all_listeners):
            made_tls(self.config)  # here, so that a mistake is reported before anything is bound
        accepting = Accepting(self.config)
        listening_on = accepting.bind(starting)
        parts = Parts(own, self.config, self.figures)
        self._context = context = parts.start(starting, listening_on, self._security)
        if self.config.commitlog_maintenance_enable and not context.is_remote:
            self._maintain(starting, context.registry)
        admission = Admission(admission_limits(context.settings.config), context.throttle.connection_delay_s)
        processors = self._processors(admission)
        self._serve_together(processors, context)
        for processor in processors:
            processor.start()
            starting.callback(processor.stop)
        starting.callback(context.groups.give_up)  # gives members with waiting requests an answer
        starting.callback(context.transactions.give_up)
        accepting.start(starting, context, processors, admission)
        self._join(starting, context)
        for line in announcement(context, self._security):
            logger.info("%s", line)

    def _open_log(self) -> LogManager:
        """Opens the directory, or the log on an object store; creates it if it is missing and ``create`` was set."""
        if self.config.zookeeper_connect and is_store_url(self._log_dir):
            raise InvalidConfigError(
                f"zookeeper.connect: gateways over {self._log_dir} need no registry, for its commits keep them apart; "
                "leave the setting out"
            )
        return LogManager.open_or_make(self._log_dir) if self._create else LogManager.open(self._log_dir)

    def _join(self, starting: ExitStack, context: Context) -> None:
        """Registers this node, so that other nodes know that it serves."""
        cluster = context.cluster

        def on_change(_: View) -> None:
            for led in context.partitions.all():
                if not cluster.leads(led.topic, led.partition):
                    led.wake()  # answers waiting fetches, because another node leads
            context.groups.run(lambda coordinator: coordinator.reassign())
            context.transactions.run(lambda coordinator: coordinator.reassign())

        cluster.listen(on_change)
        starting.callback(cluster.stop)
        cluster.start()
        if self.config.zookeeper_connect:  # nobody reads the topics' nodes in a registry of files
            managers = partial(LogManager.open, self._log_dir)
            version, may_delete = self.config.kafka_version, self.config.delete_topic_enable
            nodes = TopicNodes(context.registry, cluster, managers, version, may_delete=may_delete)
            nodes.start()
            starting.callback(nodes.stop)
            nodes.begin()
        starting.callback(cluster.leave)

    def _maintain(self, starting: ExitStack, registry: Registry) -> None:
        maintenance = Maintenance(
            self._log_dir,
            self.config.log_retention_check_interval_ms,
            compacts=self.config.log_cleaner_enable,
            failed=self.figures.maintenance_failed,
            claim=partial(claim_maintenance, registry, self.config.node_id),
        )
        registry.listen(lambda state: maintenance.lose_claim() if state is SessionState.EXPIRED else None)
        maintenance.start()
        starting.callback(maintenance.stop)

    def _processors(self, admission: Admission) -> list[Processor]:
        config, idle_ms, bytes_max = (
            self.config,
            self.config.connections_max_idle_ms,
            self.config.queued_max_request_bytes,
        )
        limits = Limits(
            request_bytes_max=config.socket_request_max_bytes,
            places_of=Places(config.queued_max_requests, {key: kind.sort for key, kind in KINDS.items()}).of,
            memory=RequestMemory(INT64_MAX if bytes_max < 0 else bytes_max),
            login_memory=RequestMemory(config.commitlog_login_queued_max_request_bytes),
            admission=admission,
            least_rate=LeastRate(
                config.commitlog_request_min_bytes_per_second, config.commitlog_request_grace_ms / 1000
            ),
            untaken=UntakenBytes(config.commitlog_queued_max_answer_bytes),
            idle_s=None if idle_ms < 0 else idle_ms / 1000,
            login_s=config.commitlog_login_timeout_ms / 1000,
        )
        return [
            Processor(f"gateway-network-{number}", self._serve, _may_overlap, limits)
            for number in range(config.num_network_threads)
        ]

    def _serve_together(self, processors: Iterable[Processor], context: Context) -> None:
        """Serves Produce requests together that have arrived together."""
        config = self.config
        if not config.commitlog_produce_together_enable:
            return
        if config.commitlog_request_max_entries < ENTRIES_HERE:  # entries are not counted there
            return
        rights = Rights(context.rules, context.throttle)
        transactions = OpenTransactions(context.transactions.gate.lets, rights.may_use)
        shared = Shared(
            end_of(context.appender, self.figures, transactions),
            context.partitions.look,
            self.figures,
            context.clock.now_ms,
            rights.may_write,
            min(QUICK_BYTES, config.commitlog_produce_max_decompressed_bytes),
        )
        for each in processors:
            each.together = ProduceTurn(shared)

    def stop(self) -> None:
        """Answers the requests that were read, syncs and closes all logs, and ends the threads."""
        self._stopping.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    # Requests

    def _serve(self, exchange: Exchange) -> None:
        try:
            self._begin_session(exchange)
            if exchange.connection.session.stage is Stage.RAW_TOKENS:
                take_raw_token(exchange, self.context)
                return
            header = parse_header(exchange.frame)
        except (MalformedRequestError, LoginError) as error:
            exchange.processor.log_hostile(exchange.connection, error)
            exchange.close()
        except Exception:  # a bug here
            logger.exception("a request could not be read")
            exchange.close()
        else:
            charge = self._charge if self.context.throttle.may_limit(REQUEST_PERCENTAGE) else None
            request = Request(exchange, header, self.figures, self._limits, charge=charge)
            self._serve_request(request, header)

    def _charge(self, request: Request, spent_s: float) -> float:
        """Counts the time of a request for the quota of its client; returns how long the client must wait."""
        if request.session.stage is not Stage.DONE:
            return 0.0
        return self.context.throttle.delay_s(REQUEST_PERCENTAGE, *request.payer, spent_s * 100)

    def _begin_session(self, exchange: Exchange) -> None:
        connection = exchange.connection
        if connection.session is None:
            logs_in = connection.terms.login_bytes_max is not None
            connection.session = self._security.session(connection.certificate, connection.client_host, logs_in=logs_in)

    def _serve_request(self, request: Request, header: RequestHeader) -> None:
        if header.is_served:
            self._run_here(request)
        else:  # ApiVersions in a version that does not exist yet
            request.answer_oldest(write_answer(header.key, 0, _unsupported()))

    def _run_here(self, request: Request) -> None:
        """Serves a request in the thread of its connection, or in another one if it has many entries.

        No other request of the connection is served before its answer, so the order of answers stays.
        """
        try:
            check_login(request)
            if not self._kinds[request.key].is_read_by_hand:
                # Read it here, because a malformed request must not reach a thread that others wait for.
                request.read_body(request.limits.entries_here)
        except TooManyEntriesError:
            self.context.large.submit(self._run, request, self.context.large.submit)
        except Exception as error:
            self._refuse(request, error)
        else:
            self._run(request, request.exchange.processor.call_soon)

    def _run(self, request: Request, again: Callable[[Task], object]) -> None:
        """Serves a request in this thread. ``again``: serves it again, once its partitions are open."""
        with request.working():
            self._run_counted(request, again)

    def _run_counted(self, request: Request, again: Callable[[Task], object]) -> None:
        try:
            kind = self._kinds[request.key]
            if kind.once is not None:
                request.body = kind.once(request.body, request.version)
            refused = guarded(request, self.context, kind.guard, without_rules=kind.names_topics)
            if refused is not None:
                request.answer(refused)
                return
            body = kind.handler(request, self.context)
            if body is not None:
                request.answer(body)
        except NotOpenError as error:
            request.exchange.hold_others()  # the next batch must not find the partition open, and be appended first
            self.context.partitions.open_then(
                error.partitions, partial(_call, again, partial(self._run, request, again))
            )
        except Exception as error:
            self._refuse(request, error)

    def _refuse(self, request: Request, error: Exception) -> None:
        if isinstance(error, MalformedRequestError):
            request.exchange.processor.log_hostile(request.exchange.connection, error)
            request.close()
        else:
            request.fail(error)


def _call(again: Callable[[Task], object], task: Task) -> None:
    again(task)


def _may_overlap(frame: memoryview) -> bool:
    return frame[:2] == PRODUCE


def _unsupported() -> Mapping[str, object]:
    api = APIS[ApiKey.API_VERSIONS]
    own = {"api_key": ApiKey.API_VERSIONS, "min_version": api.lowest, "max_version": api.highest}
    return {"error_code": ErrorCode.unsupported_version, "api_keys": [own]}
