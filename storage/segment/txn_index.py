"""The ``.txnindex`` of a segment: aborted transactions (Kafka's TransactionIndex)."""

from __future__ import annotations

from bisect import bisect_left

from ..errors import CorruptIndexError, InvalidOffsetError
from ..filesystem.port import FileSystem
from ..format.files.index_entries import TXN_ENTRY, AbortedTxn, decode_aborted, encode_aborted
from .index_file import SidecarFile


class TransactionIndex:
    """The aborted transactions whose markers are in the segment (``.txnindex``). The first entry creates the file."""

    def __init__(self, filesystem: FileSystem, path: str, base_offset: int, *, writable: bool = True) -> None:
        """Opens no file."""
        self.base_offset = base_offset
        self._file = SidecarFile(filesystem, path, writable)
        self._loaded: list[AbortedTxn] | None = None

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def entries(self) -> list[AbortedTxn]:
        """All aborted transactions in the order of their markers; the caller must not change the list.

        Raises CorruptIndexError for an entry of an unknown version.
        """
        if self._loaded is None:
            try:
                self._loaded = decode_aborted(self._file.read_entries(TXN_ENTRY.itemsize))
            except CorruptIndexError as error:
                raise error.located(self.path) from None
        return self._loaded

    def append(self, aborted: AbortedTxn) -> None:
        """Add a transaction. Raises InvalidOffsetError unless its marker is above the marker of the last entry.

        After a crash, the disk may hold all, none or a part of the entry. Readers ignore a part, and the next append
        overwrites it.
        """
        if self.entries and aborted.last_offset <= self.entries[-1].last_offset:
            last = self.entries[-1].last_offset
            raise InvalidOffsetError(
                f"{self.path}: cannot append the marker at offset {aborted.last_offset}: the last one is at {last}"
            )
        self._file.for_writing().write(len(self.entries) * TXN_ENTRY.itemsize, encode_aborted([aborted]))
        self.entries.append(aborted)

    def collect_aborted(self, fetch_offset: int, upper_bound_offset: int) -> tuple[list[AbortedTxn], bool]:
        """Returns (the aborted transactions with records in [fetch_offset, upper_bound_offset), whether these are all).

        If not, the index of the next segment may contain more.
        """
        found = []
        begin = bisect_left(self.entries, fetch_offset, key=lambda entry: entry.last_offset)
        for entry in self.entries[begin:]:
            if entry.first_offset < upper_bound_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Remove the transactions whose marker is at or above ``offset``."""
        count = bisect_left(self.entries, offset, key=lambda entry: entry.last_offset)
        if count < len(self.entries):
            self._file.for_writing().truncate(count * TXN_ENTRY.itemsize)
            del self.entries[count:]

    def reset(self) -> None:
        """Remove all transactions; creates no file."""
        if self._file.filesystem.status(self.path) is not None:
            self._file.for_writing().truncate(0)
        self._loaded = []

    def sanity_check(self) -> None:
        """Raises CorruptIndexError, with the position in the file, unless all entries are complete and in order."""
        if self._file.size() % TXN_ENTRY.itemsize:
            raise self._corrupt("the file ends with part of an entry; rebuild the index", len(self.entries))
        before = self.base_offset - 1
        for n, entry in enumerate(self.entries):
            if entry.last_offset <= before or entry.first_offset >= entry.last_offset:
                raise self._corrupt(
                    f"the marker of {entry} must be above its first offset and above {before}; rebuild the index", n
                )
            before = entry.last_offset

    def sync(self) -> None:
        """Wait until the file, if there is one, is on disk."""
        self._file.sync()

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._file.close()
        self._loaded = None

    def rename_to(self, path: str) -> None:
        """Rename the file, if there is one; does not sync the directory."""
        self._file.rename_to(path)

    def _corrupt(self, reason: str, entry: int) -> CorruptIndexError:
        return CorruptIndexError(reason, path=self.path, position=entry * TXN_ENTRY.itemsize)
