"""The place of a backup: a folder, or an object store. Its files have names such as ``cuts/…``, and never change."""

from __future__ import annotations

import errno
import hashlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple, Protocol, TypeVar
from uuid import uuid4

from ..bucket.stores.patience import PatientStore
from ..bucket.stores.port import ObjectStore
from ..bucket.stores.remote import open_store
from ..directory.snapshots.building import sync_files
from ..errors import CorruptionError, ObjectMissingError, SnapshotError
from ..filesystem.local import LocalFileSystem
from ..filesystem.operations import make_directory_durably, parent_of, write_atomically
from ..filesystem.port import Buffer, File, FileSystem
from ..format.files import file_names
from ..paths import is_store_url, local_path

LOCK_FILE = ".backup.lock"
DAY_MS = 86_400_000
KEYS_AT_ONCE = 1000  # of a request

WRITE_BYTES = 128 * 1024  # larger writes reserve room first, which takes longer than it saves here

T = TypeVar("T")


def write_in_parts(file: File, position: int, data: Buffer) -> None:
    """Writes the content of a piece."""
    view = memoryview(data)
    for at in range(0, len(view), WRITE_BYTES):
        file.write(position + at, view[at : at + WRITE_BYTES])


class Stored(NamedTuple):
    """A file of a backup."""

    name: str
    size: int  # bytes


class BackupPlace(Protocol):
    """The files of a backup. For any thread."""

    @property
    def path(self) -> str: ...

    def digest(self, data: Buffer) -> str:
        """Returns the name of a piece with this content: 64 hexadecimal digits."""
        ...

    def put(self, name: str, data: Buffer) -> None:
        """Writes a file; others see all of it or nothing. It is durable after :meth:`sync`."""
        ...

    def sync(self) -> None:
        """Makes earlier files durable."""
        ...

    def publish(self, name: str, data: bytes) -> None:
        """Writes a file; after a crash, all of it is there or nothing. Durable on return."""
        ...

    def get(self, name: str, limit: int) -> Buffer:
        """Returns a file of at most ``limit`` bytes.

        Raises CorruptionError, with its name, if it is missing or larger.
        """
        ...

    def list_files(self, folder: str) -> list[Stored]: ...

    def delete(self, names: Sequence[str]) -> None: ...

    def list_abandoned(self, folder: str) -> list[Stored]:
        """Returns the files that no running process may be about to use; those in no list can be deleted."""
        ...

    def locked(self) -> AbstractContextManager[None]:
        """Excludes other processes that change the backup, where that is possible."""
        ...


def open_backup(path: str) -> BackupPlace:
    """Returns the place at a path, or at the URL of an object store. Raises InvalidConfigError."""
    return StorePlace(open_store(path)) if is_store_url(path) else FolderPlace(local_path(path))


class FolderPlace:
    """A backup in a folder."""

    def __init__(self, path: str, filesystem: FileSystem | None = None) -> None:
        self._path, self._filesystem = path.rstrip("/"), filesystem or LocalFileSystem()
        self._unsynced: list[str] = []
        self._lock = threading.Lock()  # Guards the paths.

    @property
    def path(self) -> str:
        return self._path

    def digest(self, data: Buffer) -> str:
        return hashlib.sha256(data).hexdigest()

    def put(self, name: str, data: Buffer) -> None:
        """Until the sync, a crash may leave a name without content, so files in no list are not trusted."""
        path = file_names.join(self._path, name)
        self._filesystem.make_directory(parent_of(path))
        building = f"{path}.{uuid4().hex}{file_names.TMP}"
        with self._filesystem.open(building, "create") as file:
            write_in_parts(file, 0, data)
            file.begin_sync()
        self._filesystem.rename(building, path)
        with self._lock:
            self._unsynced.append(path)

    def sync(self) -> None:
        with self._lock:
            paths, self._unsynced = self._unsynced, []
        sync_files(self._filesystem, paths)
        folders = {parent_of(path) for path in paths}
        for folder in sorted(folders | {parent_of(each) for each in folders}, reverse=True):
            self._filesystem.sync_directory(folder)

    def publish(self, name: str, data: bytes) -> None:
        path = file_names.join(self._path, name)
        make_directory_durably(self._filesystem, parent_of(path))
        write_atomically(self._filesystem, path, data)

    def get(self, name: str, limit: int) -> Buffer:
        path = file_names.join(self._path, name)
        try:
            with self._filesystem.open(path, "read") as file:
                data = file.read(0, limit + 1)
        except FileNotFoundError:
            raise CorruptionError("the file is missing", path=path) from None
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            raise CorruptionError("the disk cannot read the file", path=path) from error
        if len(data) > limit:
            raise CorruptionError(f"the file has more than the {limit:,} bytes that it should have", path=path)
        return data

    def list_files(self, folder: str) -> list[Stored]:
        return [*self._below(folder)]

    def _below(self, folder: str) -> Iterator[Stored]:
        path = file_names.join(self._path, folder)
        if self._filesystem.status(path) is None:
            return
        for each in self._filesystem.list(path):
            name = f"{folder}/{each}"
            status = self._filesystem.status(file_names.join(self._path, name))
            if status is None:
                continue
            if status.is_directory:
                yield from self._below(name)
            else:
                yield Stored(name, status.size)

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            self._filesystem.remove(file_names.join(self._path, name))
        for folder in {parent_of(file_names.join(self._path, name)) for name in names}:
            self._filesystem.sync_directory(folder)

    def list_abandoned(self, folder: str) -> list[Stored]:
        return self.list_files(folder)  # only one process, which holds the lock, writes here

    @contextmanager
    def locked(self) -> Iterator[None]:
        make_directory_durably(self._filesystem, self._path)
        lock = self._filesystem.lock(file_names.join(self._path, LOCK_FILE), wait=False)
        if lock is None:
            raise SnapshotError(f"{self._path}: another process changes this backup; wait until it has ended")
        with lock:
            yield


class StorePlace:
    """A backup on an object store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store, self._patient = store, PatientStore(store)

    @property
    def path(self) -> str:
        return self._store.url

    def digest(self, data: Buffer) -> str:
        return hashlib.sha256(data).hexdigest()

    def put(self, name: str, data: Buffer) -> None:
        self._patient.put(name, bytes(data))

    def sync(self) -> None:
        """Does nothing: every put is durable."""

    def publish(self, name: str, data: bytes) -> None:
        self.put(name, data)

    def get(self, name: str, limit: int) -> Buffer:
        try:
            return self._patient.get(name, limit=limit)
        except ObjectMissingError:
            raise CorruptionError("the object is missing", path=f"{self.path}/{name}") from None

    def list_files(self, folder: str) -> list[Stored]:
        return [Stored(each.key, each.size) for each in self._store.list(folder)]

    def delete(self, names: Sequence[str]) -> None:
        for start in range(0, len(names), KEYS_AT_ONCE):
            self._patient.delete(names[start : start + KEYS_AT_ONCE])

    def list_abandoned(self, folder: str) -> list[Stored]:
        """Leaves out files younger than a day, by the store's clock: another process may have put them just now."""
        found = [*self._store.list(folder)]
        newest_ms = max((each.modified_ms for each in self._store.list("cuts")), default=0)
        return [Stored(each.key, each.size) for each in found if each.modified_ms < newest_ms - DAY_MS]

    def locked(self) -> AbstractContextManager[None]:
        return nullcontext()
