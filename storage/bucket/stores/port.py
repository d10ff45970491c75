"""The port to object stores: the operations that a log needs, and the meaning of their results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

PUT_BYTES_MAX = 128 << 20  # limit of one request; larger objects would need multipart uploads, which may race


class ObjectFacts(NamedTuple):
    """The facts about an object that the store reports without its content."""

    key: str
    size: int  # bytes
    modified_ms: int  # by the store's clock


class FolderListing(NamedTuple):
    """The direct content of a folder."""

    folders: list[str]  # names, sorted
    objects: list[ObjectFacts]  # by key


class ObjectStore(Protocol):
    """The objects below one URL. For any thread.

    A key is the object's name below the URL, such as ``commits/00000000000000000001``.

    Only success is certain. After any error of a write, the object may exist, may not exist, or may appear later: a
    request can arrive after its sender has given up, and a client that repeats a request can be refused because its
    first one had arrived. Read the object to find out.

    All operations raise ObjectStoreError, with the store's code and the key; StoreAccessError if a permission is
    missing.
    """

    @property
    def url(self) -> str:
        """The URL below which the objects are; has no credentials. Pickling a store keeps only this."""
        ...

    def put_new(self, key: str, data: bytes) -> None:
        """Writes an object unless there is one of that name; others see all of it or nothing.

        Raises ObjectExistsError if the store says that there is one.
        """
        ...

    def put(self, key: str, data: bytes) -> None:
        """Writes an object, in place of one of that name if there is one; others see all of it or nothing."""
        ...

    def get(self, key: str, *, limit: int) -> bytes:
        """Returns an object of at most ``limit`` bytes. Raises ObjectMissingError, and CorruptionError if it has more.

        Asks for its size first, or with the same request: an object above the limit is not read into memory.
        """
        ...

    def get_range(self, key: str, start: int, length: int) -> memoryview:
        """Returns exactly ``length`` bytes from position ``start`` on; an object that has fewer is an error.

        They are read-only, and may be the memory of the store's client, so that large ranges are not copied.
        """
        ...

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Returns the bytes of each (start, length), as :meth:`get_range`, in as few requests as is cheap."""
        ...

    def head(self, key: str) -> ObjectFacts | None:
        """Returns the facts of an object; None if the store says that there is none."""
        ...

    def list(self, folder: str, after: str = "") -> Iterator[ObjectFacts]:
        """Yields the objects below ``folder``, such as ``staged``, whose keys are above ``after``, in no order.

        A store may leave out new objects and name deleted ones: use it to find garbage, never to learn what exists.
        """
        ...

    def delete(self, keys: Sequence[str]) -> None:
        """Deletes objects; a key without an object is no error."""
        ...


class RangeStore(Protocol):
    """The operations of :class:`ObjectStore` that reading parts of objects needs."""

    @property
    def url(self) -> str: ...

    def get_range(self, key: str, start: int, length: int) -> memoryview: ...

    def head(self, key: str) -> ObjectFacts | None: ...


class ListingStore(ObjectStore, Protocol):
    """A store whose folders can be listed one by one, so that a few names are found among millions of objects."""

    def list_folder(self, folder: str) -> FolderListing:
        """Returns what is directly in ``folder``; "" is the URL itself. Empty if there is no such folder.

        As with :meth:`list`, new objects may be missing and deleted ones be named.
        """
        ...


def checked_size(key: str, data: bytes) -> bytes:
    """Returns ``data``. Raises ValueError if it is too large for one request, which is a bug of the caller."""
    if len(data) > PUT_BYTES_MAX:
        raise ValueError(f"{key}: {len(data)} bytes are too many for one object, which has at most {PUT_BYTES_MAX}")
    return data
