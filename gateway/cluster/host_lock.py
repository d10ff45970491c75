"""HostLock: a lock file in the log directory that a node holds for as long as its process lives.

A session in ZooKeeper outlives a killed process by its time-out. The lock does not: the kernel frees it. So the nodes
of one host notice at once that one of them has ended, and remove what its session still owns. A node that is stopped
(SIGSTOP) keeps its lock. Sessions decide about nodes of other hosts, because their locks may not be visible from here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from ...registry.kafka_nodes import CONTROLLER, broker_path
from ...registry.operations import discard
from ...registry.port import Registry
from ...storage import FileSystem, Lock, lock_holders, read_file, this_process
from .maintainer import MAINTAINER
from .registration import GATEWAYS, NodeIdInUseError

FILE = ".commitlog.node-"
TAKE_S = 5.0  # seconds to wait: others that check the lock hold it for a moment
_AGAIN_S = 0.02
_HOLDER_BYTES_MAX = 1000
_BOOT = Path("/proc/sys/kernel/random/boot_id")  # random(4): the same for all processes of a running kernel

logger = logging.getLogger(__name__)


class HostLock:
    """The lock of one node; also checks the locks of others. Belongs to one thread at a time."""

    def __init__(self, filesystem: FileSystem, directory: str, node: int) -> None:
        """``directory``: of the log. Takes no lock yet."""
        self._filesystem, self._directory, self._node = filesystem, directory, node
        self._lock: Lock | None = None
        self._host = _host()

    def take(self, registry: Registry) -> None:
        """Takes the lock, and removes what an earlier process of the node on this host left in the registry.

        Raises NodeIdInUseError if another process has the lock.
        """
        self._lock = lock = self._awaited()
        if self._is_here(lock):
            _remove_left(registry, self._node)
        lock.write(f"{self._host} {this_process()}".encode())

    def _awaited(self) -> Lock:
        until_s = time.monotonic() + TAKE_S
        while (lock := self._filesystem.lock(self._path(self._node), wait=False)) is None:
            if time.monotonic() > until_s:
                holder = read_file(self._filesystem, self._path(self._node), _HOLDER_BYTES_MAX).decode(errors="replace")
                raise NodeIdInUseError(
                    f"node.id = {self._node}: in use by {holder.partition(' ')[2] or 'another process'}; give each "
                    f"gateway a node.id of its own{lock_holders(self._path(self._node))}"
                )
            time.sleep(_AGAIN_S)
        return lock

    def release(self) -> None:
        """Releases the lock, if it is held: the node has ended."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def remove_ended(self, registry: Registry, nodes: Collection[int]) -> bool:
        """Removes the registry entries of those ``nodes`` whose process on this host has ended.

        Returns whether there was any. No process of such a node can start in the meantime.
        """
        found = False
        for node in nodes:
            lock = self._lock_of_ended(node)
            if lock is not None:
                with lock:
                    found = _remove_left(registry, node) or found
        return found

    def _lock_of_ended(self, node: int) -> Lock | None:
        """Takes the lock of a node of this host that has ended; None if there is no such node."""
        path = self._path(node)
        if self._filesystem.status(path) is None:  # asking for the lock would make the file
            return None
        lock = self._filesystem.lock(path, wait=False)
        if lock is not None and not self._is_here(lock):
            lock.release()
            return None
        return lock

    def _is_here(self, lock: Lock) -> bool:
        """Whether the last holder of a lock was a process of this host, since it was started."""
        return bool(self._host) and lock.read(len(self._host)) == self._host.encode()

    def _path(self, node: int) -> str:
        return f"{self._directory}/{FILE}{node}"


def _host() -> str:
    """Returns a text that distinguishes this host from others; an empty text if that is unknown."""
    with suppress(OSError):
        return _BOOT.read_text().strip()
    return ""


def _remove_left(registry: Registry, node: int) -> bool:
    """Removes what the session of an ended node still owns; returns whether there was anything.

    The node by which others know a gateway is removed last: a broker without it is of another kind.
    """
    found = registry.find(f"{GATEWAYS}/{node}")
    if found is None or found.owner in (None, registry.session):
        return False
    logger.info("node %d has ended; removing what its session has", node)
    for path in (broker_path(node), CONTROLLER, MAINTAINER, f"{GATEWAYS}/{node}"):
        each = registry.find(path)
        if each is not None and each.owner == found.owner:
            discard(registry, path)
    return True
