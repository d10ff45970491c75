"""EventQueue: the bounded queue between a program's threads and the sending thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from threading import Condition, Lock

from ...storage import Clock
from .messages import QueueItem


class EventQueue:
    """A queue of at most ``capacity`` items, for several threads. Timeouts use the clock's alarms."""

    def __init__(self, capacity: int, clock: Clock) -> None:
        self._capacity = capacity
        self._clock = clock
        self._items: deque[QueueItem] = deque()
        self._lock = Lock()  # Guards all fields.
        self._is_filled, self._has_room = Condition(self._lock), Condition(self._lock)
        self._wanted = 0  # how many items the taker waits for; 0: it does not wait
        self._waiting = 0  # threads that wait for room
        self._closed = False
        self.accepted = 0  # items put into the queue since it was created

    def __len__(self) -> int:
        return len(self._items)

    @property
    def is_closed(self) -> bool:
        return self._closed

    def put(self, items: Sequence[QueueItem], timeout_ms: int) -> int:
        """Adds items in order, and returns how many: fewer if there was no room in time, or the queue is closed.

        ``timeout_ms``: how long to wait for room, for all items together. 0: do not wait; negative: no limit.
        """
        count = len(items)
        with self._lock:
            put = self._put(items, count)
            if put == count or timeout_ms == 0 or self._closed:
                return put
            is_over = _Alarm(self._clock, timeout_ms, self._has_room) if timeout_ms > 0 else None
            self._waiting += 1
            try:
                while put < count and not self._closed and not (is_over and is_over.rang):
                    self._has_room.wait()
                    put += self._put(items[put:], count - put)
            finally:
                self._waiting -= 1
                if is_over:
                    is_over.drop()
            return put

    def _put(self, items: Sequence[QueueItem], count: int) -> int:
        queue = self._items
        room = 0 if self._closed else self._capacity - len(queue)
        if count > room:
            count, items = room, items[:room]
        queue.extend(items)
        if self._wanted and len(queue) >= self._wanted:
            self._wanted = 0  # woken once is enough
            self._is_filled.notify()
        self.accepted += count
        return count

    def take(self, most: int, timeout_ms: int) -> list[QueueItem] | None:
        """Removes and returns ``most`` items; after ``timeout_ms``, or when the queue is closed, fewer.

        Returns None if the queue is closed and empty. Only one thread may call this.
        """
        with self._lock:
            if len(self._items) < most and not self._closed and timeout_ms > 0:
                self._await(most, timeout_ms)
            if self._closed and not self._items:
                return None
            taken = list(islice(self._items, most))
            if len(taken) == len(self._items):
                self._items.clear()
            else:
                for _ in taken:
                    self._items.popleft()
            if self._waiting:
                self._has_room.notify_all()
            return taken

    def _await(self, wanted: int, timeout_ms: int) -> None:
        is_over = _Alarm(self._clock, timeout_ms, self._is_filled)
        self._wanted = wanted
        try:
            while len(self._items) < wanted and not self._closed and not is_over.rang:
                self._is_filled.wait()
        finally:
            self._wanted = 0
            is_over.drop()

    def close(self) -> bool:
        """Refuses new items; those in the queue can still be taken. Returns False if it was closed already."""
        with self._lock:
            was_open, self._closed = not self._closed, True
            self._is_filled.notify_all()
            self._has_room.notify_all()
            return was_open


class _Alarm:
    """Wakes the threads that wait for a condition, when a time is over."""

    def __init__(self, clock: Clock, duration_ms: int, condition: Condition) -> None:
        self.rang = False
        self._condition = condition
        self.drop: Callable[[], None] = clock.set_alarm(duration_ms, self._ring)

    def _ring(self) -> None:
        with self._condition:
            self.rang = True
            self._condition.notify_all()
