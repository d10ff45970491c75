"""open_registry: the registry of a log directory, in ZooKeeper or in files."""

from __future__ import annotations

from ..storage import FileSystem, InvalidConfigError
from .files import FileRegistry
from .port import TIMEOUT_MS, Registry


def open_registry(
    directory: str,
    connect: str | None,
    *,
    filesystem: FileSystem | None = None,
    session_timeout_ms: int = TIMEOUT_MS,
    connection_timeout_ms: int | None = None,
) -> Registry:
    """Begins a session: in ZooKeeper, or in files beside the log if ``connect`` is None.

    ``connect``: in the form of ``zookeeper.connect``. ``session_timeout_ms``: with files, how long an operation may
    wait for other processes. ``connection_timeout_ms``: how long to wait for a server; default: ``session_timeout_ms``.
    Raises InvalidConfigError if the extra for ZooKeeper is missing, and ConnectionLossError if no server answers.
    """
    if connect is None:
        return FileRegistry(directory, filesystem=filesystem, timeout_ms=session_timeout_ms)
    try:
        from .zookeeper import ZooKeeperRegistry  # noqa: PLC0415  needs the extra
    except ImportError as error:
        raise InvalidConfigError(
            f"zookeeper.connect: {error}: install the extra, pip install 'spark-commitlog[zookeeper]'"
        ) from error
    return ZooKeeperRegistry(
        connect, session_timeout_ms=session_timeout_ms, connection_timeout_ms=connection_timeout_ms
    )
