"""The logs that one process reads again and again: opened once, brought up to date at every use."""

from __future__ import annotations

from functools import cached_property

from pyspark_commitlog.pipeline.offsets import TopicPartition
from pyspark_commitlog.storage import LogManager, LogWatcher, StorageError, UnknownTopicOrPartitionError

# Logs kept open. Each holds one or a few files; beyond that the one used longest ago is closed, and costs an opening.
KEPT = 512


class Watchers:
    """Logs of one directory, open to read. Belongs to one thread."""

    def __init__(self, directory: str, kept: int = KEPT) -> None:
        """Opens nothing, and may be pickled as long as nothing was asked for."""
        self._directory = directory
        self._kept = kept
        self._open: dict[TopicPartition, LogWatcher] = {}  # the one used last comes last

    @cached_property
    def manager(self) -> LogManager:
        """Raises NotALogDirError."""
        return LogManager.open(self._directory)

    def is_there(self, partition: TopicPartition) -> bool:
        """Whether it has a directory: of a topic that is being deleted, some partitions may be gone before others."""
        return self.manager.filesystem.status(self.manager.path(str(partition))) is not None

    def look_if_there(self, partition: TopicPartition) -> LogWatcher | None:
        """As :meth:`look`, but None for a partition that is gone, or goes while it is looked at."""
        if not self.is_there(partition):
            return None
        try:
            return self.look(partition)
        except (StorageError, UnknownTopicOrPartitionError):
            if self.is_there(partition):
                raise
            return None

    def look(self, partition: TopicPartition) -> LogWatcher:
        """A partition as it is now. The caller does not close it, and uses it before asking for another.

        Raises UnknownTopicOrPartitionError, and StorageError where its directory is gone.
        """
        known = self._open.pop(partition, None)
        if known is None:
            known = self.manager.open_watcher(*partition)
        else:
            known.catch_up()
        self._open[partition] = known
        while len(self._open) > self._kept:
            self._open.pop(next(iter(self._open))).close()
        return known

    def close(self) -> None:
        """Give everything back; the next use opens it again."""
        for watcher in self._open.values():
            watcher.close()
        self._open.clear()
        manager = self.__dict__.pop("manager", None)
        if manager is not None:
            manager.close()
