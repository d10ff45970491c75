"""The logs that one process reads again and again: opened once, brought up to date at every look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

from pyspark_commitlog.pipeline.offsets import TopicPartition
from pyspark_commitlog.storage import LogManager, LogWatcher, Marks, StorageError, UnknownTopicOrPartitionError

# Logs whose files stay open, one or a few each; a process may have about a thousand.
KEPT = 512
DIRECTORIES_KNOWN = 8

Overrides = tuple[tuple[str, str], ...]


class _Known(NamedTuple):
    """A log, and what it was opened as: another directory, or other settings, are another log."""

    watcher: LogWatcher
    inode: int
    configs: Mapping[str, str]


class Watchers:
    """Logs of one directory, to read. Belongs to one thread."""

    def __init__(self, directory: str, overrides: Overrides = (), kept: int = KEPT) -> None:
        """Opens nothing, and may be pickled as long as nothing was asked for. ``overrides``: as ``LogManager.open``."""
        self._directory = directory
        self._overrides = overrides
        self._kept = kept
        self._known: dict[TopicPartition, _Known] = {}
        self._with_files: dict[TopicPartition, None] = {}  # the one used last comes last

    @cached_property
    def manager(self) -> LogManager:
        """Raises NotALogDirError."""
        return LogManager.open(self._directory, overrides=dict(self._overrides))

    def look(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogWatcher]:
        """Those of ``partitions`` that are there, as they are now; theirs to read until the next look, not to close.

        What lies at the root is read once for all of them. A partition that goes meanwhile is not there.
        """
        marks, configs, found = self.manager.all_marks(), dict[str, Mapping[str, str] | None](), {}
        for partition in partitions:
            if partition.topic not in configs:
                configs[partition.topic] = self._configs(partition.topic)
            of_topic = configs[partition.topic]
            watcher = None if of_topic is None else self._look(partition, of_topic, marks.get(partition, Marks()))
            if watcher is not None:
                found[partition] = watcher
        return found

    def seen(self, partition: TopicPartition) -> LogWatcher:
        """A partition as the last look found it."""
        self._use(partition)
        return self._known[partition].watcher

    def rest(self) -> None:
        """Give all files back, and keep what was seen. The next look finds out, as a first one does, what is there now:
        whether the directory is, and of each log that is as it was, what was appended.
        """
        for partition in self._with_files:
            self._known[partition].watcher.close()
        self._with_files.clear()
        manager = self.__dict__.pop("manager", None)
        if manager is not None:
            manager.close()

    def close(self) -> None:
        """Give everything back; the next look opens it again."""
        self.rest()
        self._known.clear()

    def _configs(self, topic: str) -> Mapping[str, str] | None:
        try:
            return self.manager.topic(topic).configs
        except UnknownTopicOrPartitionError:
            return None

    def _look(self, partition: TopicPartition, configs: Mapping[str, str], marks: Marks) -> LogWatcher | None:
        try:
            return self._open_or_catch_up(partition, configs, marks)
        except (StorageError, UnknownTopicOrPartitionError):
            if self._inode(partition) is not None:
                raise
            return None

    def _open_or_catch_up(
        self, partition: TopicPartition, configs: Mapping[str, str], marks: Marks
    ) -> LogWatcher | None:
        inode, known = self._inode(partition), self._known.get(partition)
        if known is not None and (known.inode, known.configs) != (inode, configs):
            self._forget(partition)
            known = None
        if inode is None:
            return None
        if known is not None:
            self._use(partition)  # first: a look that fails may have opened files
            known.watcher.catch_up(marks)
            return known.watcher
        watcher = self.manager.open_watcher(*partition)
        self._known[partition] = _Known(watcher, inode, configs)
        self._use(partition)
        return watcher

    def _inode(self, partition: TopicPartition) -> int | None:
        """Of the directory; None where there is none: of a topic that is deleted, some partitions go before others."""
        status = self.manager.filesystem.status(self.manager.path(str(partition)))
        return None if status is None else status.inode

    def _use(self, partition: TopicPartition) -> None:
        self._with_files.pop(partition, None)
        self._with_files[partition] = None
        while len(self._with_files) > self._kept:
            longest_unused = next(iter(self._with_files))
            del self._with_files[longest_unused]
            self._known[longest_unused].watcher.close()

    def _forget(self, partition: TopicPartition) -> None:
        self._known.pop(partition).watcher.close()
        self._with_files.pop(partition, None)


_of_this_process: dict[tuple[str, Overrides, int], Watchers] = {}  # the one used last comes last


def watchers_of_this_process(directory: str, overrides: Overrides, kept: int = KEPT) -> Watchers:
    """For what Spark does again and again in the same process: planning of queries, tasks of a stream.

    What they saw of a log before makes the next look cheap. A few directories are known, so that a process that meets
    many does not grow. For one thread, as Spark's workers have.
    """
    asked = (directory, overrides, kept)
    watchers = _of_this_process.pop(asked, None) or Watchers(*asked)
    _of_this_process[asked] = watchers
    while len(_of_this_process) > DIRECTORIES_KNOWN:
        _of_this_process.pop(next(iter(_of_this_process))).close()
    return watchers
