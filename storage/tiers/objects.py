"""The store of a tier's objects: a directory, or an object store; both through the port for object stores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from ..bucket.stores.patience import PatientStore
from ..bucket.stores.port import FolderListing, ListingStore, ObjectFacts
from ..bucket.stores.remote import open_store
from ..errors import CorruptionError, ObjectExistsError, ObjectMissingError, ObjectStoreError, StoreAccessError
from ..filesystem.local import LocalFileSystem
from ..filesystem.operations import make_directory_durably, parent_of, read_file, write_atomically
from ..filesystem.port import FileStatus, FileSystem
from ..format.files import file_names as names
from ..paths import is_store_url, local_path


def open_objects(url: str) -> ListingStore:
    """Returns the objects below a directory, or below the URL of an object store. Raises InvalidConfigError."""
    return open_store(url) if is_store_url(url) else DirectoryObjects(local_path(url))


def read_whole(store: PatientStore, key: str, limit: int, size: int | None = None) -> bytes:
    """Returns the content of an object of at most ``limit`` bytes; ``size``: as listed, None asks for it.

    Raises ObjectMissingError, ObjectStoreError at the end of the patience, and CorruptionError, with the object's name,
    for a larger object, or for one with another size than ``size``.
    """
    expected = _size_of(store, key) if size is None else size
    if expected > limit:
        raise CorruptionError(f"{expected} bytes, where at most {limit} are expected", path=f"{store.url}/{key}")
    return bytes(store.get_range(key, 0, expected))


def _size_of(store: PatientStore, key: str) -> int:
    facts = store.head(key)
    if facts is None:
        raise ObjectMissingError(f"{store.url}/{key}: there is no such object")
    return facts.size


def list_folder(store: ListingStore, folder: str) -> FolderListing:
    """Returns the direct content of a folder. Raises ObjectStoreError at the end of the patience."""
    return PatientStore(store).repeated(partial(store.list_folder, folder))


class DirectoryObjects:
    """The files below a directory as objects: see ``bucket.ListingStore``. A put is durable on return."""

    def __init__(self, path: str, filesystem: FileSystem | None = None) -> None:
        self._path, self._filesystem = path.rstrip("/") or "/", filesystem or LocalFileSystem()

    @property
    def url(self) -> str:
        return self._path

    def put_new(self, key: str, data: bytes) -> None:
        """Does what :meth:`put` does; only one process may put objects of one name."""
        if self.head(key) is not None:
            raise ObjectExistsError(f"{self._name(key)}: the file exists")
        self.put(key, data)

    def put(self, key: str, data: bytes) -> None:
        make_directory_durably(self._filesystem, parent_of(self._name(key)))
        write_atomically(self._filesystem, self._name(key), data)

    def get(self, key: str, *, limit: int) -> bytes:
        facts = self.head(key)
        if facts is None:
            raise ObjectMissingError(f"{self._name(key)}: there is no such file")
        if facts.size > limit:
            raise CorruptionError(f"{facts.size} bytes, where at most {limit} are expected", path=self._name(key))
        return read_file(self._filesystem, self._name(key), limit)

    def get_range(self, key: str, start: int, length: int) -> memoryview:
        try:
            with self._filesystem.open(self._name(key), "read") as file:
                data = file.read(start, length)
        except FileNotFoundError:
            raise ObjectMissingError(f"{self._name(key)}: there is no such file") from None
        except PermissionError as error:
            raise StoreAccessError(f"{self._name(key)}: {error.strerror}") from None
        if len(data) != length:
            raise ObjectStoreError(
                f"{self._name(key)}: {len(data)} bytes from position {start} on, instead of {length}"
            )
        return data

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        return [self.get_range(key, start, length) for start, length in ranges]

    def head(self, key: str) -> ObjectFacts | None:
        status = self._filesystem.status(self._name(key))
        return None if status is None or status.is_directory else _facts(key, status)

    def list(self, folder: str, after: str = "") -> Iterator[ObjectFacts]:
        found = self.list_folder(folder)
        yield from (each for each in found.objects if each.key > after)
        for name in found.folders:
            yield from self.list(f"{folder}/{name}" if folder else name, after)

    def list_folder(self, folder: str) -> FolderListing:
        try:
            listed = self._filesystem.list(self._name(folder))
        except (FileNotFoundError, NotADirectoryError):
            return FolderListing([], [])
        folders, objects = [], []
        for name in listed:
            key = f"{folder}/{name}" if folder else name
            status = self._filesystem.status(self._name(key))
            if status is not None and status.is_directory:
                folders.append(name)
            elif status is not None and not name.endswith(names.TMP):  # being written by write_atomically
                objects.append(_facts(key, status))
        return FolderListing(folders, objects)

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._filesystem.remove(self._name(key))
        for folder in sorted({parent_of(self._name(key)) for key in keys}):
            if self._filesystem.status(folder) is not None:
                self._filesystem.sync_directory(folder)

    def _name(self, key: str) -> str:
        return names.join(self._path, key) if key else self._path


def _facts(key: str, status: FileStatus) -> ObjectFacts:
    return ObjectFacts(key, status.size, status.modified_ms)
