"""Partitions: the partitions whose logs are open. Opening one may take long, so a separate thread does it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock

from ...protocol.bodies import ErrorCode
from ...protocol.errors import RequestError
from ...storage import (
    CorruptionError,
    HoldingTransaction,
    LogManager,
    LogStoreError,
    TopicPartition,
    UnknownTopicOrPartitionError,
    hanging_transactions,
)
from ..threads.disk_faults import DiskFaults
from ..threads.worker import Worker
from .file_partition import FilePartition
from .file_reading import DamagedPartition
from .led_partition import LedPartition, Waits
from .topics import Topics

FAILURE_S = 1.0  # how long a partition that could not be opened is not tried again
LOCK_S = 0.5  # how long a partition waits for another process that holds its lock, while others are opened
LOCK_POLL_S = 0.01

logger = logging.getLogger(__name__)


class NotOpenError(Exception):
    """Partitions are not open yet: open them with :meth:`Partitions.open_then`, then try again."""

    def __init__(self, partitions: Collection[TopicPartition]) -> None:
        self.partitions = partitions
        super().__init__(f"not open: {', '.join(map(str, partitions))}")


class BeingDeletedError(UnknownTopicOrPartitionError):
    """A topic is closed because it is being deleted. If the deletion is refused, it can be opened again."""


@dataclass
class _Opening:
    """Partitions whose locks other processes hold, and the function to call once all are open or have failed."""

    held: set[TopicPartition]
    then: Callable[[], None]


class Partitions(Worker):
    """The open partitions. For any thread; logs are opened and closed in a separate one."""

    def __init__(
        self,
        manager: LogManager,
        topics: Topics,
        leads: Callable[[str, int], bool] = lambda _topic, _partition: True,
        open_partition: Callable[[LogManager, TopicPartition], LedPartition] | None = None,
        on_damage: Callable[[CorruptionError], None] = lambda _: None,
        faults: DiskFaults | None = None,
    ) -> None:
        """``manager``: used only here, and closed at the end. ``leads`` returns whether this node leads a partition.

        ``open_partition``: :func:`open_file_partition` by default; called in the opener's thread. ``on_damage`` is
        called with damage that is found at an opening, perhaps again and again. ``faults`` reports what fails on the
        disk.
        """
        super().__init__("gateway-opener")
        self._manager, self._topics, self._leads = manager, topics, leads
        self._open_partition, self._on_damage = open_partition or open_file_partition, on_damage
        self._faults = faults
        self.waits = Waits()
        self._led: dict[TopicPartition, LedPartition] = {}
        self._failures: dict[TopicPartition, tuple[Exception, float]] = {}  # each with the time until which it counts
        self._closed: set[str] = set()  # topics that are being deleted
        self._guard = Lock()  # Guards the partitions.
        self._openings: list[_Opening] = []  # the openings that wait for locks
        self._held_until_s: dict[TopicPartition, float] = {}  # the waiting partitions, and when each gives up
        self._looks_again = False
        self._warned_of: set[tuple[TopicPartition, HoldingTransaction]] = set()

    def led(
        self, wanted: Collection[TopicPartition], *, by_any: bool = False
    ) -> Mapping[TopicPartition, LedPartition | Exception]:
        """Returns each partition, or the error that prevents its use, such as RequestError if another node leads it.

        ``by_any``: return partitions that other nodes lead, too. Raises NotOpenError with the partitions to open first.
        """
        found = {each: self.look(*each, by_any=by_any) for each in wanted}
        unopened = [each for each, led in found.items() if isinstance(led, NotOpenError)]
        if unopened:
            raise NotOpenError(unopened)
        return found

    def one(self, topic: str, partition: int) -> LedPartition:
        """Returns a partition. Raises NotOpenError, or the error that prevents its use."""
        wanted = TopicPartition(topic, partition)
        found = self.led([wanted])[wanted]
        if isinstance(found, Exception):
            raise found
        return found

    def look(self, topic: str, partition: int, *, by_any: bool = False) -> LedPartition | Exception:
        """Like :meth:`led`, for one partition; returns NotOpenError if it must be opened first."""
        wanted = TopicPartition(topic, partition)
        led = self._led.get(wanted)
        if led is not None and led.is_usable:
            return led if by_any or self._leads(topic, partition) else _led_elsewhere(wanted)
        failure, until_s = self._failures.get(wanted, (None, 0.0))
        if failure is not None and time.monotonic() < until_s:
            return failure
        found = self._unopened(wanted)
        if isinstance(found, NotOpenError) and not (by_any or self._leads(topic, partition)):
            return _led_elsewhere(wanted)
        return found

    def _unopened(self, wanted: TopicPartition) -> Exception:
        if wanted.topic in self._closed:
            return BeingDeletedError(f"topic {wanted.topic!r} is being deleted")
        topic = self._topics.find(wanted.topic)
        if topic is None or not topic.has(wanted.partition):
            return UnknownTopicOrPartitionError(f"there is no partition {wanted.partition} of topic {wanted.topic!r}")
        return NotOpenError([wanted])

    def leader_epoch(self, topic: str, partition: int) -> int:
        """Returns the leader epoch of a partition; -1 if it is not open."""
        led = self._led.get(TopicPartition(topic, partition))
        return -1 if led is None else led.leader_epoch

    def all(self) -> list[LedPartition]:
        """Returns the open partitions."""
        with self._guard:
            return list(self._led.values())

    def open_then(self, wanted: Collection[TopicPartition], then: Callable[[], None]) -> None:
        """Opens partitions in the opening thread, then calls ``then`` there."""

        def task() -> None:
            held = {each for each in wanted if not self._is_opened(each)}
            if held:
                self._openings.append(_Opening(held, then))
                self._look_again()
            else:
                then()

        self.run(task)

    def _is_opened(self, wanted: TopicPartition) -> bool:
        """Opens a partition, or notes why it cannot be; False while it waits for a process that holds its lock."""
        with self._guard:
            led = self._led.get(wanted)
        if led is not None and led.is_usable:
            return True
        try:
            if self._is_to_wait(wanted):
                return False
            opened = self._open_partition(self._manager, wanted)
        except Exception as error:
            if isinstance(error, RequestError):
                logger.warning("%s", error)
            elif isinstance(error, CorruptionError):
                self._on_damage(error)
            elif not isinstance(error, (LogStoreError, OSError)):  # a bug; waiting clients get an answer
                logger.error("%s cannot be opened", wanted, exc_info=error)
            elif self._faults is not None:
                self._faults.failed(error)
            self._failures[wanted] = error, time.monotonic() + FAILURE_S
            return True
        if opened.damage is not None:
            self._on_damage(opened.damage)
        else:
            self._warn_of_hanging(wanted, opened)
        with self._guard:
            self._led[wanted] = opened
        if led is not None:
            led.leave()
        return True

    def _warn_of_hanging(self, wanted: TopicPartition, opened: LedPartition) -> None:
        """Logs, each once, the open transactions that came with the log and that no coordinator knows."""
        if not isinstance(opened, FilePartition):  # on an object store, no transaction in the log is open
            return
        found = []
        with suppress(LogStoreError, OSError):  # an error here is reported by the requests that need the data
            found = opened.ask(lambda log: hanging_transactions(self._manager, wanted, log))
        for each in found:
            if (wanted, each.transaction) not in self._warned_of:
                self._warned_of.add((wanted, each.transaction))
                logger.warning("%s: %s", wanted, each)

    def _is_to_wait(self, wanted: TopicPartition) -> bool:
        """Whether the opening must wait for a process with the append lock.

        Raises RequestError if that takes too long.
        """
        until_s = self._held_until_s.pop(wanted, None)
        if self._manager.bucket is not None or not self._manager.is_append_locked(*wanted):
            return False
        now_s = time.monotonic()
        if until_s is not None and now_s > until_s:
            raise RequestError(
                ErrorCode.leader_not_available,
                f"{wanted} cannot be opened, because another process holds its lock; is that process paused?",
            )
        self._held_until_s[wanted] = now_s + LOCK_S if until_s is None else until_s
        return True

    def _look_again(self) -> None:
        """Schedules one check of all partitions that wait for locks."""
        if self._openings and not self._looks_again:
            self._looks_again = True
            self.later(LOCK_POLL_S, self._open_held)

    def _open_held(self) -> None:
        self._looks_again = False
        held = {each for opening in self._openings for each in opening.held}
        opened = {each for each in held if self._is_opened(each)}
        for opening in self._openings:
            opening.held -= opened
            if not opening.held:
                self.run(opening.then)
        self._openings = [opening for opening in self._openings if opening.held]
        self._look_again()

    def close_topics(
        self, topics: Collection[str], then: Callable[[], None] = lambda: None, *, keep_closed: bool = False
    ) -> None:
        """Closes the partitions of topics in the opening thread, then calls ``then`` there.

        With ``keep_closed``, they cannot be opened again before :meth:`reopen_topic`.
        """
        topics = frozenset(topics)
        if keep_closed:
            self._closed |= topics

        def task() -> None:
            with self._guard:
                left = [self._led.pop(each) for each in list(self._led) if each.topic in topics]
            for led in left:
                led.leave()
            with suppress(LogStoreError, OSError):  # the directory may be gone
                self._manager.close_logs(topics)
            then()

        self.run(task)

    def close_topic(self, topic: str, then: Callable[[], None] = lambda: None, *, keep_closed: bool = False) -> None:
        """Like :meth:`close_topics`, for one."""
        self.close_topics([topic], then, keep_closed=keep_closed)

    def reopen_topic(self, topic: str) -> None:
        """Allows a topic closed with ``keep_closed`` to be opened again."""
        self._closed.discard(topic)

    def close(self) -> None:
        """Closes all logs cleanly."""
        for led in self.all():
            led.leave()
        self._manager.close()


def open_file_partition(manager: LogManager, wanted: TopicPartition, *, has_tier: bool = False) -> LedPartition:
    """Opens a partition of a log directory; for reading only if its log is damaged.

    ``has_tier``: the gateway reads from a tier the records that the log only has there.

    Raises the errors of :meth:`LogManager.open_log`, but CorruptionError only if nothing can be read.
    """
    files = manager.filesystem.status(manager.partition_path(*wanted))  # first: files may be replaced after loading
    try:
        return FilePartition(*wanted, manager.open_log(*wanted, reports_remote=not has_tier), files, has_tier=has_tier)
    except CorruptionError as error:
        reader = manager.open_reader(*wanted, reports_remote=False)
        return DamagedPartition(*wanted, reader, error, has_tier=has_tier)


def _led_elsewhere(partition: TopicPartition) -> RequestError:
    return RequestError(ErrorCode.not_leader_or_follower, f"another node leads {partition}; refresh the metadata")
