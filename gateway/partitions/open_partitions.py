"""Partitions: the partitions whose logs are open. Opening one may take long, so it is done by a thread of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from threading import Lock

from ...storage import LogManager, LogStoreError, UnknownTopicOrPartitionError
from ..worker import Worker
from .led_partition import LedPartition
from .topics import Topics

Place = tuple[str, int]  # topic and partition
FAILURE_S = 1.0  # for so long a partition that could not be opened is not tried again


class NotOpenError(Exception):
    """Partitions are not open yet: open them with :meth:`Partitions.open_then`, then ask again."""

    def __init__(self, places: Collection[Place]) -> None:
        self.places = places
        super().__init__(f"{places} are not open")


class Partitions(Worker):
    """The open partitions. For any thread; the logs are opened and closed in its own."""

    def __init__(self, manager: LogManager, topics: Topics) -> None:
        """``manager``: used by no other; it is closed at the end."""
        super().__init__("gateway-opener")
        self._manager, self._topics = manager, topics
        self._led: dict[Place, LedPartition] = {}
        self._failures: dict[Place, tuple[Exception, float]] = {}  # of the last opening, and until when it counts
        self._closed: set[str] = set()  # topics that are being deleted
        self._guard = Lock()

    def led(self, places: Collection[Place]) -> Mapping[Place, LedPartition | Exception]:
        """Returns the partitions, or why they cannot be had. Raises NotOpenError with those that are to be opened."""
        found = {place: self.look(*place) for place in places}
        unopened = [place for place, each in found.items() if isinstance(each, NotOpenError)]
        if unopened:
            raise NotOpenError(unopened)
        return found

    def one(self, topic: str, partition: int) -> LedPartition:
        """Returns a partition. Raises NotOpenError, and the error if it cannot be had."""
        found = self.led([(topic, partition)])[topic, partition]
        if isinstance(found, Exception):
            raise found
        return found

    def look(self, topic: str, partition: int) -> LedPartition | Exception:
        """Returns a partition, or why it cannot be had: NotOpenError if it is to be opened."""
        place = (topic, partition)
        led = self._led.get(place)
        if led is not None and led.is_usable:
            return led
        failure, until_s = self._failures.get(place, (None, 0.0))
        if failure is not None and time.monotonic() < until_s:
            return failure
        return self._unopened(place)

    def _unopened(self, place: Place) -> Exception:
        topic = self._topics.find(place[0])
        if topic is None or place[1] not in topic.partitions or place[0] in self._closed:
            return UnknownTopicOrPartitionError(f"no partition {place[1]} of a topic {place[0]!r}")
        return NotOpenError([place])

    def leader_epoch(self, topic: str, partition: int) -> int:
        """Returns the leader epoch of a partition; -1 if it is not open."""
        led = self._led.get((topic, partition))
        return -1 if led is None else led.leader_epoch

    def all(self) -> list[LedPartition]:
        """Returns the open partitions."""
        with self._guard:
            return list(self._led.values())

    def open_then(self, places: Collection[Place], then: Callable[[], None]) -> None:
        """Opens partitions, then calls ``then`` in the thread of the opener."""

        def task() -> None:
            for place in places:
                self._open(place)
            then()

        self.run(task)

    def _open(self, place: Place) -> None:
        with self._guard:
            led = self._led.get(place)
        if led is not None and led.is_usable:
            return
        try:
            opened = LedPartition(*place, self._manager.open_log(*place))
        except (LogStoreError, OSError) as error:
            self._failures[place] = error, time.monotonic() + FAILURE_S
            return
        with self._guard:
            self._led[place] = opened
        if led is not None:
            led.leave()

    def close_topic(self, topic: str, then: Callable[[], None] = lambda: None, *, keep_closed: bool = False) -> None:
        """Closes the partitions of a topic, in the thread of the opener, then calls ``then``.

        With ``keep_closed``, they cannot be opened again before :meth:`reopen_topic`.
        """
        if keep_closed:
            self._closed.add(topic)

        def task() -> None:
            with self._guard:
                left = [self._led.pop(place) for place in list(self._led) if place[0] == topic]
            for led in left:
                led.leave()
            with suppress(LogStoreError, OSError):  # the directory may be gone
                self._manager.close_logs(topic)
            then()

        self.run(task)

    def reopen_topic(self, topic: str) -> None:
        """Ends what ``keep_closed`` began."""
        self._closed.discard(topic)

    def close(self) -> None:
        """Closes all logs cleanly."""
        for led in self.all():
            led.leave()
        self._manager.close()
