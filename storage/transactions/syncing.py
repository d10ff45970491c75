"""BackgroundSync: what several processes append is brought to the disk while they go on.

A disk with a cache of its own writes that out when it is told to, by a sync, and not when it is given the data
(sync_file_range(2)). Where the first sync comes at the end, all waits for all of it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Self

from pyspark_commitlog.storage.errors import StorageError
from pyspark_commitlog.storage.shared_log import SharedLog

PAUSE_S = 0.03  # after each round


class BackgroundSync:
    """A thread that lets the active segments of logs go to the disk as they grow, as long as the block runs.

    Whoever owns the logs does not use them meanwhile. A disk that fails ends it: ``error`` tells. A preallocated
    segment does not grow, and waits for whoever syncs it in the end.
    """

    def __init__(self, logs: Iterable[SharedLog]) -> None:
        self.error: StorageError | None = None
        self._begun_sizes = {log: log.segments.active.file_size for log in logs}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="commitlog sync")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._is_over.wait(PAUSE_S):
                self._sync_those_that_grew()
        except StorageError as error:
            self.error = error

    def _sync_those_that_grew(self) -> None:
        """All begin to go to the disk; one is waited for, the one that was longest ago.

        Its sync has the disk write its cache, which is of all of them. On a file system where it is of one file only,
        each has its turn.
        """
        grown = []
        for log, size in self._begun_sizes.items():
            if (now := log.segments.active.file_size) != size:
                self._begun_sizes[log] = now
                log.begin_sync()
                grown.append(log)
        if grown and not self._is_over.is_set():
            self._begun_sizes[grown[0]] = self._begun_sizes.pop(grown[0])  # behind all others
            grown[0].sync_file()
