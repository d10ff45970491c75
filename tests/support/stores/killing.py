"""An object store whose writer is killed at a write."""

from __future__ import annotations

from tests.support.stores.memory_store import MemoryStore


class Killed(BaseException):
    """Ends the code of a process that was killed."""


class KillingStore(MemoryStore):
    """Shares another store's objects; the process ends after so many puts."""

    def __init__(self, other: MemoryStore, puts: int) -> None:
        super().__init__()
        self.objects, self.modified, self.puts = other.objects, other.modified, puts

    def put_new(self, key: str, data: bytes) -> None:
        if self.puts == 0:
            raise Killed
        self.puts -= 1
        super().put_new(key, data)
