"""Keeps a table that is exported to again and again in few files: OPTIMIZE and VACUUM between two micro-batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ..table_progress import properties_of
from ..upserts import deleted_keys, has_deleted_keys

logger = logging.getLogger(__name__)


class Upkeep:
    """Compacts the files of the Delta table at ``path``, and removes those that no version needs, when that is due.

    A table of mode upsert includes its table of tombstones. ``intervals_ms`` has ``OPTIMIZE`` and ``VACUUM``, or one of
    them; each is due that long after the start, and after its last run. VACUUM keeps files for the table's retention
    (``delta.deletedFileRetentionDuration``, a week).
    """

    def __init__(
        self,
        session: SparkSession,
        path: str,
        intervals_ms: Mapping[str, int],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session, self._path, self._intervals_ms, self._now_s = session, path, intervals_ms, now_s
        self._last_s = dict.fromkeys(intervals_ms, now_s())

    def run_due(self) -> list[str]:
        """Runs the operations that are due, and returns their names.

        A failure is logged, and tried again at the next interval.
        """
        due = [name for name, ms in self._intervals_ms.items() if 1000 * (self._now_s() - self._last_s[name]) >= ms]
        for name in due:
            try:
                for path in self._paths():
                    self._run(name, path)
            except (PySparkException, Py4JJavaError) as error:  # another writer was faster, or the disk is full
                logger.warning("%s of table %s failed: %s", name, self._path, str(error).splitlines()[0])
            self._last_s[name] = self._now_s()
        return due

    def _paths(self) -> list[str]:
        more = [deleted_keys(self._path)] if has_deleted_keys(properties_of(self._session, self._path)) else []
        return [self._path, *more]

    def _run(self, name: str, path: str) -> None:
        table = DeltaTable.forPath(self._session, path)
        if name == "OPTIMIZE":
            table.optimize().executeCompaction()
        else:
            table.vacuum()
