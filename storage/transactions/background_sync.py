"""BackgroundSync: syncs data appended by other processes in the background.

A disk with a cache writes the cache out on a sync, not when it receives the data (sync_file_range(2)). With a single
sync at the end of a transaction, the commit would wait until all its data is written.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Self

from ..errors import StorageError
from ..writing.writable_log import WritableLog

PAUSE_S = 0.03  # after each round


class BackgroundSync:
    """A thread that syncs the active segments of logs as they grow, while the ``with`` block runs.

    The owner of the logs must not use them during the block. A disk failure ends the thread and is stored in ``error``.
    A preallocated segment does not grow, so its writer syncs it at the end.
    """

    def __init__(self, logs: Iterable[WritableLog]) -> None:
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
        """Starts writing every log that grew since the last round, and waits for the sync of one of them.

        A sync makes the disk write out its cache, with the data of all logs. On a file system where a sync covers only
        one file, each log gets its turn: the one synced least recently is next.
        """
        grown = []
        for log, size in self._begun_sizes.items():
            if (now := log.segments.active.file_size) != size:
                self._begun_sizes[log] = now
                log.segments.active.begin_sync()
                grown.append(log)
        if grown and not self._is_over.is_set():
            self._begun_sizes[grown[0]] = self._begun_sizes.pop(grown[0])  # now the last of all
            grown[0].sync_file()
