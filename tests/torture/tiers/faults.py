"""A tier's store on a bad day: it fails, sends too little, lists late, and deletes some objects of those named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from pyspark_commitlog.storage.bucket.stores.port import FolderListing, ObjectFacts
from pyspark_commitlog.storage.errors import ObjectStoreError
from tests.support.stores.faulty_store import FaultyStore
from tests.support.stores.memory_store import MemoryStore


class BadDay(FaultyStore):
    """The faults of :class:`FaultyStore`, and those of listings."""

    def __init__(
        self, inner: MemoryStore, random: Random, rate: float, late: float, deleted: list[ObjectFacts]
    ) -> None:
        """``late``: the share of listings that lack objects and name ``deleted`` ones."""
        super().__init__(inner, random, rate)
        self.late_share, self.deleted = late, deleted
        self.before_request: Callable[[], None] = lambda: None  # may end the run, as a power cut does

    def put(self, key: str, data: bytes) -> None:
        self.before_request()
        super().put(key, data)

    def _may_fail(self, key: str) -> None:
        self.before_request()
        if self.random.random() < self.rate / 2:
            raise ObjectStoreError(f"{self.url}/{key}: 503")  # a 403 would be final

    def get_range(self, key: str, start: int, length: int) -> memoryview:
        data = super().get_range(key, start, length)
        if length and self.random.random() < self.rate / 2:
            sent = self.random.randrange(length)
            raise ObjectStoreError(f"{key}: the store sent {sent} bytes of {length}")
        return data

    def list_folder(self, folder: str) -> FolderListing:
        found = super().list_folder(folder)
        if self.random.random() >= self.late_share:
            return found
        gone = [each for each in self.deleted if each.key.rpartition("/")[0] == folder]
        objects: list[ObjectFacts] = [each for each in found.objects if self.random.random() < 0.8]
        return FolderListing(found.folders, sorted([*objects, *gone], key=lambda each: each.key))

    def delete(self, keys: Sequence[str]) -> None:
        self._may_fail(",".join(keys))
        some = [*keys]
        fails = self.random.random() < self.rate
        if fails:
            some = some[: self.random.randrange(len(some))]
        self.deleted += [facts for key in some if (facts := self.inner.head(key))]
        self.inner.delete(some)
        if fails:
            raise ObjectStoreError(f"{keys[0]}: some of {len(keys)} objects are deleted")
