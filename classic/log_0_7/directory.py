"""PositionLogDirectory: a log directory of Kafka 0.7, open for appends by one process."""

from __future__ import annotations

import logging
import random
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Self

from ...storage.clock import Clock, SystemClock
from ...storage.errors import (
    LogDirLockedError,
    LogStoreError,
    NotALogDirError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from ...storage.filesystem.holders import lock_holders
from ...storage.filesystem.local import LocalFileSystem
from ...storage.filesystem.operations import make_directory_durably
from ...storage.filesystem.port import FileSystem, Lock
from .log import PositionLog
from .names import CLEAN_SHUTDOWN_FILE, LOCK_FILE, SUFFIX, check_topic, directory_name, partition_of
from .retention import retain
from .settings import PositionLogSettings

_OF_LATER = ("meta.properties", "topics.json")
_SEGMENT_OF_LATER = re.compile(r"[0-9]{20}\.log")

logger = logging.getLogger(__name__)


class PositionLogDirectory:
    """Owns the logs of a directory. Any thread may call its methods."""

    def __init__(
        self,
        directory: str,
        settings: PositionLogSettings | None = None,
        *,
        filesystem: FileSystem | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Opens all logs of ``directory``, which is created if missing.

        Without the file ``.kafka_cleanshutdown``, which is removed, every log is recovered. Raises LogDirLockedError if
        another process has the directory, NotALogDirError if it has a directory that is no partition, and what
        :class:`PositionLog` raises.
        """
        self.directory, self.settings = directory.rstrip("/") or "/", settings or PositionLogSettings()
        self.filesystem, self.clock = filesystem or LocalFileSystem(), clock or SystemClock()
        self._creating = threading.Lock()  # Guards the logs; held while one is made.
        self._logs: dict[tuple[str, int], PositionLog] = {}
        with ExitStack() as opening, _storage_errors(self.directory):
            make_directory_durably(self.filesystem, self.directory)
            self._lock = opening.enter_context(self._locked())
            self._logs = dict(self._opened(recovers=not self._was_closed_in_order()))
            self._remove_marker()
            opening.pop_all()

    def _locked(self) -> Lock:
        path = f"{self.directory}/{LOCK_FILE}"
        lock = self.filesystem.lock(path, wait=False)
        if lock is None:
            raise LogDirLockedError(f"{self.directory} is open in another process; stop that first{lock_holders(path)}")
        return lock

    def _was_closed_in_order(self) -> bool:
        return self.filesystem.status(f"{self.directory}/{CLEAN_SHUTDOWN_FILE}") is not None

    def _opened(self, *, recovers: bool) -> Iterator[tuple[tuple[str, int], PositionLog]]:
        for name, (topic, partition) in position_partitions(self.filesystem, self.directory, strict=True).items():
            path = f"{self.directory}/{name}"
            yield (topic, partition), self._log(path, topic, recovers=recovers)

    def _log(self, path: str, topic: str, *, recovers: bool) -> PositionLog:
        return PositionLog(self.filesystem, path, self.settings, self.clock, topic=topic, recovers=recovers)

    def _remove_marker(self) -> None:
        """Removes the file that tells that nothing has to be recovered, before the first append."""
        if self._was_closed_in_order():
            self.filesystem.remove(f"{self.directory}/{CLEAN_SHUTDOWN_FILE}")
            self.filesystem.sync_directory(self.directory)

    @property
    def logs(self) -> Mapping[tuple[str, int], PositionLog]:
        """The logs that exist, by topic and partition."""
        return dict(self._logs)

    def log(self, topic: str, partition: int) -> PositionLog | None:
        """Returns a log; None if nothing was appended to the partition yet.

        Raises InvalidTopicError for a name that no topic can have, and UnknownTopicOrPartitionError for a partition
        that the topic does not have.
        """
        check_topic(topic)
        if not 0 <= partition < self.settings.partitions_of(topic):
            raise UnknownTopicOrPartitionError(
                f"topic {topic} has {self.settings.partitions_of(topic)} partitions, but not {partition}"
            )
        return self._logs.get((topic, partition))

    def log_to_append(self, topic: str, partition: int) -> PositionLog:
        """Returns a log, which is created if missing. Raises like :meth:`log`, and StorageError if the disk fails."""
        found = self.log(topic, partition)
        if found is not None:
            return found
        with self._creating, _storage_errors(self.directory):
            if (topic, partition) not in self._logs:
                path = f"{self.directory}/{directory_name(topic, partition)}"
                self._logs |= {(topic, partition): self._log(path, topic, recovers=False)}
            return self._logs[topic, partition]

    def any_partition(self, topic: str) -> int:
        """Returns one of the partitions of ``topic``, chosen at random."""
        return random.randrange(self.settings.partitions_of(topic))

    def sync_due(self) -> None:
        """Syncs each log whose last sync is long enough ago. Raises StorageError if the disk fails."""
        for log in self.logs.values():
            log.sync_if_due()

    def retain(self) -> list[str]:
        """Deletes files by time and by size, in every log; returns their paths."""
        return [path for log in self.logs.values() for path in retain(log, self.clock)]

    def close(self) -> None:
        """Syncs and closes all logs, and then writes ``.kafka_cleanshutdown``, so that the next start need not recover.

        If a sync fails, now or earlier, raises StorageError and does not write it.
        """
        try:
            with ExitStack() as closing:
                for log in self._logs.values():
                    closing.callback(log.close)
            self._write_marker()
        finally:
            self._lock.release()

    def _write_marker(self) -> None:
        failed = [log.directory for log in self._logs.values() if log.has_failed]
        if failed:
            raise StorageError(f"{', '.join(failed)}: a write failed; the next start recovers all logs")
        with _storage_errors(self.directory):
            self.filesystem.open(f"{self.directory}/{CLEAN_SHUTDOWN_FILE}", "create").close()
            self.filesystem.sync_directory(self.directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def position_partitions(filesystem: FileSystem, directory: str, *, strict: bool = False) -> dict[str, tuple[str, int]]:
    """Returns topic and partition of each directory in ``directory`` that is a partition by its name.

    Raises NotALogDirError if two are the same partition, for a log of Kafka 0.8 or later and, if ``strict``, for a
    directory that is no partition: 0.7.2 does not start then. Files beside them are left alone.
    """
    names: dict[tuple[str, int], str] = {}
    for name in filesystem.list(directory):
        status = filesystem.status(f"{directory}/{name}")
        if status is None or not status.is_directory:
            continue
        partition = partition_of(name)
        if partition is None and strict:
            raise NotALogDirError(
                f"{directory}/{name} is no partition: its name does not end in - and a number; move it elsewhere"
            )
        if partition in names:
            raise NotALogDirError(f"{directory} has partition {partition} twice, once as {name}; remove the wrong one")
        if partition is not None:
            names[partition] = name
    _check_not_later(filesystem, directory, names.values())
    return {name: partition for partition, name in names.items()}


def _check_not_later(filesystem: FileSystem, directory: str, partitions: Iterable[str]) -> None:
    """Raises NotALogDirError for a log of Kafka 0.8 or later.

    Readers would find nothing in it, and our ``.kafka_cleanshutdown`` would let its broker start without a recovery.
    """
    found = next((each for each in _OF_LATER if filesystem.status(f"{directory}/{each}") is not None), None)
    for partition in () if found is not None else partitions:
        files = filesystem.list(f"{directory}/{partition}")
        if not any(each.endswith(SUFFIX) for each in files):
            found = next((f"{partition}/{each}" for each in files if _SEGMENT_OF_LATER.fullmatch(each)), found)
    if found is not None:
        raise NotALogDirError(f"{directory} has {found}: it is a log of Kafka 0.8 or later, not one of 0.7")


@contextmanager
def _storage_errors(directory: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, LogStoreError):
            raise
        raise StorageError(f"{directory}: {error}") from error
