"""LogDirectory: the files at the root of a log directory: ``topics.json``, checkpoints and locks.

``topics.json`` lists the topics; Kafka ignores it. A process changes files at the root while it holds the root lock, so
that several processes may use one directory.

Opening a directory takes no lock. The first change takes the broker's ``.lock``, shared: many processes with this
engine may write, but none beside a running broker. It also removes a broker's ``.kafka_cleanshutdown``, which is no
longer true.
"""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from ..clock import Clock, SystemClock
from ..errors import CorruptionError, LogDirLockedError, MissingSegmentError, NotALogDirError, StorageError
from ..filesystem.local import LocalFileSystem
from ..filesystem.operations import catch_up, make_directory_durably, read_file, write_atomically
from ..filesystem.port import FileSystem, Lock, MadeFileSystem
from ..format.files import checkpoints, file_names as names
from ..format.files.file_names import TopicPartition
from ..paths import is_store_url, local_path
from ..reading.marks import UNFINISHED_COPY, Marks
from ..segment.joining import Holes
from ..shown import bucket_of, shown_at
from .reserve import keep_reserve
from .topics_file import OwnSettings, TopicDescription, TopicsFile, decode_topics_file, encode_topics

if TYPE_CHECKING:
    from ..bucket.commit_log import CommitLog

logger = logging.getLogger(__name__)

TOPICS_FILE = "topics.json"
ROOT_LOCK_FILE = ".commitlog.lock"
ROOT_FILE_BYTES_MAX = 256 * 1024 * 1024  # a million partitions in a checkpoint; a larger file is damaged

# Any of these marks a log directory; only the locks exist if creating its first topic was never finished.
_ROOT_FILES = frozenset({TOPICS_FILE, ROOT_LOCK_FILE, names.META_PROPERTIES_FILE, names.LOCK_FILE})
_OF_0_7 = re.compile(r".+[-_][0-9]{1,10}")  # a partition of Kafka 0.7, whose files end in .kafka
BELOW_MAX = 200  # names to check for a log directory inside a directory that is not one itself


def check_copied(filesystem: FileSystem, directory: str) -> None:
    """Raises MissingSegmentError if the copy of the partition in ``directory`` is not finished."""
    unfinished = names.unfinished_path(directory)
    if filesystem.status(unfinished) is not None:
        raise MissingSegmentError(UNFINISHED_COPY, path=unfinished)


class LogDirectory:
    """A directory with the partitions of topics, and the files at its root."""

    def __init__(self, directory: str, clock: Clock, filesystem: FileSystem, overrides: Mapping[str, str]) -> None:
        self.directory = directory
        self.clock = clock
        self.filesystem = filesystem
        self.overrides = overrides
        self._broker_lock: Lock | None = None

    @classmethod
    def open(
        cls,
        directory: str,
        *,
        create: bool = False,
        clock: Clock | None = None,
        filesystem: FileSystem | None = None,
        overrides: Mapping[str, str] | None = None,
    ) -> Self:
        """Opens a log directory; with ``create``, creates it if it is missing.

        ``directory`` may be the URL of a log on an object store, or the address of a tier (``tiers.address``): both are
        shown as directories that can be read only.
        ``overrides``: settings, by Kafka's names, that override those of every topic.

        Raises NotALogDirError if ``directory`` is missing, is a file, or holds other files and no partition, and
        InvalidConfigError for an address of another file system (``hdfs:/log``): :func:`paths.local_path`. Of a URL,
        raises as :func:`shown_at`.
        """
        if filesystem is None and not (create and is_store_url(directory)):
            filesystem = shown_at(directory, clock)
        elif isinstance(filesystem, MadeFileSystem):
            filesystem.catch_up()
        path = filesystem.root if isinstance(filesystem, MadeFileSystem) else local_path(directory)
        manager = cls(path, clock or SystemClock(), filesystem or LocalFileSystem(), overrides or {})
        manager._check_directory(create)
        return manager

    @classmethod
    def open_or_make(cls, address: str, *, dry_run: bool = False) -> Self:
        """Opens a log directory, or a log on an object store; makes it if it is missing.

        To make one on an object store checks the store first, which takes a minute; with ``dry_run``, it is not made.
        Raises as :meth:`open`, for a missing log too with ``dry_run``, and as :func:`shown_at`.
        """
        if not is_store_url(address):
            return cls.open(address, create=True)
        return cls.open(address, filesystem=shown_at(address, create=not dry_run))

    def _check_directory(self, create: bool) -> None:
        status = self.filesystem.status(self.directory)
        if status is None and create:
            make_directory_durably(self.filesystem, self.directory)
        elif status is None:
            raise NotALogDirError(f"{self.directory}: no such directory")
        elif not status.is_directory:
            raise NotALogDirError(f"{self.directory}: this is a file, where a log directory was expected")
        elif not (create and not self.filesystem.list(self.directory)) and not self._looks_like_a_log_directory():
            # In this order: another process may make its first topic in the empty directory just now.
            if self._is_of_0_7():
                raise NotALogDirError(
                    f"{self.directory}: this is a log directory of Kafka 0.7: read it with layout kafka-0.7, or make "
                    "one of today of it (commitlog upgrade)"
                )
            near = self._log_directories_below()
            raise NotALogDirError(
                f"{self.directory}: contains neither {TOPICS_FILE} nor a partition such as my-topic-0; "
                + (f"did you mean {' or '.join(near)}?" if near else "give a directory of Kafka's log.dirs")
            )

    def _is_of_0_7(self) -> bool:
        """Whether there are partitions with files of Kafka 0.7, which ``classic/log_0_7`` reads."""
        found = filter(_OF_0_7.fullmatch, self.filesystem.list(self.directory))
        return any(file.endswith(".kafka") for name in found for file in self._files_in(name))

    def _log_directories_below(self) -> list[str]:
        """Returns the paths of log directories that are directly in this one, at most three."""
        found = list[str]()
        for name in sorted(self.filesystem.list(self.directory))[:BELOW_MAX]:
            below = LogDirectory(self.path(name), self.clock, self.filesystem, {})
            with suppress(OSError):  # a file, or a directory of another user
                if below._holds_topics():
                    found.append(below.directory)
        return found[:3]

    def _holds_topics(self) -> bool:
        listing = self.filesystem.list(self.directory)
        return (
            TOPICS_FILE in listing
            or names.META_PROPERTIES_FILE in listing
            or bool(self._partitions_found(lambda _: True))
        )

    def _looks_like_a_log_directory(self) -> bool:
        listing = self.filesystem.list(self.directory)
        has_a_copy = any(name.endswith(names.UNFINISHED) for name in listing)  # of a topic that is not yet created
        return not _ROOT_FILES.isdisjoint(listing) or has_a_copy or bool(self._partitions_found(lambda _: True))

    @property
    def bucket(self) -> CommitLog | None:
        """The log, if it is on an object store, where each change is a commit."""
        return bucket_of(self.filesystem)

    def catch_up(self) -> None:
        """Updates this object with other processes' changes; on an object store, they show only after this call."""
        catch_up(self.filesystem)

    def path(self, *file_names: str) -> str:
        """Returns the path of a file or folder below the directory."""
        return names.join(self.directory, *file_names)

    # Topics and partitions

    def described_topics(self) -> dict[str, TopicDescription]:
        """Returns the topics in ``topics.json``, by name; none in a broker's directory, which has no such file."""
        return dict(self.topics_file().topics)

    def broker_settings(self) -> dict[str, str]:
        """Returns the settings for all topics in ``topics.json``, by a broker's keys; none if there is no such file."""
        return dict(self.topics_file().broker)

    def topics_file(self) -> TopicsFile:
        """Returns the content of ``topics.json``; nothing if there is no such file. Raises CorruptionError."""
        path = self.path(TOPICS_FILE)
        try:
            return decode_topics_file(read_file(self.filesystem, path, ROOT_FILE_BYTES_MAX))
        except FileNotFoundError:
            return TopicsFile({}, {})
        except CorruptionError as error:
            raise error.located(path) from error

    def describe_topics(
        self,
        topics: Mapping[str, TopicDescription],
        broker: Mapping[str, str] | None = None,
        owned: OwnSettings | None = None,
    ) -> None:
        """Replaces ``topics.json``, atomically and durably. The caller holds the root lock.

        ``broker``: the settings for all topics, and ``owned`` those of nodes and groups; None keeps them.
        """
        before = self.topics_file()
        broker, owned = before.broker if broker is None else broker, before.owned if owned is None else owned
        write_atomically(self.filesystem, self.path(TOPICS_FILE), encode_topics(topics.values(), broker, owned))
        keep_reserve(self.filesystem, self.directory)

    def partitions_found(self, topic: str) -> tuple[int, ...]:
        """Returns the partitions of a topic for which there are directories; ignores ``topics.json``."""
        return self._partitions_found(lambda each: each == topic).get(topic, ())

    def is_here(self, topic: str, partition: int) -> bool:
        """Whether the directory of a partition exists; a partition may be in another log directory, or lost."""
        return self.filesystem.status(self.path(names.partition_directory(topic, partition))) is not None

    def _partitions_found(self, is_wanted: Callable[[str], bool]) -> dict[str, tuple[int, ...]]:
        """Returns the partitions for which there are directories, by topic, for topics that ``is_wanted`` accepts.

        Omits topics without any segment: a broker creates one at once, this engine at the first write. If a topic has
        one, its partitions without a segment count if they have ``partition.metadata``.
        """
        with_a_log, made = dict[str, list[int]](), dict[str, list[int]]()
        for name in self.filesystem.list(self.directory):
            parsed = None if name in names.IGNORED_DIRECTORIES else names.parse_partition_directory(name)
            if parsed is None or parsed.kind != "plain" or not is_wanted(parsed.topic):
                continue
            files = self._files_in(name)
            if any(file.endswith(names.LOG) for file in files):
                with_a_log.setdefault(parsed.topic, []).append(parsed.partition)
            elif names.PARTITION_METADATA_FILE in files:
                made.setdefault(parsed.topic, []).append(parsed.partition)
        return {topic: tuple(sorted([*numbers, *made.get(topic, ())])) for topic, numbers in with_a_log.items()}

    def _files_in(self, name: str) -> list[str]:
        try:
            return self.filesystem.list(self.path(name))
        except (NotADirectoryError, FileNotFoundError):
            return []

    # Locks

    def check_writable(self) -> None:
        """Keeps brokers out from now on; raises the errors of :meth:`lock_brokers_out`."""
        self._take_broker_lock()

    def lock_brokers_out(self) -> None:
        """Prevents brokers from starting on the directory until the manager is closed.

        Raises LogDirLockedError if a broker runs, and StorageError if the directory is on a read-only mount.
        """
        if self._broker_lock is not None or isinstance(self.filesystem, MadeFileSystem):
            return
        path = self.path(names.LOCK_FILE)
        try:
            self._broker_lock = self.filesystem.lock_shared_with_broker(path)
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
            raise StorageError(
                f"{self.directory} is read-only: `commitlog copy` takes a copy without writing there"
            ) from error
        if self._broker_lock is None:
            raise LogDirLockedError(
                f"{path}: a running Kafka broker holds this directory; it can be read, but stop the broker "
                "before writing to it"
            )

    def _take_broker_lock(self) -> None:
        """Keeps brokers out, and removes a broker's mark of a clean shutdown; call it before the first change."""
        self.lock_brokers_out()
        if self.filesystem.status(self.path(names.CLEAN_SHUTDOWN_FILE)) is not None:
            self.filesystem.remove(self.path(names.CLEAN_SHUTDOWN_FILE))
            self.filesystem.sync_directory(self.directory)

    def root_lock(self) -> Lock:
        """Waits until no other process changes files at the root, and returns the lock on them."""
        lock = self.filesystem.lock(self.path(ROOT_LOCK_FILE))
        assert lock is not None  # since it waits
        return lock

    # Checkpoints

    def marks(self, partition: TopicPartition) -> Marks:
        """Returns the entries of a partition in the checkpoints; defaults if it has none."""
        recovery_point = self.offsets(names.RECOVERY_POINT_CHECKPOINT).get(partition)
        log_start = self.offsets(names.LOG_START_OFFSET_CHECKPOINT).get(partition)
        if recovery_point is None and log_start is None:
            return Marks()
        return Marks(recovery_point, log_start or 0, self._was_closed_cleanly())

    def all_marks(self) -> dict[TopicPartition, Marks]:
        """Returns the entries in the checkpoints of every partition that they list."""
        recovery_points = self.offsets(names.RECOVERY_POINT_CHECKPOINT)
        log_starts = self.offsets(names.LOG_START_OFFSET_CHECKPOINT)
        was_closed_cleanly = self._was_closed_cleanly()
        return {
            partition: Marks(recovery_points.get(partition), log_starts.get(partition, 0), was_closed_cleanly)
            for partition in recovery_points.keys() | log_starts.keys()
        }

    def _was_closed_cleanly(self) -> bool:
        return self.filesystem.status(self.path(names.CLEAN_SHUTDOWN_FILE)) is not None

    def write_marks(self, marks: Mapping[TopicPartition, Marks]) -> None:
        """Replaces the entries of some partitions in the checkpoints; durable on return. Keeps other entries."""
        with self.root_lock():
            self._update_offsets(
                names.RECOVERY_POINT_CHECKPOINT, {key: mark.recovery_point or 0 for key, mark in marks.items()}
            )
            self._update_offsets(
                names.LOG_START_OFFSET_CHECKPOINT, {key: mark.log_start_offset for key, mark in marks.items()}
            )

    def write_recovery_points(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replaces the recovery points of some partitions; durable on return. Keeps all other entries."""
        with self.root_lock():
            self._update_offsets(names.RECOVERY_POINT_CHECKPOINT, offsets)

    def _update_offsets(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        before = self.offsets(name)
        after = {**before, **{key: offset for key, offset in offsets.items() if offset or key in before}}
        if after != before:
            write_atomically(self.filesystem, self.path(name), checkpoints.encode_offsets(after))

    def holes(self, partition: TopicPartition) -> Holes:
        """Returns where offsets may be missing in a partition.

        The cleaner's checkpoint lists partitions that were compacted or filled with gaps; a broker creates that file if
        its cleaner is on. In a partition that is in neither ``topics.json`` nor the recovery points, because its
        directory was copied here, offsets may be missing anywhere.
        """
        return self.holes_of_all()(partition)

    def holes_of_all(self) -> Callable[[TopicPartition], Holes]:
        """Returns a function that gives :meth:`holes` of any partition, and reads the files only once, now."""
        try:
            listed = self._read_offsets(names.CLEANER_OFFSET_CHECKPOINT)
        except CorruptionError:
            return lambda _: Holes.ANYWHERE
        described, recovery_points = self.topics_file().topics, self.offsets(names.RECOVERY_POINT_CHECKPOINT)

        def holes_of(partition: TopicPartition) -> Holes:
            if partition in (listed or ()):
                return Holes.ANYWHERE
            if partition.topic in described:
                return Holes.NOWHERE
            if partition not in recovery_points:
                return Holes.ANYWHERE
            return Holes.INSIDE_SEGMENTS if listed is None else Holes.NOWHERE

        return holes_of

    def note_holes(self, partition: TopicPartition) -> None:
        """Adds a partition to the cleaner's checkpoint, which records that offsets may be missing in it; durable."""
        with self.root_lock():
            listed = self.offsets(names.CLEANER_OFFSET_CHECKPOINT)
            if partition not in listed:
                data = checkpoints.encode_offsets({**listed, partition: 0})
                write_atomically(self.filesystem, self.path(names.CLEANER_OFFSET_CHECKPOINT), data)

    def note_log_start(self, partition: TopicPartition, offset: int) -> None:
        """Adds a partition to the checkpoint of log starts, even at 0: its first segments move to a tier; durable."""
        with self.root_lock():
            listed = self.offsets(names.LOG_START_OFFSET_CHECKPOINT)
            if listed.get(partition) != offset:
                data = checkpoints.encode_offsets({**listed, partition: offset})
                write_atomically(self.filesystem, self.path(names.LOG_START_OFFSET_CHECKPOINT), data)

    def forget_partitions(self, partitions: Container[TopicPartition]) -> None:
        """Removes the entries of deleted partitions from the checkpoints, durably. The caller holds the root lock."""
        for name in names.OFFSET_CHECKPOINTS:
            before = self.offsets(name)
            after = {key: offset for key, offset in before.items() if key not in partitions}
            if after != before:
                write_atomically(self.filesystem, self.path(name), checkpoints.encode_offsets(after))

    def offsets(self, name: str) -> dict[TopicPartition, int]:
        """Returns the offsets in the checkpoint with the file name ``name``, by partition.

        A damaged checkpoint counts as empty, with a warning, which costs a recovery but no record.
        """
        try:
            return self._read_offsets(name) or {}
        except CorruptionError as error:
            logger.warning("%s; the checkpoint is treated as empty", error)
            return {}

    def _read_offsets(self, name: str) -> dict[TopicPartition, int] | None:
        """Like :meth:`offsets`, but returns None if there is no such file, and raises CorruptCheckpointError."""
        path = self.path(name)
        try:
            return checkpoints.decode_offsets(read_file(self.filesystem, path, ROOT_FILE_BYTES_MAX))
        except FileNotFoundError:
            return None
        except CorruptionError as error:
            raise error.located(path) from None
