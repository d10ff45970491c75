"""What a driver keeps between the micro-batches of a query: the log directory, open, and the transactional id, locked.

Taking them anew for each micro-batch would cost more than a small one does, and would let a second driver in between.
A writer is given back when its query ends, or when its sink is closed; a process that dies gives back all of them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from pyspark_commitlog.pipeline.progress import Run
from pyspark_commitlog.pipeline.writer import Written
from pyspark_commitlog.storage import (
    GroupOffsets,
    LogManager,
    LogStoreError,
    TopicDescription,
    TransactionCoordinator,
    this_process,
)

logger = logging.getLogger(__name__)


class SinkBatch(NamedTuple):
    """A micro-batch that a sink committed."""

    log_dir: str
    app_id: str
    written: list[Written]
    seconds: float  # since its transaction was begun
    commit_seconds: float  # of that, for the commit


class DriverWriter:
    """A transactional id in this process's hands. One thread at a time: :func:`writing` sees to it."""

    def __init__(self, directory: str, app_id: str) -> None:
        """Brings the transactional id to a Complete state. Raises LogDirLockedError while another process has it."""
        self.manager = LogManager.open(directory)
        self._inode = self._inode_of_directory()
        self._topics: dict[str, TopicDescription] = {}
        self.run_id = ""
        self.newest: SinkBatch | None = None
        self.has_long_rows = False  # it was seen that the query has some: they take another way into the tasks
        try:
            self.coordinator = TransactionCoordinator.open(self.manager, app_id, holder=this_process())
        except BaseException:
            self.manager.close()
            raise
        self.groups = GroupOffsets(self.manager)

    def is_current(self, topics: Mapping[str, TopicDescription]) -> bool:
        """Whether the logs that are open are those of the directory and the topics as they are now, settings too."""
        are_same = all(self._topics.get(name, topic) == topic for name, topic in topics.items())
        return are_same and self._inode_of_directory() == self._inode

    def note(self, topics: Mapping[str, TopicDescription]) -> None:
        """Remember topics as they are when their logs are opened, for :meth:`is_current`."""
        self._topics.update(topics)

    def _inode_of_directory(self) -> int | None:
        status = self.manager.filesystem.status(self.manager.directory)
        return None if status is None else status.inode

    def close(self) -> None:
        """Give everything back; the topics are left as a clean stop leaves them."""
        try:
            self.coordinator.close()
        finally:
            self.manager.close()


class _Kept:
    """A place in the table of writers; its turn is held by who uses or drops the writer."""

    def __init__(self) -> None:
        self.turn = threading.RLock()
        self.writer: DriverWriter | None = None

    def checkpoint_later(self) -> None:
        """In a thread of its own, while Spark notes that the micro-batch is done; the next one waits for its end."""
        threading.Thread(target=self._checkpoint, name="commitlog checkpoint").start()

    def _checkpoint(self) -> None:
        with self.turn:
            if self.writer is not None:
                self.writer.coordinator.checkpoint()

    def drop(self) -> None:
        """Close the writer; a disk that fails then fails the next one too, which will say so."""
        writer, self.writer = self.writer, None
        if writer is not None:
            try:
                writer.close()
            except (LogStoreError, OSError) as error:
                logger.warning("%s: %s", writer.manager.directory, error)


_table: dict[tuple[str, str], _Kept] = {}  # by directory and transactional id
_table_turn = threading.Lock()


@contextmanager
def writing(directory: str, run: Run, topics: Mapping[str, TopicDescription]) -> Iterator[DriverWriter]:
    """The writer for ``run``, taken now or kept from before. It is dropped where the block fails: the next one finds
    out from the disk what became of its transaction.

    ``topics`` are those to be written to, as the directory has them.

    Raises LogDirLockedError, without waiting, while another process writes under the same ``txnAppId``.
    """
    kept = _place(directory, run.app_id)
    with kept.turn:
        if kept.writer is not None and not kept.writer.is_current(topics):
            kept.drop()
        if kept.writer is None:
            kept.writer = DriverWriter(directory, run.app_id)
        kept.writer.note(topics)
        kept.writer.run_id = run.run_id
        try:
            yield kept.writer
        except BaseException:
            kept.drop()
            raise
        kept.checkpoint_later()


def release(directory: str, app_id: str) -> None:
    """Close a writer, when nobody uses it any more."""
    kept = _place(directory, app_id)
    with kept.turn:
        kept.drop()


def release_run(run_id: str) -> None:
    """Close the writers that a run of a query used last."""
    with _table_turn:
        places = list(_table.values())
    for kept in places:
        with kept.turn:
            if kept.writer is not None and kept.writer.run_id == run_id:
                kept.drop()


def newest_batches() -> list[SinkBatch]:
    """What each writer of this process committed last. Waits for no writer that is at work."""
    with _table_turn:
        writers = [kept.writer for kept in _table.values()]
    return [writer.newest for writer in writers if writer is not None and writer.newest is not None]


def _place(directory: str, app_id: str) -> _Kept:
    with _table_turn:
        return _table.setdefault((directory, app_id), _Kept())
