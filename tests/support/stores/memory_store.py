"""An object store in memory, which keeps its word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock

from pyspark_commitlog.storage.bucket.stores.port import FolderListing, ObjectFacts, checked_size
from pyspark_commitlog.storage.errors import CorruptionError, ObjectExistsError, ObjectMissingError, ObjectStoreError


class MemoryStore:
    """Objects in a dict; ``requests`` counts calls by their operation."""

    url = "memory://bucket"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.modified: dict[str, int] = {}
        self.requests: dict[str, int] = {}
        self.now_ms = 1_700_000_000_000
        self._lock = Lock()

    def put_new(self, key: str, data: bytes) -> None:
        self._count("put_new")
        with self._lock:
            if key in self.objects:
                raise ObjectExistsError(f"{key}: exists")
            self._write(key, data)

    def put(self, key: str, data: bytes) -> None:
        self._count("put")
        with self._lock:
            self._write(key, data)

    def get(self, key: str, *, limit: int) -> bytes:
        self._count("get")
        data = self._found(key)
        if len(data) > limit:
            raise CorruptionError(f"{len(data)} bytes, where at most {limit} are expected", path=key)
        return data

    def get_range(self, key: str, start: int, length: int) -> memoryview:
        self._count("get_range")
        data = memoryview(self._found(key))[start : start + length]
        if len(data) != length:
            raise ObjectStoreError(f"{key}: the store sent {len(data)} bytes of {length}")
        return data

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        return [self.get_range(key, start, length) for start, length in ranges]

    def head(self, key: str) -> ObjectFacts | None:
        self._count("head")
        return self._facts(key) if key in self.objects else None

    def list(self, folder: str, after: str = "") -> Iterator[ObjectFacts]:
        self._count("list")
        yield from [self._facts(key) for key in list(self.objects) if key.startswith(f"{folder}/") and key > after]

    def list_folder(self, folder: str) -> FolderListing:
        self._count("list")
        prefix = f"{folder}/" if folder else ""
        below = [key.removeprefix(prefix) for key in sorted(self.objects) if key.startswith(prefix)]
        folders = sorted({each.partition("/")[0] for each in below if "/" in each})
        return FolderListing(folders, [self._facts(prefix + each) for each in below if "/" not in each])

    def delete(self, keys: Sequence[str]) -> None:
        self._count("delete")
        for key in keys:
            self.objects.pop(key, None)

    def _write(self, key: str, data: bytes) -> None:
        self.objects[key] = checked_size(key, bytes(data))
        self.modified[key] = self.now_ms

    def _found(self, key: str) -> bytes:
        try:
            return self.objects[key]
        except KeyError:
            raise ObjectMissingError(f"{key}: there is no such object") from None

    def _facts(self, key: str) -> ObjectFacts:
        return ObjectFacts(key, len(self.objects[key]), self.modified[key])

    def _count(self, operation: str) -> None:
        self.requests[operation] = self.requests.get(operation, 0) + 1
