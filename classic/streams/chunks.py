"""ChunkQueue: chunks that were fetched for a stream and not yet read, bounded by their number."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection

from ..zookeeper_groups.assignment import Partition
from .port import Chunk


class ChunkQueue:
    """Chunks of one stream. Fetchers add, the stream's thread takes; ``on_room`` is called after it took one."""

    def __init__(self, chunks_max: int, on_room: Callable[[], None] = lambda: None) -> None:
        self.on_room = on_room
        self.lock = threading.RLock()  # held while a message is yielded, and while chunks are dropped
        self.current: Chunk | None = None  # the chunk whose messages the stream returns now
        self._chunks_max = chunks_max
        self._chunks: deque[Chunk] = deque()
        self._filled = threading.Condition(self.lock)
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """Whether the stream has ended."""
        return self._is_closed

    @property
    def has_room(self) -> bool:
        """Whether a fetcher may add more."""
        return len(self._chunks) < self._chunks_max

    def put(self, chunk: Chunk) -> None:
        """Adds a chunk. Never blocks, because a fetcher checks :attr:`has_room` before it fetches."""
        with self._filled:
            if not self._is_closed and not chunk.progress.has_failed:
                self._chunks.append(chunk)
                self._filled.notify()

    def take(self, timeout_s: float | None) -> Chunk | None:
        """Waits for the next chunk, makes it the current one and returns it; None if the queue was closed.

        Raises TimeoutError after ``timeout_s`` seconds; None: no limit.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._filled:
            self.current = None
            while not self._chunks:
                if self._is_closed:
                    return None
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError
                self._filled.wait(left)
            self.current = self._chunks.popleft()
        self.on_room()
        return self.current

    def drop(self, partitions: Collection[Partition] | None = None) -> None:
        """Drops the chunks of partitions, None: of all.

        After this returns, the stream yields none of their messages.
        """
        with self._filled:
            for chunk in (*self._chunks, *([] if self.current is None else [self.current])):
                if partitions is None or chunk.progress.partition in partitions:
                    chunk.is_stale = True
            self._chunks = deque(each for each in self._chunks if not each.is_stale)

    def close(self) -> None:
        """Ends the stream; remaining chunks are dropped."""
        with self._filled:
            self.drop()
            self._is_closed = True
            self._filled.notify_all()
