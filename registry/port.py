"""The interface of a registry: a small tree of nodes that several processes share, as ZooKeeper has it.

A path begins with ``/``. A node has data and children. An ephemeral node belongs to a session and is deleted when the
session ends, or soon after the session's process has died; it has no children. A session sees its own writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol, Self

from .errors import InvalidPathError, RegistryError

ANY_VERSION = -1
TIMEOUT_MS = 18_000  # timeout of a session, like zookeeper.session.timeout.ms of Kafka 2.7
DATA_BYTES_MAX = 1_000_000  # limit of a node; ZooKeeper closes a connection with a request above 1 MiB
_NEVER = re.compile("[\0-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")  # characters that ZooKeeper refuses in a path


class Node(NamedTuple):
    """A node as it was read."""

    data: bytes | None
    version: int  # how often the data was set; 0: not since the node was created
    children_version: int  # how often a child was created or deleted
    owner: str | None  # the session of an ephemeral node; None: the node is persistent


class Change(Enum):
    """A change of a watched node."""

    CREATED = "created"
    DELETED = "deleted"
    DATA = "data"
    CHILDREN = "children"
    UNKNOWN = "unknown"  # the connection was lost: read again


class SessionState(Enum):
    """A change of the session's state."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"  # the registry is out of reach; the session may continue, or have ended
    EXPIRED = "expired"  # ephemeral nodes and watches are deleted; the next operation begins another session


Watch = Callable[[Change, str], None]
"""Called once, with the path, in a thread of the registry, which it must not keep for long. To go on watching, read
again with a watch: read after the call, and nothing is missed. Changes may be fewer than there were. One that is
set again before it was called is called once."""

Listener = Callable[[SessionState], None]


class Registry(Protocol):
    """A session of a registry. For any thread; a context manager that closes it.

    All operations raise InvalidPathError for an invalid path, RegistryError for more data than a node may have,
    ConnectionLossError if the registry does not answer in time, and SessionExpiredError if the session ended.
    """

    @property
    def session(self) -> str:
        """The name of the session, the owner of its ephemeral nodes; empty while the registry is out of reach."""
        ...

    def create(self, path: str, data: bytes | None = None, *, ephemeral: bool = False, sequential: bool = False) -> str:
        """Creates a node, and its parents if they are missing, and returns its path.

        ``sequential``: appends ten digits of an increasing number to the path. Raises NodeExistsError.
        """
        ...

    def get(self, path: str, watch: Watch | None = None) -> Node:
        """Returns a node. ``watch`` is called when its data changes or it is deleted. Raises NoNodeError."""
        ...

    def find(self, path: str, watch: Watch | None = None) -> Node | None:
        """Like :meth:`get`, but None if there is no such node. ``watch`` is then called when it is created."""
        ...

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> int:
        """Replaces the data of a node, and returns the new version.

        ``version``: the version that the node must have. Raises NoNodeError and BadVersionError.
        """
        ...

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Returns the names of a node's children, sorted. Raises NoNodeError.

        ``watch`` is called when a child is created or deleted, or the node is deleted.
        """
        ...

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Deletes a node. Raises NoNodeError, NotEmptyError and BadVersionError."""
        ...

    def listen(self, listener: Listener) -> None:
        """Calls ``listener``, in a thread of the registry, whenever the session's state changes."""
        ...

    def close(self) -> None:
        """Ends the session; its ephemeral nodes are deleted."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


def checked_path(path: str) -> str:
    """Returns ``path``. Raises InvalidPathError if ZooKeeper does not allow it."""
    names = path[1:].split("/")
    if path == "/":
        return path
    if not path.startswith("/") or any(name in ("", ".", "..") for name in names):
        raise InvalidPathError(f"{path!r}: a path in the registry must have a form like /brokers/ids/0")
    if _NEVER.search(path):
        raise InvalidPathError(f"{path!r}: a path in the registry must not have control characters")
    return path


def checked_data(path: str, data: bytes | None) -> bytes | None:
    """Returns ``data``. Raises RegistryError if it is too large for a node."""
    if data is not None and len(data) > DATA_BYTES_MAX:
        raise RegistryError(f"{path}: {len(data)} bytes are too many for a node, which has at most {DATA_BYTES_MAX}")
    return data


def parent_path(path: str) -> str:
    """Returns the path of a node's parent; that of the root is the root."""
    return path.rpartition("/")[0] or "/"
