"""An object store whose answers are damaged on their way, while its objects are whole."""

from __future__ import annotations

from collections.abc import Callable

from pyspark_commitlog.storage.errors import ObjectStoreError
from tests.support.stores.memory_store import MemoryStore

Damage = Callable[[bytes], bytes]
"""Returns what arrives of an answer. May raise an error of the client."""


def flipped(data: bytes) -> bytes:
    """A byte of a record is another one."""
    return data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]


def misled(data: bytes) -> bytes:
    """The length of the first batch is another one."""
    return data[:8] + bytes([data[8] ^ 0x40]) + data[9:]


def zeroed(data: bytes) -> bytes:
    return bytes(len(data))


def cut(data: bytes) -> bytes:
    """Fewer bytes than were asked for: the client notices that."""
    raise ObjectStoreError(f"the store sent {len(data) // 2} bytes of {len(data)}")


class DamagingStore(MemoryStore):
    """Damages the next answers with bytes of records, ``times`` of them, by ``damage``."""

    def __init__(self) -> None:
        super().__init__()
        self.damage: Damage = bytes
        self.times = 0

    def get_range(self, key: str, start: int, length: int) -> memoryview:
        data = super().get_range(key, start, length)
        if self.times and key.startswith(("staged/", "segments/")):
            self.times -= 1
            return memoryview(self.damage(bytes(data)))
        return data
