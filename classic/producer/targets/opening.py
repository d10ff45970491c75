"""open_target: the target that a producer's settings name."""

from __future__ import annotations

from collections.abc import Callable

from ....registry.opening import open_registry
from ....registry.port import Registry
from ....storage import Clock, needs_extra
from ...wire.connection import Address, Connection, Terms
from ..settings import ProducerConfig, Wire
from .broker_list import BrokerList
from .cluster import OldCluster
from .metadata_brokers import MetadataBrokers
from .port import Target
from .zookeeper_brokers import ZooKeeperBrokers


def open_target(
    config: ProducerConfig, clock: Clock, registry: Registry | None, report_lost: Callable[[int, Exception], None]
) -> Target:
    """Opens a target. ``report_lost`` is called, in any thread, with the number of lost messages and the error.

    Raises MissingExtraError if the target needs a library that is missing, and the target's own errors.
    """
    if config.wire is Wire.LOG_DIRECTORY:
        from .log_directory import LogDirectoryTarget  # noqa: PLC0415  the others need no log

        return LogDirectoryTarget(config.log_dir, clock, config.metadata_refresh_ms)
    if config.wire is Wire.BOOTSTRAP:
        with needs_extra("bootstrap.servers"):
            from .todays_wire import TodaysWireTarget  # noqa: PLC0415
        return TodaysWireTarget(config, clock, report_lost)
    from .old_wires import OldWireTarget  # noqa: PLC0415  needs the extra

    connect = _connector(config)
    return OldWireTarget(config, _old_cluster(config, clock, registry, connect), connect)


def _connector(config: ProducerConfig) -> Callable[[Address], Connection]:
    terms = Terms(
        timeout_ms=config.socket_timeout_ms or 0,
        connect_timeout_ms=config.connect_timeout_ms,
        send_buffer_bytes=config.buffer_size,
    )
    return lambda address: Connection(address, terms)


def _old_cluster(
    config: ProducerConfig, clock: Clock, registry: Registry | None, connect: Callable[[Address], Connection]
) -> OldCluster:
    if config.wire is Wire.BROKER_LIST:
        return BrokerList(config.broker_list)
    if config.wire is Wire.METADATA:
        return MetadataBrokers(
            config.metadata_broker_list, config.metadata_refresh_ms, config.client_id, connect, clock
        )
    opened = registry or open_registry(
        "",
        config.zk_connect,
        session_timeout_ms=config.zk_session_timeout_ms,
        connection_timeout_ms=config.zk_connection_timeout_ms,
    )
    return ZooKeeperBrokers(opened, config.zk_read_num_retries, is_ours=registry is None)
