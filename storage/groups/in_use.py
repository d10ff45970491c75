"""GroupsInUse: which groups have members, between a coordinator and commands that change groups."""

from __future__ import annotations

import hashlib

from ..directory.manager import LogManager

GROUPS_LOCK_FILE = ".commitlog.groups"  # at the root of the log directory; each group has a byte of it, beyond its end
LOOK_MS = 20


class NoLocks:
    """Locks that are always free."""

    def take(self, byte: int) -> bool:
        return True

    def give(self, byte: int) -> None:
        pass

    def close(self) -> None:
        pass


class GroupsInUse:
    """The groups that this object uses: those with members at a coordinator, or one that a command changes.

    Others that want to use a group are kept out, in this and in other processes, until it is given back or the process
    ends. Two names could share a byte, of 2^62. For one thread.
    """

    def __init__(self, manager: LogManager) -> None:
        self._clock = manager.clock
        is_local = manager.bucket is None  # on an object store no coordinator has members
        self._locks = manager.filesystem.byte_locks(manager.path(GROUPS_LOCK_FILE)) if is_local else NoLocks()

    def take(self, group: str, *, wait_ms: int = 0) -> bool:
        """Begins to use a group; False if another does, and still does after ``wait_ms``.

        A coordinator gives a group back once it is stored that its last member has left.
        """
        for _ in range(0, wait_ms, LOOK_MS):
            if self._locks.take(_byte_of(group)):
                return True
            self._clock.sleep_ms(LOOK_MS)
        return self._locks.take(_byte_of(group))

    def give(self, group: str) -> None:
        """Ends the use of a group."""
        self._locks.give(_byte_of(group))

    def close(self) -> None:
        """Ends the use of all groups."""
        self._locks.close()


def _byte_of(group: str) -> int:
    digest = hashlib.sha256(group.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") >> 2
