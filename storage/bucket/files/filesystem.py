"""BucketFileSystem: shows the log on an object store as a log directory, for all code that reads one.

::

    topics.json, recovery-point-offset-checkpoint, log-start-offset-checkpoint, cleaner-offset-checkpoint
    <topic>-<partition>/partition.metadata
    <topic>-<partition>/<base>.log, .index, .timeindex   made of slices; or a segment as it was put
    <topic>-<partition>/<end>.log, <end>.snapshot         empty
    <topic>-<partition>.unfinished/                       instead of it, until a copy to it is finished
    __consumer_offsets-0/                                 the offsets of groups

The content changes with :meth:`BucketFileSystem.catch_up`, and when this process commits. All operations that would
write raise io.UnsupportedOperation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Lock, RLock

from ...clock import Clock
from ...errors import ObjectLostError, ObjectMissingError, SegmentRemovedError
from ...filesystem.port import FileStatus, MadeFileSystem, OpenMode
from ...format.files import checkpoints, file_names as names
from ...format.files.index_entries import encode_offset_entries, encode_time_entries
from ...format.internal.internal_topics import GROUP_METADATA_TOPIC
from ..commit_log import CommitLog
from ..commits.commit import ClientTransaction, Segment
from ..commits.state import State
from ..root import open_root
from ..staged_objects import Footer, read_footer
from ..stores.port import ObjectStore
from ..stores.remote import open_store
from .groups_log import GroupsLog, groups_log
from .layout import (
    MadeSegment,
    PartitionFiles,
    ShownSegment,
    files_of,
    names_in,
    objects_in,
    objects_of,
    token_of,
)
from .open_files import Content, MadeBytes, ObjectBytes, OpenFile, ReadOnlyError
from .parts import Parts
from .read_only import ReadOnlyFileSystem
from .root_files import (
    GROUPS_ID,
    ROOT_FILES,
    TOPICS_FILE,
    checkpointed,
    directories,
    metadata_file,
    offsets_file,
    partition_key,
    shows_groups,
    topics_file,
)
from .slices import SliceBytes

GROUPS_DIRECTORY = names.partition_directory(GROUP_METADATA_TOPIC, 0)
LOGS_KEPT = 8
FOOTERS_KEPT = 256
BESIDE_PUT = (names.INDEX, names.TIME_INDEX, names.TXN_INDEX, names.KEY_FILTER)
SMALL_FILE_BYTES_MAX = 64 << 20  # limit of a file beside a segment
SMALL_FILES_KEPT_BYTES = 64 << 20  # limit of small files in memory, names included; the newest one is always kept


class BucketFileSystem(ReadOnlyFileSystem):
    """The files of one log on an object store, below its URL. For any thread of one process."""

    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self._root = log.store.url
        self._lock = RLock()  # Guards all that is remembered below.
        self._known: dict[tuple[str, int], tuple[tuple[object, ...], PartitionFiles]] = {}
        self._groups: GroupsLog | None = None
        self._footers: dict[str, Footer] = {}
        self._put_files: dict[str, bytes | None] = {}  # beside segments that were put; None: the object is missing
        self._put_files_bytes = 0
        self._parts = Parts(log.patient_store)

    def __reduce__(self) -> tuple[Callable[[str], MadeFileSystem], tuple[str]]:
        """Pickles only the URL, by which another process opens the log."""
        return reopened, (self._root,)

    # What is there

    @property
    def root(self) -> str:
        """The path of the log directory: the log's URL."""
        return self._root

    def catch_up(self) -> None:
        """Reads the commits of others; one request if there are none. Raises CorruptionError and ObjectStoreError."""
        self.log.catch_up()
        self._forget_deleted()

    def pin(self) -> None:
        """Does nothing: this shows the current log. For a reader of one partition, see ``PinnedFiles``."""

    def catch_up_if_current(self) -> bool:
        """Does what :meth:`catch_up` does if the store has the same log as before; returns whether it has."""
        is_current = self.log.catch_up_if_current()
        self._forget_deleted()
        return is_current

    def _forget_deleted(self) -> None:
        with self._lock, self.log.reading() as state:
            for key in self._known.keys() - state.partitions.keys():
                del self._known[key]

    def is_made(self, path: str) -> bool:
        """Whether a file is computed from commits, so it need not be compared with other files."""
        files, name = self._place(path)
        return files is not None and self.is_made_in(files, name)

    def is_made_in(self, files: PartitionFiles, name: str) -> bool:
        """Like :meth:`is_made`, for a name in a partition's directory as it was at some time."""
        return name.endswith(names.SNAPSHOT) or isinstance(_shown(files, name), MadeSegment)

    def list(self, directory: str) -> list[str]:
        if directory.rstrip("/") == self._root:
            with self.log.reading() as state:
                groups = [GROUPS_DIRECTORY] if shows_groups(state) else []
                return sorted([*ROOT_FILES, *directories(state), *groups])
        if self._is_groups(directory):
            return sorted(self._group_files())
        files, name = self._place(f"{directory}/")
        if files is None or name:
            raise FileNotFoundError(f"{directory}: no such directory")
        return names_in(files)

    def status(self, path: str) -> FileStatus | None:
        if path.rstrip("/") == self._root:
            return FileStatus(0, 0, 0, is_directory=True)
        if self._is_groups(path):
            found = self._groups_now()
            return None if found is None else FileStatus(found.number, 0, 1, is_directory=True)
        files, name = self._place(path)
        if files is not None and not name:
            return FileStatus(files.number, 0, files.inode, is_directory=True)
        return self.status_in(files, name, path)

    def status_in(self, files: PartitionFiles | None, name: str, path: str) -> FileStatus | None:
        """Like :meth:`status`, for a name in a partition's directory as it was at some time; None: for another file."""
        try:
            file = self.open_in(files, name, path)
        except FileNotFoundError:
            return None
        return FileStatus(file.size(), 0, 0 if files is None else _inode(_shown(files, name)), is_directory=False)

    def open(self, path: str, mode: OpenMode) -> OpenFile:
        if mode != "read":
            raise ReadOnlyError(path)
        return self.open_in(*self._place(path), path)

    def open_in(self, files: PartitionFiles | None, name: str, path: str) -> OpenFile:
        """Opens a name in a partition's directory as it was at some time; None: opens another file."""
        if files is not None:
            size, content = self._partition_file(files, name, path)
        else:
            data = self._small_file(path)
            size, content = len(data), MadeBytes(data)

        return OpenFile(path, size, content, partial(self._missing, path, files))

    def partition_files(self, directory: str) -> PartitionFiles | None:
        """Returns the files in a partition's directory, which stay as they are; None if there is no such partition."""
        return self._place(f"{directory}/")[0]

    # Files at the root, and those of groups

    def _small_file(self, path: str) -> bytes:
        name = self._below(path)
        if name in ROOT_FILES:
            with self._lock, self.log.reading() as state:  # in this order everywhere
                return self._root_file(state, name)
        if self._is_groups(names.join(self._root, name.rpartition("/")[0])):
            data = self._group_files().get(name.rpartition("/")[2])
            if data is not None:
                return data
        raise FileNotFoundError(f"{path}: no such file")

    def _root_file(self, state: State, name: str) -> bytes:
        if name == TOPICS_FILE:
            return topics_file(state)
        found, log = checkpointed(state, name), self._groups_now()
        if log is not None:
            marks = {names.RECOVERY_POINT_CHECKPOINT: log.end, names.LOG_START_OFFSET_CHECKPOINT: log.base}
            found |= {(GROUP_METADATA_TOPIC, 0): marks[name]} if name in marks else {}
        return offsets_file((topic, number, offset) for (topic, number), offset in found.items())

    def _is_groups(self, path: str) -> bool:
        return self._below(path).rstrip("/") == GROUPS_DIRECTORY and self._groups_now() is not None

    def _groups_now(self) -> GroupsLog | None:
        with self._lock, self.log.reading() as state:
            self._groups = groups_log(state, self._groups) if shows_groups(state) else None
            return self._groups

    def _group_files(self) -> dict[str, bytes]:
        found = self._groups_now()
        assert found is not None
        small = {
            names.PARTITION_METADATA_FILE: metadata_file(GROUPS_ID),
            names.LEADER_EPOCH_CHECKPOINT: checkpoints.encode_leader_epochs([checkpoints.EpochEntry(0, found.base)]),
            names.segment_file(found.end, names.SNAPSHOT): checkpoints.encode_snapshot(()),
        }
        return {**small, **found.files()}

    # Files of partitions

    def _below(self, path: str) -> str:
        return path.removeprefix(self._root).lstrip("/")

    def _place(self, path: str) -> tuple[PartitionFiles | None, str]:
        """Returns the partition of a path, if there is one, and the name of the file in it; "" for the directory."""
        directory, _, name = self._below(path).partition("/")
        with self._lock, self.log.reading() as state:
            key = partition_key(state, directory)
            if key is None:
                return None, ""
            partition = state.partitions.get(key)
            if partition is None:
                self._known.pop(key, None)
            if partition is None or partition.is_unfinished is not directory.endswith(names.UNFINISHED):
                return None, ""
            token, known = token_of(partition), self._known.get(key)
            if known is None or known[0] != token:
                known = self._known[key] = token, files_of(state, *key)
            return known[1], name

    def _partition_file(self, files: PartitionFiles, name: str, path: str) -> tuple[int, Content]:
        shown, kind = _shown(files, name), name[names.OFFSET_DIGITS :]
        if kind == names.LOG and isinstance(shown, MadeSegment):
            return shown.size, SliceBytes(shown, self._parts, self._footer)
        if kind == names.LOG and isinstance(shown, Segment):
            key = shown.key(files.topic_id, files.partition) + names.LOG
            return shown.size, ObjectBytes(key, shown.size, self._parts)
        data = self._beside(files, name, shown)
        if data is None:
            raise FileNotFoundError(f"{path}: no such file")
        return len(data), MadeBytes(data)

    def _beside(self, files: PartitionFiles, name: str, shown: ShownSegment | None) -> bytes | None:
        """Returns the content of a small file of a partition; None if there is none."""
        kind = name[names.OFFSET_DIGITS :]
        if name == names.PARTITION_METADATA_FILE:
            return metadata_file(files.topic_id)
        if name == names.segment_file(files.end, names.SNAPSHOT):
            return self._snapshot(files)
        if name == names.LEADER_EPOCH_CHECKPOINT:
            return self._epochs(files)
        if isinstance(shown, MadeSegment) and kind in (names.INDEX, names.TIME_INDEX):
            return _index_of(shown, kind)
        if isinstance(shown, Segment) and kind in BESIDE_PUT:
            return self._put_file(files, shown, kind)
        return None

    def put_key_filter(self, path: str, data: bytes) -> bool:
        """Puts a key filter, which the collector deletes with its segment; returns False for one without an object."""
        files, name = self._place(path)
        shown = None if files is None else _shown(files, name)
        if files is not None and isinstance(shown, Segment):
            key = shown.key(files.topic_id, files.partition) + names.KEY_FILTER
            self.log.patient_store.put(key, data)
        return isinstance(shown, Segment)

    def _snapshot(self, files: PartitionFiles) -> bytes:
        """Returns the state of producers at the end: that of the last segment, plus the open transactions.

        Slices have no producers.
        """
        last = files.last_put
        found = None if last is None else self._put_file(files, last, names.SNAPSHOT)
        if files.undecided:
            known = {} if found is None else {each.producer_id: each for each in checkpoints.decode_snapshot(found)}
            known |= {transaction.producer_id: _entry_of(transaction, first) for transaction, first in files.undecided}
            return checkpoints.encode_snapshot(known.values())
        return checkpoints.encode_snapshot(()) if found is None else found

    def _epochs(self, files: PartitionFiles) -> bytes:
        """Returns the leader epochs of the last segment; epoch 0, which slices have, if there is none."""
        last = files.last_put
        found = None if last is None else self._put_file(files, last, names.EPOCHS)
        first = next(iter(files.segments))
        made = [] if first == files.end else [checkpoints.EpochEntry(0, first)]
        return checkpoints.encode_leader_epochs(made) if found is None else found

    def _put_file(self, files: PartitionFiles, segment: Segment, kind: str) -> bytes | None:
        key = segment.key(files.topic_id, files.partition) + kind
        with self._lock:
            if key in self._put_files:
                return self._put_files[key]
        data = self.log.patient_store.read(key, SMALL_FILE_BYTES_MAX, bytes)
        if kind == names.KEY_FILTER:  # it is as large as all indexes together, and may be put later
            return data
        with self._lock:
            if key not in self._put_files:
                self._put_files[key], self._put_files_bytes = data, self._put_files_bytes + _kept_bytes(key, data)
            while self._put_files_bytes > SMALL_FILES_KEPT_BYTES and len(self._put_files) > 1:
                oldest = next(iter(self._put_files))
                self._put_files_bytes -= _kept_bytes(oldest, self._put_files.pop(oldest))
        return data

    def _footer(self, key: str, size: int) -> Footer:
        found = self._footers.get(key)
        if found is None:
            found = self.log.patient_store.repeated(lambda: read_footer(self.log.store, key, size))
            with self._lock:
                self._footers[key] = found
                while len(self._footers) > FOOTERS_KEPT:
                    self._footers.pop(next(iter(self._footers)))
        return found

    def _missing(self, path: str, files: PartitionFiles | None, error: ObjectMissingError) -> Exception:
        """Returns the error for a missing object: the file was replaced, or if the log has not changed, damage."""
        self.catch_up()
        now, name = self._place(path)
        if files is not None and now is not None and objects_of(_shown(files, name)) <= objects_in(now):
            return ObjectLostError(f"the store lacks an object that the log names: restore it ({error})", path=path)
        return SegmentRemovedError(f"{path}: the segment was removed while this log was open; open the log again")


def _entry_of(transaction: ClientTransaction, first_offset: int) -> checkpoints.ProducerEntry:
    """Returns the snapshot entry for the producer of an open transaction."""
    return checkpoints.ProducerEntry(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        last_sequence=-1,
        last_offset=-1,
        offset_delta=0,
        timestamp=-1,
        coordinator_epoch=-1,
        current_txn_first_offset=first_offset,
    )


def _kept_bytes(key: str, data: bytes | None) -> int:
    return len(key) + len(data or b"")


def _index_of(shown: MadeSegment, kind: str) -> bytes:
    if kind == names.INDEX:
        return encode_offset_entries(shown.base, *shown.indexed)
    return encode_time_entries(shown.base, *shown.timed)


def reopened(url: str) -> MadeFileSystem:
    """Returns the file system of a log that another process had open."""
    return open_files(url)


_of_this_process: dict[str, BucketFileSystem] = {}  # by URL, in order of last use; _keeping guards it
_turns: dict[str, Lock] = {}  # by URL, held while a log is opened; _keeping guards the mapping
_keeping = Lock()  # held for no request


def open_files(
    url: str, *, create: bool = False, store: ObjectStore | None = None, clock: Clock | None = None
) -> BucketFileSystem:
    """Returns the file system that shows the log at a URL, up to date; readers and writers of a process share it.

    A process reads the commits of a log once, later only new ones: that takes two requests, at once. ``create``: as in
    :func:`open_root`, and raises like it.
    """
    if store is not None or clock is not None:
        return BucketFileSystem(open_root(url, create=create, store=store, clock=clock))
    store = open_store(url)
    with _turn_of(store.url):
        known = _of_this_process.get(store.url)
        if known is None or not known.catch_up_if_current():
            known = BucketFileSystem(open_root(url, create=create, store=store))
        _keep(store.url, known)
        return known


def _turn_of(url: str) -> Lock:
    with _keeping:
        return _turns.setdefault(url, Lock())


def _keep(url: str, known: BucketFileSystem) -> None:
    with _keeping:
        _of_this_process.pop(url, None)  # it is the newest again
        _of_this_process[url] = known
        while len(_of_this_process) > LOGS_KEPT:
            _of_this_process.pop(next(iter(_of_this_process)))


def _shown(files: PartitionFiles, name: str) -> ShownSegment | None:
    """Returns the segment that a file belongs to; None if it belongs to none."""
    base = names.base_offset_of(name)
    return None if base is None else files.segments.get(base)


def _inode(shown: ShownSegment | None) -> int:
    if shown is None:
        return 0
    return shown.inode if isinstance(shown, MadeSegment) else int(shown.uuid[:12], 16)
