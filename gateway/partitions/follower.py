"""Follower: a thread that finds what other processes change in the open partitions.

Spark and the commands write to the same files. If a client waits for a partition, its file is checked every few
milliseconds. A check takes microseconds. Checks of partitions to which others appended in the last minute take at most
a twentieth of the time; those of all others a hundredth, so that 1,000 idle partitions cost little. Nothing is checked
while no client waits. The directory of each partition is checked once per second: retention and compaction may have
replaced segments. So is the checkpoint of log start offsets, which ``commitlog delete-records`` may have raised without
the removal of a segment.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from threading import Event

from ...storage import LOG_START_OFFSET_CHECKPOINT, Log, LogManager, LogStoreError, TopicPartition
from ..threads.kept import KeptThread
from .appender import Appender
from .file_partition import FilePartition
from .led_partition import LedPartition
from .open_partitions import Partitions
from .topics import Topics

LOOK_S = 0.005
SHARE, IDLE_SHARE = 20, 100  # checks take at most these fractions of the time: 1/20 and 1/100
LIVELY_S = 60.0  # a partition counts as idle this long after the last append by others
TOPICS_LOOK_S = 1.0

logger = logging.getLogger(__name__)


class LogStarts:
    """The log start offsets in the checkpoint of a directory, which other processes raise.

    They are in one file, so a partition's own files may show no change.
    """

    def __init__(self, manager: LogManager) -> None:
        """``manager``: used only here."""
        self._manager = manager
        self._seen: object = None
        self._found: Mapping[TopicPartition, int] = {}

    def all(self) -> Mapping[TopicPartition, int]:
        """Returns all offsets; a new object if a process wrote the checkpoint since the last call.

        Raises CorruptionError and OSError if it cannot be read; the next call reads it again.
        """
        seen = self._status()
        if seen != self._seen:
            self._found = self._manager.offsets(LOG_START_OFFSET_CHECKPOINT)
            self._seen = seen
        return self._found

    def close(self) -> None:
        """Closes the manager."""
        self._manager.close()

    def _status(self) -> object:
        return self._manager.filesystem.status(self._manager.path(LOG_START_OFFSET_CHECKPOINT))


def _after(began_s: float, share: int) -> float:
    """Returns when to check again, so that checks as long as the last one take only a fraction of the time."""
    now_s = time.monotonic()
    return now_s + max(LOOK_S, (now_s - began_s) * share)


class Follower:
    """Finds what others appended, segments that they deleted or compacted, and topics that they deleted."""

    def __init__(self, partitions: Partitions, topics: Topics, appender: Appender, starts: LogStarts) -> None:
        """``starts``: used only here, and closed at the end."""
        self._partitions, self._topics, self._appender, self._starts = partitions, topics, appender, starts
        self._waits = partitions.waits
        self._all_at_s = self._lively_at_s = 0.0  # when to check all partitions, and when the lively ones
        self._lively: dict[LedPartition, float] = {}  # the partitions to which others appended, and when
        self._asked: set[LedPartition] = set()  # catching up already
        self._compared: set[LedPartition] = set()  # partitions whose log start was compared with these offsets
        self._compared_with: Mapping[TopicPartition, int] = {}
        self._stopped = Event()
        self._seen = topics.changes
        self._thread = KeptThread("gateway-follower", self._run)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread."""
        self._stopped.set()
        self._waits.any.set()
        self._thread.join()
        self._starts.close()

    def _run(self) -> None:
        topics_at_s = 0.0
        while not self._stopped.is_set():
            try:
                self._look_at_partitions()
                if time.monotonic() >= topics_at_s:
                    topics_at_s = time.monotonic() + TOPICS_LOOK_S
                    self._look_at_topics()
                    self._look_at_directories()
            except (LogStoreError, OSError) as error:
                logger.warning("%s", error)
            except Exception:
                logger.exception("checking the partitions failed")
            self._pause(topics_at_s)

    def _pause(self, topics_at_s: float) -> None:
        """Waits until a partition or the topics must be checked."""
        now_s = time.monotonic()
        due_s = min(self._lively_at_s if self._lively else self._all_at_s, self._all_at_s)
        self._stopped.wait(max(LOOK_S, min(due_s, topics_at_s) - now_s))
        self._waits.any.wait(topics_at_s - time.monotonic())

    def _look_at_partitions(self) -> None:
        """Checks the partitions that clients wait for; checks idle ones less often."""
        began_s = time.monotonic()
        if began_s >= self._all_at_s:
            self._look_at(self._waits.all())
            self._all_at_s = _after(began_s, IDLE_SHARE)
            self._lively = {led: at_s for led, at_s in self._lively.items() if at_s > began_s - LIVELY_S}
            began_s = time.monotonic()
        self._look_at([led for led in self._lively if led.has_waiters])
        self._lively_at_s = _after(began_s, SHARE)

    def _look_at(self, partitions: Collection[LedPartition]) -> None:
        for led in partitions:
            if led not in self._asked and led.is_behind:
                self._asked.add(led)
                self._lively[led] = time.monotonic()
                self._appender.catch_up(led, lambda error, led=led: self._on_caught_up(led, error))  # type: ignore[misc]

    def _look_at_directories(self) -> None:
        partitions = self._partitions.all()
        for led in partitions:
            if isinstance(led, FilePartition) and led.have_files_changed():
                self._take_in(led)
        self._look_at_starts(partitions)  # after the directories, because it fails while the checkpoint cannot be read

    def _look_at_starts(self, partitions: Collection[LedPartition]) -> None:
        """Compares each partition with each content of the checkpoint, even if the partition was opened after the read.

        A log reads the checkpoint when it is opened, and the partition is listed as open only later.
        """
        starts = self._starts.all()
        if starts is not self._compared_with:
            self._compared_with, self._compared = starts, set()
        for led in partitions:
            is_new = led not in self._compared
            if is_new and starts.get(TopicPartition(led.topic, led.partition), 0) > led.log_start_offset:
                self._take_in(led)
        self._compared = set(partitions)

    def _take_in(self, led: LedPartition) -> None:
        self._appender.change(led, Log.take_in_maintenance, lambda _: None)

    def _on_caught_up(self, led: LedPartition, error: Exception | None) -> None:
        self._asked.discard(led)
        if error is not None:
            led.wake()  # the fetch that waits finds the error

    def _look_at_topics(self) -> None:
        """Closes the partitions of topics that no longer exist."""
        changes = self._topics.changes
        if changes == self._seen:
            return
        self._seen = changes
        topics = self._topics.all()
        for name in {led.topic for led in self._partitions.all()} - set(topics):
            self._partitions.close_topic(name)
