"""open_registry: the registry that the settings name."""

from __future__ import annotations

from ...registry import FileRegistry, Registry
from ...storage import FileSystem, InvalidConfigError
from ..config import GatewayConfig


def open_registry(config: GatewayConfig, log_dir: str, filesystem: FileSystem | None = None) -> Registry:
    """Begins a session: in ZooKeeper if there is a ``zookeeper.connect``, else in files beside the log.

    Raises InvalidConfigError if the extra for ZooKeeper is missing, and ConnectionLossError if no server answers.
    """
    if not config.zookeeper_connect:
        timeout_ms = config.zookeeper_session_timeout_ms
        return FileRegistry(log_dir, filesystem=filesystem, timeout_ms=timeout_ms)
    try:
        from ...registry import ZooKeeperRegistry  # noqa: PLC0415  needs the extra
    except ImportError as error:
        raise InvalidConfigError(
            f"zookeeper.connect: {error}: install the extra, pip install 'spark-commitlog[zookeeper]'"
        ) from error
    given_ms = config.zookeeper_connection_timeout_ms
    return ZooKeeperRegistry(
        config.zookeeper_connect,
        session_timeout_ms=config.zookeeper_session_timeout_ms,
        connection_timeout_ms=None if given_ms < 0 else given_ms,
    )
