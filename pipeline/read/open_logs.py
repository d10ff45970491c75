"""The logs that a process reads repeatedly: opened once, and updated before each read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import NamedTuple

from ...storage import (
    LogManager,
    LogWatcher,
    Marks,
    StorageError,
    TopicIds,
    TopicPartition,
    UnknownTopicOrPartitionError,
    topic_ids,
)

# Logs whose files stay open, one or a few each; a process may have about a thousand.
KEPT = 512
DIRECTORIES_KNOWN = 8

Overrides = tuple[tuple[str, str], ...]


class PartitionState(NamedTuple):
    """The offsets of a partition when its log was last read."""

    first: int  # the log start offset
    next: int  # the log end offset
    end: int  # the offset before which a micro-batch must end

    def begin(self, start: int | None) -> int:
        """Returns the offset to begin at: ``start``, or ``first`` if that is None, deleted, or above the log's end."""
        return self.first if start is None or start > self.next else max(start, self.first)

    def latest(self, start: int | None) -> int:
        """Returns the offset before which a read from ``start`` ends; below ``start`` only if the log ends there."""
        return self.end if start is None or start > self.next else max(start, self.end)


class Seen(NamedTuple):
    """The partitions of a subscription, at one moment."""

    states: dict[TopicPartition, PartitionState]
    ids: TopicIds


class _Known(NamedTuple):
    """A log with the facts it was opened with; if one of them changes, the log is opened again."""

    watcher: LogWatcher
    inode: int  # the inode of its directory; a topic that is created again may get the same one
    topic_id: str | None
    configs: Mapping[str, str]


class OpenLogs:
    """The logs of a directory that one thread reads repeatedly; keeps the state of each log between reads."""

    def __init__(self, directory: str, overrides: Overrides = (), kept: int = KEPT) -> None:
        """Opens nothing, and can be pickled until it is first used.

        ``overrides`` are settings as for ``LogManager.open``; the files of at most ``kept`` logs stay open.
        """
        self._directory = directory
        self._overrides = overrides
        self._kept = kept
        self._is_fresh = False  # whether nothing was read since the last :meth:`look`
        self._known: dict[TopicPartition, _Known] = {}
        self._with_files: dict[TopicPartition, None] = {}  # in order of last use
        self.ids: TopicIds = {}  # the topic ids that the last :meth:`catch_up` read, before it read the logs

    @cached_property
    def manager(self) -> LogManager:
        """The manager, opened on first use. Raises NotALogDirError."""
        self._is_fresh = True
        return LogManager.open(self._directory, overrides=dict(self._overrides))

    def look(self) -> LogManager:
        """Returns the manager, updated with others' changes, to read topics and then their logs."""
        manager = self.manager
        if not self._is_fresh:
            manager.catch_up()
            self._is_fresh = True
        return manager

    def catch_up(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogWatcher]:
        """Returns the logs of ``partitions`` up to their current ends; a partition that does not exist is missing.

        Do not close the logs, and do not use them after the next call. Reads the checkpoint files at the root only once
        for all logs, and includes others' changes like :meth:`look`, unless that was called since the last call.
        """
        marks, configs, found = self.look().all_marks(), dict[str, Mapping[str, str] | None](), {}
        self.ids = topic_ids(self.manager, partitions)
        for partition in partitions:
            if partition.topic not in configs:
                configs[partition.topic] = self._configs(partition.topic)
            of_topic = configs[partition.topic]
            watcher = None if of_topic is None else self._catch_up(partition, of_topic, marks.get(partition, Marks()))
            if watcher is not None:
                found[partition] = watcher
        self._forget_deleted(found)
        self._is_fresh = False
        return found

    def get(self, partition: TopicPartition) -> LogWatcher:
        """Returns the log of a partition in the state of the last :meth:`catch_up`."""
        self._use(partition)
        return self._known[partition].watcher

    def close_files(self) -> None:
        """Closes all files, but keeps the state of the logs.

        The next :meth:`catch_up` checks again that the directory exists. From each log that is still the same, it reads
        only appended data.
        """
        for partition in self._with_files:
            self._known[partition].watcher.close()
        self._with_files.clear()
        manager = self.__dict__.pop("manager", None)
        if manager is not None:
            manager.close()

    def close(self) -> None:
        """Closes all files and discards the state of the logs; the next :meth:`catch_up` opens them again."""
        self.close_files()
        self._known.clear()

    def _configs(self, topic: str) -> Mapping[str, str] | None:
        try:
            found = self.manager.topic(topic)
        except UnknownTopicOrPartitionError:
            return None
        return {**found.broker, **found.configs}

    def _catch_up(self, partition: TopicPartition, configs: Mapping[str, str], marks: Marks) -> LogWatcher | None:
        try:
            return self._open_or_catch_up(partition, configs, marks)
        except (StorageError, UnknownTopicOrPartitionError):
            if self._inode(partition) is not None:
                raise
            return None

    def _open_or_catch_up(
        self, partition: TopicPartition, configs: Mapping[str, str], marks: Marks
    ) -> LogWatcher | None:
        inode, topic_id, known = self._inode(partition), self.ids.get(partition.topic), self._known.get(partition)
        if known is not None and (known.inode, known.topic_id, known.configs) != (inode, topic_id, configs):
            self._forget(partition)
            known = None
        if inode is None:
            return None
        if known is not None:
            self._use(partition)  # first, because an update that fails may have opened files
            known.watcher.catch_up(marks)
            return known.watcher
        watcher = self.manager.open_watcher(*partition, reports_remote=False)
        self._known[partition] = _Known(watcher, inode, topic_id, configs)
        self._use(partition)
        return watcher

    def _inode(self, partition: TopicPartition) -> int | None:
        """Returns the inode of the partition's directory, or None if it is missing.

        A topic may be listed although some of its partitions are deleted already, one after the other.
        """
        status = self.manager.filesystem.status(self.manager.path(str(partition)))
        return None if status is None else status.inode

    def _use(self, partition: TopicPartition) -> None:
        self._with_files.pop(partition, None)
        self._with_files[partition] = None
        while len(self._with_files) > self._kept:
            longest_unused = next(iter(self._with_files))
            del self._with_files[longest_unused]
            self._known[longest_unused].watcher.close()

    def _forget_deleted(self, found: Collection[TopicPartition]) -> None:
        """Closes the files of deleted logs, whose disk space is free only then.

        Nobody asks for a deleted log, so it becomes the longest unused one; only that one is checked. The caller uses
        the logs in ``found``, even if one of them is deleted at this moment.
        """
        while self._with_files:
            longest_unused = next(iter(self._with_files))
            if longest_unused in found or self._inode(longest_unused) == self._known[longest_unused].inode:
                return
            self._forget(longest_unused)

    def _forget(self, partition: TopicPartition) -> None:
        self._known.pop(partition).watcher.close()
        self._with_files.pop(partition, None)


_of_this_process: dict[tuple[str, Overrides, int], OpenLogs] = {}  # in order of last use


def open_logs_of_this_process(directory: str, overrides: Overrides, kept: int = KEPT) -> OpenLogs:
    """Returns the OpenLogs that this process keeps for a directory; creates it on the first call.

    Spark plans many queries in one process, and runs many tasks of a stream in one worker, so the kept state of a log
    makes the next read cheap. Keeps the logs of only a few directories, so that the memory of a process that reads many
    directories does not grow. For one thread, as in Spark's workers.
    """
    asked = (directory, overrides, kept)
    open_logs = _of_this_process.pop(asked, None) or OpenLogs(*asked)
    _of_this_process[asked] = open_logs
    while len(_of_this_process) > DIRECTORIES_KNOWN:
        _of_this_process.pop(next(iter(_of_this_process))).close()
    return open_logs
