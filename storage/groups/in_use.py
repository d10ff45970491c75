"""GroupsInUse: marks groups with members, so that commands do not change them."""

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

    No one else, in this or another process, can use such a group until it is released or the process ends. Names are
    hashed to 2^62 bytes, so two may collide. For one thread.
    """

    def __init__(self, manager: LogManager) -> None:
        self._clock = manager.clock
        is_local = manager.bucket is None  # on an object store no coordinator has members
        self._locks = manager.filesystem.byte_locks(manager.path(GROUPS_LOCK_FILE)) if is_local else NoLocks()

    def take(self, group: str, *, wait_ms: int = 0) -> bool:
        """Begins to use a group; False if another still uses it after ``wait_ms``.

        A coordinator releases a group once the departure of its last member is stored.
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
