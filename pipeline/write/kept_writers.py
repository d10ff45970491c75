"""The driver's writers, kept between micro-batches: logs stay open, and the transactional id stays locked.

Opening and locking again for each micro-batch would cost more than writing a small one does, and a second driver could
take the lock in between. A writer is closed when its query ends or its sink is closed; all locks end with the process.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from ...storage import LogStoreError, TopicDescription
from .answers import Written
from .exactly_once.checkpoint import Note, Remembered
from .exactly_once.progress import Run, progress_key, set_back, written_twice
from .publication.opening import end_at

logger = logging.getLogger(__name__)


class SinkBatch(NamedTuple):
    """A micro-batch that a sink committed."""

    log_dir: str
    app_id: str
    written: list[Written]
    seconds: float  # duration from the start of its transaction to the end of the commit
    commit_seconds: float  # the part of ``seconds`` that the commit took


class KeptWriter:
    """The driver's writer under one name, which it keeps until :meth:`close`.

    For one thread at a time, which :func:`writing` ensures.
    """

    def __init__(self, directory: str, run: Run) -> None:
        """Takes over the name, and ends a transaction that its last holder did not end.

        Raises LogDirLockedError while another process holds the name in a directory.
        """
        self.publication = end_at(directory).kept(directory, run)
        self._topics: dict[str, TopicDescription] = {}
        self.newest: SinkBatch | None = None
        self.has_long_rows = False  # whether the query had rows that are too long for Arrow messages

    def is_current(self, topics: Mapping[str, TopicDescription]) -> bool:
        """Whether the log and the settings of its topics are unchanged, compared with :meth:`note`."""
        are_same = all(self._topics.get(name, topic) == topic for name, topic in topics.items())
        return are_same and self.publication.is_current()

    def note(self, topics: Mapping[str, TopicDescription]) -> None:
        """Stores the settings of topics, for :meth:`is_current` to compare."""
        self._topics.update(topics)
        self.publication.note(topics)

    def progress(self) -> dict[str, Note]:
        """Returns the newest batch that is committed in the log for this writer, by topic."""
        offsets = self.publication.committed()
        taken = {name: offsets.get(progress_key(name)) for name in self._topics}
        return {
            name: Note(found.offset - 1, found.offset, self._topics[name].topic_id)
            for name, found in taken.items()
            if found is not None
        }

    def reached(self, topics: Iterable[str]) -> dict[str, int]:
        """Returns the first batch that each of ``topics`` lacks, also of those that only other sinks write."""
        offsets = self.publication.committed()
        return {name: found.offset for name in topics if (found := offsets.get(progress_key(name))) is not None}

    def close(self) -> None:
        """Closes the logs cleanly and releases the name."""
        self.publication.close()


class _Slot:
    """One writer and its last write. Hold ``turn`` while using or closing the writer."""

    def __init__(self) -> None:
        self.turn = threading.RLock()
        self.writer: KeptWriter | None = None
        self._newest: SinkBatch | None = None  # of earlier writers
        self.run_id = ""  # of the run that used it last
        self.notes: dict[str, Note] = {}  # the progress last seen in the log, by topic; outlives the writer
        self.calls: dict[str, tuple[str, int]] = {}  # the run and version written last, by topic

    @property
    def newest(self) -> SinkBatch | None:
        """The newest batch committed by the writer or, before its first, by earlier writers."""
        writer = self.writer  # another thread may drop it
        return self._newest if writer is None or writer.newest is None else writer.newest

    def checkpoint_later(self) -> None:
        """Writes the logs' checkpoints in a thread, while Spark records the end of the micro-batch.

        The next micro-batch waits for the thread.
        """
        threading.Thread(target=self._checkpoint, name="commitlog checkpoint").start()

    def _checkpoint(self) -> None:
        with self.turn:
            if self.writer is not None:
                self.writer.publication.checkpoint()

    def remembered(self) -> list[Remembered]:
        """Returns the newest batch of each topic that this process saw in the log."""
        way_out = "start the query again, or close the sink"
        return [Remembered(topic, note, "this process remembers", way_out) for topic, note in self.notes.items()]

    def check_not_set_back(self, app_id: str) -> None:
        """Raises ProgressMismatchError if the log has fewer batches than this process has seen in it.

        A running query never repeats a batch, so continuing would lose rows.
        """
        assert self.writer is not None
        reached = self.writer.reached(self.notes)
        for each in self.remembered():
            has = reached.get(each.topic, 0)
            if has < each.note.before:
                raise set_back(each, app_id, self.writer.publication.directory, has)

    def forget(self) -> None:
        """Closes the writer and discards this process's notes about its batches."""
        self.drop()
        self.notes.clear()
        self.calls.clear()

    def drop(self) -> None:
        """Closes the writer. An error of the disk is logged, not raised: the next writer will raise it."""
        self._newest = self.newest
        writer, self.writer = self.writer, None
        if writer is not None:
            try:
                writer.close()
            except (LogStoreError, OSError) as error:
                logger.warning("%s: %s", writer.publication.directory, error)


_slots: dict[tuple[str, str], _Slot] = {}  # by directory and name
_slots_turn = threading.Lock()  # Guards the mapping, not the slots.


@contextmanager
def writing(directory: str, run: Run, topics: Mapping[str, TopicDescription]) -> Iterator[KeptWriter]:
    """Yields the writer for ``run``: the one kept from the last micro-batch, or a new one.

    If the block fails, closes the writer; the next writer then reads from disk whether the transaction was committed.
    ``topics`` are the topics to write to, with the settings that they have in the directory.

    Raises LogDirLockedError, without waiting, while another process writes under the same ``txnAppId``.
    """
    slot = _slot_of(directory, run.app_id)
    with slot.turn:
        if slot.writer is not None and not slot.writer.is_current(topics):
            slot.drop()
        if slot.writer is None:
            slot.writer = KeptWriter(directory, run)
        try:
            slot.writer.note(topics)
            slot.run_id = run.run_id
            if run.is_of_query:
                slot.check_not_set_back(run.app_id)
            yield slot.writer
            slot.notes |= slot.writer.progress()
        except BaseException:
            slot.drop()
            raise
        slot.checkpoint_later()


def remembered_here(directory: str, app_id: str) -> list[Remembered]:
    """Returns the newest batch of each topic that this process saw in the log at ``directory``, for ``app_id``."""
    return _slot_of(directory, app_id).remembered()


@contextmanager
def calling(directory: str, run: Run, version: int, topics: Iterable[str]) -> Iterator[None]:
    """Stores, after the block, that ``run`` wrote this version to ``topics``.

    Raises InvalidConfigError if the same run of a query has written the version to one of the topics before: a run that
    replays the batch would find the rows of the first write in the log, and skip those of the second.
    """
    slot, call = _slot_of(directory, run.app_id), (run.run_id, version)
    names = list(topics) if run.is_of_query else []
    for topic in names:
        if slot.calls.get(topic) == call:
            raise written_twice(version, topic, run.app_id)
    yield
    slot.calls |= dict.fromkeys(names, call)


def release(directory: str, app_id: str) -> None:
    """Waits until the writer is not in use, and closes it."""
    slot = _slot_of(directory, app_id)
    with slot.turn:
        slot.forget()


def release_run(run_id: str) -> None:
    """Closes the writers whose last user was this run of a query."""
    with _slots_turn:
        slots = list(_slots.values())
    for slot in slots:
        with slot.turn:
            if slot.run_id == run_id:
                slot.forget()


def newest_batches() -> list[SinkBatch]:
    """Returns the newest batch that each sink of this process committed, also of sinks that were closed since.

    Does not wait for busy writers.
    """
    with _slots_turn:
        newest = [slot.newest for slot in _slots.values()]
    return [batch for batch in newest if batch is not None]


def _slot_of(directory: str, app_id: str) -> _Slot:
    with _slots_turn:
        return _slots.setdefault((directory, app_id), _Slot())
