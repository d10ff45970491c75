"""Parts of objects: read ahead by threads, and cached while there is room."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import NamedTuple

from ...filesystem.locks import process_id
from ..stores.patience import PatientRanges

PART_BYTES = 4 << 20  # of one request
AHEAD_BYTES = 8 << 20  # read ahead of a reader that goes from part to part
AHEAD_PARTS = 32
KEPT_BYTES = 64 << 20  # limit of parts in memory, for all readers of a log, including parts being read
THREADS = 8


class Part(NamedTuple):
    """Some bytes of an object."""

    key: str
    start: int
    length: int
    object_size: int


class Progress:
    """The progress of reads of a file, which decides how much to read ahead.

    A sequential reader begins again at the batch that its last read cut off, or repeats a read with more bytes. Small
    reads within earlier ones, such as of a header, change nothing.
    """

    def __init__(self) -> None:
        self._first = self._reached = -1

    def ahead_of(self, position: int, length: int) -> int:
        """Returns how many bytes to read ahead after a read: as many as it asks for; 0 if it is not sequential."""
        end = position + length
        if self._first <= position and end <= self._reached:
            return 0
        goes_on = self._first <= position <= self._reached
        self._first, self._reached = position, end
        return min(length, AHEAD_BYTES) if goes_on else 0


class Parts:
    """Reads parts of objects for all files of a log. For any thread of one process."""

    def __init__(self, store: PatientRanges) -> None:
        self._store = store
        self._forget()

    def _forget(self) -> None:
        """Drops all parts: a forked process lacks the threads that read them, and may have inherited a held lock."""
        self._process = process_id()
        self._lock = Lock()  # Guards the parts, their size and the threads.
        self._kept: OrderedDict[tuple[str, int, int], Future[memoryview]] = OrderedDict()
        self._bytes = 0
        self._threads: ThreadPoolExecutor | None = None

    def get(self, wanted: Sequence[Part], ahead: Sequence[Part] = ()) -> list[memoryview]:
        """Returns the parts; also starts reading those in ``ahead``, without waiting for them.

        Raises ObjectMissingError, ObjectStoreError, and CorruptionError if an object is too short.
        """
        if self._process != process_id():
            self._forget()
        begun = [self._begin(part) for part in wanted]
        for part in ahead:
            self._begin(part)
        return [future.result() for future in begun]

    def forget(self, objects: set[str]) -> None:
        """Drops the parts of some objects, so that they are read again."""
        with self._lock:
            for key in [key for key in self._kept if key[0] in objects]:
                del self._kept[key]
                self._bytes -= key[2]

    def _begin(self, part: Part) -> Future[memoryview]:
        key = part[:3]
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                if not _has_failed(found):
                    return found
            if self._threads is None:
                self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="commitlog object store")
            self._bytes += part.length if found is None else 0
            found = self._kept[key] = self._threads.submit(self._store.read_range, *part)
            while self._bytes > KEPT_BYTES and len(self._kept) > 1:
                _, _, length = self._kept.popitem(last=False)[0]
                self._bytes -= length
            return found


def _has_failed(future: Future[memoryview]) -> bool:
    """Whether a cached read has failed, so the part must be read again."""
    return future.done() and future.exception() is not None
