"""A query's checkpoint: a sink syncs it, reads its plans, and writes notes into it.

Spark stores the plan of batch N, which is its input, in ``offsets/N``, and never syncs this file. Checkpoint and log
may therefore disagree about batch N in two ways:

- After a power cut, or after a backup of the checkpoint was restored, Spark may plan a different batch N, although the
  log has one. So a sink syncs the checkpoint before it commits, and stores a digest of ``offsets/N`` with its progress.
- The log may be restored from a backup that is older than the checkpoint. So a sink writes a note into the checkpoint
  that names the newest batch: ``commitlog/<digest of txnAppId and directory>.json``, which Spark never reads. A sink
  that writes to a Delta table does the same.

Only a checkpoint on a local file system is synced and gets notes. The state of stateful operators is not synced: if it
is lost, Spark refuses to continue.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from ....storage import (
    CorruptionError,
    File,
    FileSystem,
    LocalFileSystem,
    OutcomeUnknownError,
    ProgressMismatchError,
    StorageError,
    TransactionRefusedError,
    parent_of,
    read_file,
    write_atomically,
)

NOTES = "commitlog"  # the folder of our notes in a checkpoint
NOTE_BYTES_MAX = 1 << 24
OFFSETS_BYTES_MAX = 1 << 30
OPEN_MAX = 64  # files at once
DIGEST_LETTERS = 32  # 128 bits
COMPACTED = ".compact"  # marks a source's entry that includes earlier ones
TEMPORARY = ".tmp"  # marks files that Spark is going to rename
UNDECIDED = (OutcomeUnknownError, TransactionRefusedError, StorageError)  # after these, the batch may be committed


class Note(NamedTuple):
    """A note about a writer and a topic: the newest batch, written down before the batch is committed to the log."""

    batch: int
    before: int  # the first batch that the log lacked when the note was written; the log had all batches below
    topic_id: str | None

    def required(self, version: int) -> int:
        """Returns the first batch that a log may lack when ``version`` is about to be written.

        Spark plans a batch above ``batch`` only after ``batch`` was committed. It may replay or plan again ``batch``
        itself and those before it.
        """
        return self.batch + 1 if version > self.batch else min(version, self.before)

    def reached(self) -> tuple[int, int]:
        """Returns a sort key: of two notes, the one with the greater key is newer."""
        return self.batch, self.before


class Remembered(NamedTuple):
    """A note about a topic, and two texts for errors: where the note is, and how a user can discard it."""

    topic: str
    note: Note
    source: str
    way_out: str


class Plan(NamedTuple):
    """The input of a micro-batch, as stored in the checkpoint."""

    path: str
    digest: str  # digest of the file's content; it includes the time of planning, so no two plans have the same


NO_PLAN = Plan("", "")  # not known


class Target(NamedTuple):
    """The subject of a note: a writer, with its log directory and topics, or with a Delta table."""

    app_id: str
    directory: str  # absolute; or the path of the table
    topics: Mapping[str, str | None]  # ids by name; None: not known. Of a table: one name, the same for all


class Checkpoint:
    """A query's checkpoint. This base class stands for an unknown one, as under Spark Connect: no plans, no notes."""

    def plan(self, batch: int) -> Plan:
        """Returns the plan of a batch, or NO_PLAN."""
        return NO_PLAN

    def plan_text(self, batch: int) -> str:
        """Returns the content of ``offsets/<batch>``: a version, metadata, and the end of each source, one a line.

        Returns "" if it is not known.
        """
        return ""

    def query_id(self) -> str:
        """Returns the id of the checkpoint's query; "" if it is not known."""
        return ""

    def newest_batch(self) -> int:
        """Returns the number of the batch that Spark planned last; 0 if none is known."""
        return 0

    def remembered(self, target: Target) -> list[Remembered]:
        """Returns the checkpoint's notes about the target's topics.

        A note is found by the log directory, even if a copy has replaced the log there, and by the topic's id, even if
        the log was moved. Raises ProgressMismatchError for a note that cannot be read.
        """
        return []

    @contextmanager
    def secured(self, target: Target, notes: Mapping[str, Note]) -> Iterator[Future[None]]:
        """Syncs the checkpoint and adds ``notes``, by topic, while the block runs.

        Yields a future that is done when checkpoint and notes are on disk, or raises StorageError. If the block fails,
        and the batch cannot have been committed, restores the previous notes.
        """
        done = Future[None]()
        done.set_result(None)
        yield done


class LocalCheckpoint(Checkpoint):
    """A checkpoint on a file system of this machine."""

    def __init__(self, directory: str, filesystem: FileSystem | None = None) -> None:
        """``directory`` is an absolute path. Reads nothing yet."""
        self.directory = directory.rstrip("/")
        self.filesystem = filesystem or LocalFileSystem()
        self._synced: set[str] = set()  # paths of files, which Spark never changes

    def plan(self, batch: int) -> Plan:
        path = self._path("offsets", str(batch))
        try:
            return Plan(path, digest(read_file(self.filesystem, path, OFFSETS_BYTES_MAX)))
        except FileNotFoundError:
            return NO_PLAN

    def plan_text(self, batch: int) -> str:
        with suppress(FileNotFoundError):
            return read_file(self.filesystem, self._path("offsets", str(batch)), OFFSETS_BYTES_MAX).decode()
        return ""

    def query_id(self) -> str:
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            return str(json.loads(read_file(self.filesystem, self._path("metadata"), OFFSETS_BYTES_MAX))["id"])
        return ""

    def newest_batch(self) -> int:
        return max((int(name) for name in self._names(self._path("offsets")) if name.isdecimal()), default=0)

    def newest_commit(self) -> int | None:
        """Returns the number of the batch that Spark completed last; None if there is none."""
        return max((int(name) for name in self._names(self._path("commits")) if name.isdecimal()), default=None)

    # Notes

    def remembered(self, target: Target) -> list[Remembered]:
        found = []
        for path in self._note_paths():
            directory, app_id, notes = self._read_notes(path)
            for topic, topic_id in target.topics.items():
                note = notes.get(topic)
                if note is None or app_id != target.app_id:
                    continue
                if directory == target.directory or (topic_id is not None and topic_id == note.topic_id):
                    found.append(Remembered(topic, note, f"{path} notes", f"delete {path}"))
        return found

    @contextmanager
    def secured(self, target: Target, notes: Mapping[str, Note]) -> Iterator[Future[None]]:
        path = self._note_path(target)
        with ThreadPoolExecutor(1, "commitlog syncs a checkpoint") as pool:
            before = self._read_notes(path)[-1] if self._exists(path) else {}
            done = pool.submit(self._secure, target, before, notes)
            try:
                yield done
            except UNDECIDED:
                raise
            except Exception:  # nothing was committed, and the caller may continue with another batch
                with suppress(StorageError, OSError):
                    done.result()
                    self._write_notes(target, before)
                raise

    def _secure(self, target: Target, before: Mapping[str, Note], notes: Mapping[str, Note]) -> None:
        newest = {topic: max(note, before.get(topic, note), key=Note.reached) for topic, note in notes.items()}
        try:
            with self._syncing():
                if {**before, **newest} != before:
                    self._write_notes(target, {**before, **newest})
        except OSError as error:
            raise StorageError(
                f"{self.directory}: the checkpoint cannot be synced: {error}. Nothing was committed; find out what is "
                "wrong with the disk, and start the query again"
            ) from error

    def _write_notes(self, target: Target, notes: Mapping[str, Note]) -> None:
        """Writes the notes atomically: a crash leaves the old notes or the new ones."""
        content = {
            "txnAppId": target.app_id,
            "logDir": target.directory,
            "topics": {
                topic: {"topicId": note.topic_id, "batch": note.batch, "before": note.before}
                for topic, note in notes.items()
            },
        }
        if not self._exists(self._path(NOTES)):
            self.filesystem.make_directory(self._path(NOTES))
            self.filesystem.sync_directory(self.directory)
        write_atomically(self.filesystem, self._note_path(target), json.dumps(content).encode())

    def _read_notes(self, path: str) -> tuple[str, str, dict[str, Note]]:
        """Returns the log directory, the ``txnAppId`` and the notes by topic. Raises ProgressMismatchError."""
        try:
            content = json.loads(read_file(self.filesystem, path, NOTE_BYTES_MAX))
            notes = {
                topic: Note(int(note["batch"]), int(note["before"]), note["topicId"])
                for topic, note in content["topics"].items()
            }
            return content["logDir"], content["txnAppId"], notes
        except (ValueError, KeyError, TypeError, AttributeError, CorruptionError) as error:
            raise ProgressMismatchError(
                f"{path}: the notes are damaged, so it is not known which batches the log must have: {error!r}. "
                f"Restore the file, or delete it to rely on the log alone"
            ) from error

    def newest_entries(self) -> list[str]:
        """Returns the path of ``metadata``, and of the newest entry in each folder of the checkpoint."""
        newest = [self._path("metadata")]
        for folder in self._folders():
            numbers = {name: int(number) for name in self._names(folder) if (number := _number(name)).isdecimal()}
            if numbers and folder != self._path("sources"):  # its entries are folders, one per source
                newest.append(f"{folder}/{max(numbers, key=numbers.__getitem__)}")
        return newest

    def _note_paths(self) -> list[str]:
        if not self._exists(self._path(NOTES)):
            return []
        names = self.filesystem.list(self._path(NOTES))
        return [self._path(NOTES, name) for name in names if name.endswith(".json")]

    def _note_path(self, target: Target) -> str:
        name = digest("\0".join((target.app_id, target.directory)).encode("utf-8", "surrogatepass"))
        return self._path(NOTES, f"{name}.json")

    # Syncing

    @contextmanager
    def _syncing(self) -> Iterator[None]:
        """Syncs all that Spark wrote here since the last call: first the files, then the folders.

        Starts writing the files, runs the block, and then waits for the files. If the block syncs too, a disk with a
        journal writes all files at once: nine syncs then cost as much as two.
        """
        listed = {folder: self._listed(folder) for folder in self._folders()}
        names = {path for paths in listed.values() for path in paths}
        new = names - self._synced
        with ExitStack() as opened:
            files = list[File]()
            for file in filter(None, map(self._open, sorted(new))):
                if len(files) == OPEN_MAX:  # happens in the first micro-batch of a run, with all older files
                    with file:
                        file.sync()
                    continue
                files.append(opened.enter_context(file))
                file.begin_sync()
            yield
            for file in files:
                file.sync()
        for folder, paths in listed.items():
            if not new.isdisjoint(paths):
                self.filesystem.sync_directory(folder)
        if not self._synced:
            self.filesystem.sync_directory(parent_of(self.directory))
        self._synced = names

    def _open(self, path: str) -> File | None:
        """Returns an open file; None for a folder, and for a file that Spark removed in the meantime."""
        status = self.filesystem.status(path)
        if status is None or status.is_directory:
            return None
        with suppress(FileNotFoundError):
            return self.filesystem.open(path, "read")
        return None

    def _folders(self) -> list[str]:
        """Returns the folders with plans, commits and entries of sources, deepest first."""
        sources = self._path("sources")
        below = [f"{sources}/{name}" for name in self._names(sources)]
        return [*below, sources, self._path("offsets"), self._path("commits"), self.directory]

    def _listed(self, folder: str) -> set[str]:
        return {f"{folder}/{name}" for name in self._names(folder) if TEMPORARY not in name}

    def _names(self, folder: str) -> list[str]:
        return self.filesystem.list(folder) if self._exists(folder) else []

    def _exists(self, path: str) -> bool:
        return self.filesystem.status(path) is not None

    def _path(self, *parts: str) -> str:
        return "/".join((self.directory, *parts))


def check_readable(directory: str, filesystem: FileSystem | None = None) -> None:
    """Raises CorruptionError if a local checkpoint has an entry without bytes, or with only zeros; names its path.

    Call it before the query starts; the checkpoint may be missing. A power cut may leave such entries, because Spark
    does not sync them, and Spark's own error does not say what to do. Only the newest entries can be affected.
    """
    known = LocalCheckpoint(directory, filesystem)
    for path in known.newest_entries():
        with suppress(FileNotFoundError):
            if not read_file(known.filesystem, path, OFFSETS_BYTES_MAX).strip(b"\0"):
                raise CorruptionError(
                    "this entry of Spark's checkpoint is empty: a power cut came before it was synced. No batch "
                    "that needs it was committed. Delete the files that docs/failures_details.md, "
                    "section 'Spark's checkpoint', lists for it, and start the query again",
                    path=path,
                )


def _number(name: str) -> str:
    return name.removesuffix(COMPACTED)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:DIGEST_LETTERS]
