"""Arrivals: what streams fetched and nobody has written yet."""

from __future__ import annotations

from collections import deque
from threading import Condition
from typing import NamedTuple

from ..storage import Forwarded
from .sources.port import SourcePartition

PIECES_MAX = 2  # for each stream, without a queue.size


class Piece(NamedTuple):
    """What a fetch brought from one partition."""

    partition: SourcePartition  # of the source
    forwarded: Forwarded

    @property
    def records(self) -> int:
        return sum(int(batches.headers.table["count"].sum()) for _, batches in self.forwarded.shares)


class Arrivals:
    """A queue between the streams of a source and the thread that writes. For any thread."""

    def __init__(self, streams: int, records_max: int | None) -> None:
        """``records_max``: records that may wait; one fetch may exceed it. None: two fetches of each stream."""
        self._most = PIECES_MAX * streams if records_max is None else records_max
        self._counts_records = records_max is not None
        self._waiting: deque[Piece | BaseException] = deque()
        self._size = 0
        self._changed = Condition()  # Guards what waits, and its size.

    def put(self, arrived: Piece | BaseException, timeout_s: float) -> bool:
        """Adds a piece, or the error that ended a stream. Returns False if there is no room within the time."""
        size = self._size_of(arrived)
        with self._changed:
            if not self._changed.wait_for(lambda: not self._size or self._size + size <= self._most, timeout_s):
                return False
            self._waiting.append(arrived)
            self._size += size
            self._changed.notify_all()
            return True

    def get(self, timeout_s: float) -> Piece | BaseException | None:
        """Takes what waits longest. Returns None if nothing comes within the time."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._waiting, timeout_s):
                return None
            found = self._waiting.popleft()
            self._size -= self._size_of(found)
            self._changed.notify_all()
            return found

    def _size_of(self, arrived: Piece | BaseException) -> int:
        return max(1, arrived.records) if self._counts_records and isinstance(arrived, Piece) else 1
