"""ZooKeeperRegistry: a registry in a real ZooKeeper, through kazoo.

The address has the form of ``zookeeper.connect``: ``h1:2181,h2:2181/chroot``. The chroot is created if it is missing.
After a session has expired, a new one is opened: the ephemeral nodes are deleted then, and listeners are called.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from kazoo import exceptions
from kazoo.client import KazooClient
from kazoo.protocol.states import EventType, KazooState, WatchedEvent, ZnodeStat
from kazoo.retry import KazooRetry

from .calls import Calls
from .errors import (
    BadVersionError,
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RegistryError,
    SessionExpiredError,
)
from .port import (
    ANY_VERSION,
    TIMEOUT_MS,
    Change,
    Listener,
    Node,
    SessionState,
    Watch,
    checked_data,
    checked_path,
    parent_path,
)

_CHANGES = {
    EventType.CREATED: Change.CREATED,
    EventType.DELETED: Change.DELETED,
    EventType.CHANGED: Change.DATA,
    EventType.CHILD: Change.CHILDREN,
}
_STATES = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.EXPIRED,
}
_ERRORS = {
    exceptions.NodeExistsError: (NodeExistsError, "the node exists already"),
    exceptions.NoNodeError: (NoNodeError, "there is no such node in the registry"),
    exceptions.NotEmptyError: (NotEmptyError, "the node has children; delete them first"),
    exceptions.BadVersionError: (BadVersionError, "the node has another version: another process changed it"),
    exceptions.NoChildrenForEphemeralsError: (RegistryError, "its parent is ephemeral, so it has no children"),
    exceptions.SessionExpiredError: (SessionExpiredError, "the session has expired"),
    exceptions.ConnectionClosedError: (SessionExpiredError, "the session was closed"),
}

logger = logging.getLogger(__name__)


class ZooKeeperRegistry:
    """A session of a ZooKeeper; implements :class:`.port.Registry`."""

    def __init__(
        self, connect: str, *, session_timeout_ms: int = TIMEOUT_MS, connection_timeout_ms: int | None = None
    ) -> None:
        """Connects. ``connection_timeout_ms``: how long to wait for a server; default: ``session_timeout_ms``.

        Raises ConnectionLossError if no server answers, and InvalidPathError for an invalid chroot.
        """
        hosts, slash, chroot = connect.partition("/")
        self._chroot = checked_path(slash + chroot) if slash and chroot else ""
        self._connect, self._timeout_s = connect, session_timeout_ms / 1000
        self._calls = Calls("registry-watches")
        self._calls.start()
        self._listeners: list[Listener] = []
        self._client = _client(hosts, self._timeout_s)
        self._client.add_listener(self._on_state)
        self._start((session_timeout_ms if connection_timeout_ms is None else connection_timeout_ms) / 1000)

    def _start(self, timeout_s: float) -> None:
        try:
            self._client.start(timeout_s)
        except self._client.handler.timeout_exception:
            self.close()
            raise ConnectionLossError(
                f"{self._connect}: no ZooKeeper answers there within {timeout_s:g} s; start it, or correct the address"
            ) from None
        try:
            self._make_chroot()
        except BaseException:
            self.close()
            raise

    def _make_chroot(self) -> None:
        names = self._chroot.split("/")
        for count in range(2, len(names) + 1):
            path = "/".join(names[:count])
            with suppress(NodeExistsError):
                self._ask(path, self._client.create_async(path, None))

    def _at(self, path: str) -> str:
        """Returns the path of a node in ZooKeeper."""
        return self._chroot + path if path != "/" else self._chroot or "/"

    @property
    def session(self) -> str:
        found = self._client.client_id
        return "" if found is None else _session_name(found[0])

    def create(self, path: str, data: bytes | None = None, *, ephemeral: bool = False, sequential: bool = False) -> str:
        checked_data(checked_path(path), data)
        while True:
            try:
                made: str = self._ask(
                    path, self._client.create_async(self._at(path), data, ephemeral=ephemeral, sequence=sequential)
                )
                return made.removeprefix(self._chroot)
            except NoNodeError:
                self._make_parents(parent_path(path))

    def _make_parents(self, path: str) -> None:
        with suppress(NodeExistsError):  # another process was faster
            self.create(path)

    def get(self, path: str, watch: Watch | None = None) -> Node:
        data, stat = self._ask(checked_path(path), self._client.get_async(self._at(path), self._watching(path, watch)))
        return _node(data, stat)

    def find(self, path: str, watch: Watch | None = None) -> Node | None:
        found = self._ask(checked_path(path), self._client.exists_async(self._at(path), self._watching(path, watch)))
        if found is None:
            return None
        try:
            return self.get(path)
        except NoNodeError:
            return None

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> int:
        checked_data(checked_path(path), data)
        stat: ZnodeStat = self._ask(path, self._client.set_async(self._at(path), data, version))
        return int(stat.version)

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        found = self._ask(
            checked_path(path), self._client.get_children_async(self._at(path), self._watching(path, watch))
        )
        return sorted(found)

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        if checked_path(path) == "/":
            raise NotEmptyError("/: the root cannot be deleted")
        self._ask(path, self._client.delete_async(self._at(path), version))

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def close(self) -> None:
        self._client.stop()
        self._client.close()
        self._calls.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # Answers and events

    def _ask(self, path: str, answer: Any) -> Any:
        """Waits for an answer of kazoo's, as long as the session may live without a connection."""
        try:
            return answer.get(timeout=self._timeout_s)
        except (exceptions.ConnectionLoss, self._client.handler.timeout_exception):
            raise ConnectionLossError(
                f"{path}: ZooKeeper at {self._connect} did not answer; it may have carried out the operation"
            ) from None
        except exceptions.KazooException as error:
            kind, reason = _ERRORS.get(
                type(error), (RegistryError, f"ZooKeeper answers {type(error).__name__} {error}")
            )
            raise kind(f"{path}: {reason}") from None

    def _watching(self, path: str, watch: Watch | None) -> Callable[[WatchedEvent], None] | None:
        return None if watch is None else _Watcher(self._calls, watch, path)

    def _on_state(self, state: str) -> None:
        for listener in list(self._listeners):
            self._calls.put(partial(listener, _STATES[state]))


@dataclass(frozen=True)
class _Watcher:
    """Calls a watch. kazoo keeps a set of these objects, so a watch that is set twice is called once."""

    calls: Calls
    watch: Watch
    path: str

    def __call__(self, event: WatchedEvent) -> None:
        self.calls.put(partial(self.watch, _CHANGES.get(event.type, Change.UNKNOWN), self.path))


def _client(hosts: str, timeout_s: float) -> KazooClient:
    """Returns a client that keeps trying to connect, like Kafka's, and never repeats an operation by itself."""
    forever = KazooRetry(max_tries=-1, delay=0.05, max_delay=1.0)
    return KazooClient(hosts, timeout_s, connection_retry=forever, logger=logging.getLogger(f"{__name__}.kazoo"))


def _session_name(number: int) -> str:
    return f"{number & 0xFFFFFFFFFFFFFFFF:016x}"


def _node(data: bytes | None, stat: ZnodeStat) -> Node:
    owner = _session_name(stat.ephemeralOwner) if stat.ephemeralOwner else None
    return Node(data, stat.version, stat.cversion, owner)
