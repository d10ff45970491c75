"""An object store that does what stores do on a bad day; every fault is allowed by the port's contract."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from pyspark_commitlog.storage.bucket.stores.port import FolderListing, ObjectFacts
from pyspark_commitlog.storage.errors import (
    ObjectExistsError,
    ObjectMissingError,
    ObjectStoreError,
    StoreAccessError,
)
from tests.support.stores.memory_store import MemoryStore


class FaultyStore:
    """Passes requests on to a :class:`MemoryStore`, some with a fault that ``random`` chooses.

    ``rate``: the share of requests with a fault. A put may be lost, or done without an answer (500, timeout), or
    refused because the client repeated it (an own 412), or refused by 409 with nothing done, or come *later*
    (:meth:`land_late`). A read may fail, or be refused, and a list may lack objects and name deleted ones.
    """

    def __init__(self, inner: MemoryStore, random: Random, rate: float = 0.3, *, short_reads: bool = False) -> None:
        self.inner, self.random, self.rate, self.short_reads = inner, random, rate, short_reads
        self.late: list[tuple[str, bytes]] = []
        self.deleted: list[ObjectFacts] = []

    @property
    def url(self) -> str:
        return self.inner.url

    def land_late(self, share: float = 0.3) -> None:
        """Lets some of the late puts arrive, in any order; the store decides by what is there now."""
        waiting, self.late = self.late, []
        self.random.shuffle(waiting)
        for key, data in waiting:
            if self.random.random() >= share:
                self.late.append((key, data))
            elif key not in self.inner.objects:
                self.inner.put_new(key, data)

    def put_new(self, key: str, data: bytes) -> None:
        self.land_late(0.1)
        if self.random.random() >= self.rate:
            return self.inner.put_new(key, data)
        fault = self.random.choice(("lost", "no answer", "own 412", "409", "late", "403"))
        if fault in ("no answer", "own 412") and key not in self.inner.objects:
            self.inner.put_new(key, data)
        if fault == "late":
            self.late.append((key, data))
        if fault in ("own 412", "409"):
            raise ObjectExistsError(f"{key}: {fault}")
        if fault == "403":
            raise StoreAccessError(f"{key}: {fault}")
        raise ObjectStoreError(f"{key}: {fault}")

    def put(self, key: str, data: bytes) -> None:
        if self.random.random() >= self.rate:
            return self.inner.put(key, data)
        if self.random.random() < 0.5:
            self.inner.put(key, data)
        raise ObjectStoreError(f"{key}: no answer")

    def get(self, key: str, *, limit: int) -> bytes:
        self._may_fail(key)
        data = self.inner.get(key, limit=limit)
        is_short = self.short_reads and self.random.random() < self.rate
        return data[: self.random.randrange(len(data) + 1)] if is_short else data

    def get_range(self, key: str, start: int, length: int) -> memoryview:
        self._may_fail(key)
        return self.inner.get_range(key, start, length)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        return [self.get_range(key, start, length) for start, length in ranges]

    def head(self, key: str) -> ObjectFacts | None:
        self._may_fail(key)
        return self.inner.head(key)

    def list(self, folder: str, after: str = "") -> Iterator[ObjectFacts]:
        self._may_fail(folder)
        listed = (*self.inner.list(folder), *self.deleted)
        named = [each for each in listed if each.key.startswith(f"{folder}/") and each.key > after]
        self.random.shuffle(named)
        yield from named[self.random.random() < self.rate :]

    def list_folder(self, folder: str) -> FolderListing:
        self._may_fail(folder)
        return self.inner.list_folder(folder)

    def delete(self, keys: Sequence[str]) -> None:
        self._may_fail(",".join(keys))
        self.deleted += [facts for key in keys if (facts := self.inner.head(key))]
        self.inner.delete(keys)

    def _may_fail(self, key: str) -> None:
        if self.random.random() < self.rate / 2:
            raise self.random.choice((ObjectStoreError, StoreAccessError))(f"{key}: 503")


class StaleStore(FaultyStore):
    """Some reads and heads do not see an object that is there, as a replica that lags behind. No other faults."""

    def __init__(self, inner: MemoryStore, random: Random, stale: float) -> None:
        super().__init__(inner, random, 0.0)
        self.stale = stale

    def get(self, key: str, *, limit: int) -> bytes:
        if self.random.random() < self.stale:
            raise ObjectMissingError(f"{key}: stale")
        return self.inner.get(key, limit=limit)

    def head(self, key: str) -> ObjectFacts | None:
        return None if self.random.random() < self.stale else self.inner.head(key)
