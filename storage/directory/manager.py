"""LogManager: all logs of a directory, its topics and their configs, its checkpoints and its lock.

Topics are listed in ``topics.json`` at the root, which Kafka ignores. A directory without that file, such as a
broker's, is served with default configs but without retention limits, which are unknown; its partitions are found by
their names. Files at the root are read, changed and replaced under the root lock, so that several processes may work
in one directory.

Opening takes no lock. The first log opened for writing takes the broker's ``.lock``, shared: many processes of ours may
write, but never beside a running broker. It also removes a broker's ``.kafka_cleanshutdown``, which no longer holds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, Self, TypeVar
from uuid import uuid4

from ..clock import Clock, SystemClock
from ..config import LogConfig
from ..errors import (
    CorruptionError,
    InvalidConfigError,
    LogDirLockedError,
    MissingSegmentError,
    NotALogDirError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
    did_you_mean,
)
from ..filesystem import (
    FileSystem,
    LocalFileSystem,
    Lock,
    make_directory_durably,
    not_a_link,
    read_file,
    write_atomically,
)
from ..format.files import checkpoints, file_names as names
from ..paths import local_path
from ..reading import LogReader, LogWatcher, Marks
from ..segment import Holes
from ..writing import Log
from .given_settings import config_of
from .protected_topics import INTERNAL_TOPICS, check_stays_compacted, stays_compacted
from .topics_file import PARTITIONS_MAX, Known, TopicDescription, decode_topics, encode_topics

logger = logging.getLogger(__name__)

TOPICS_FILE = "topics.json"
ROOT_LOCK_FILE = ".commitlog.lock"
ROOT_FILE_BYTES_MAX = 256 * 1024 * 1024  # a million partitions in a checkpoint; a larger file is damaged
INTERNAL_PARTITIONS = 50  # offsets.topic.num.partitions, transaction.state.log.num.partitions

LOST = (
    "it was lost: restore it, for example from a snapshot; to continue without it, create the directory and remove "
    f"its line from {names.RECOVERY_POINT_CHECKPOINT}"
)

TopicPartition = tuple[str, int]


class Closeable(Protocol):
    """An object that is closed with the manager that keeps it."""

    def close(self) -> None: ...


ReaderT = TypeVar("ReaderT", bound=LogReader)
KeptT = TypeVar("KeptT", bound=Closeable)

# Any of these marks a log directory; only the locks exist if creating its first topic was never finished.
_ROOT_FILES = frozenset({TOPICS_FILE, ROOT_LOCK_FILE, names.META_PROPERTIES_FILE, names.LOCK_FILE})


@lru_cache
def _config_of(
    topic: str, known: Known, configs: tuple[tuple[str, str], ...], overrides: tuple[tuple[str, str], ...]
) -> LogConfig:
    """A config, shared by all partitions of a topic because it is immutable."""
    return config_of(TopicDescription(topic, (), dict(configs), known=known), dict(overrides), {})


class LogManager:
    """The logs in one directory. Belongs to one thread at a time; a context manager that closes it."""

    def __init__(self, directory: str, clock: Clock, filesystem: FileSystem, overrides: Mapping[str, str]) -> None:
        self.directory = directory
        self.clock = clock
        self.filesystem = filesystem
        self.overrides = overrides
        self._logs: dict[TopicPartition, Log] = {}
        self._kept: dict[object, Any] = {}
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
        """Open a log directory; with ``create``, create it if it is missing.

        ``overrides``: settings, by Kafka's names, that override those of every topic.

        Raises NotALogDirError if ``directory`` is missing, is a file, or holds other files and no partition, and
        InvalidConfigError for an address of another file system (``hdfs:/log``): :func:`paths.local_path`.
        """
        manager = cls(local_path(directory), clock or SystemClock(), filesystem or LocalFileSystem(), overrides or {})
        manager._check_directory(create)
        return manager

    def _check_directory(self, create: bool) -> None:
        status = self.filesystem.status(self.directory)
        if status is None and create:
            make_directory_durably(self.filesystem, self.directory)
        elif status is None:
            raise NotALogDirError(f"{self.directory}: no such directory")
        elif not status.is_directory:
            raise NotALogDirError(f"{self.directory}: a file, where a log directory was expected")
        elif not self._looks_like_a_log_directory() and not (create and not self.filesystem.list(self.directory)):
            raise NotALogDirError(
                f"{self.directory}: contains neither {TOPICS_FILE} nor a partition such as my-topic-0; "
                "give a directory of Kafka's log.dirs"
            )

    def _looks_like_a_log_directory(self) -> bool:
        listing = self.filesystem.list(self.directory)
        return not _ROOT_FILES.isdisjoint(listing) or bool(self._partitions_found(lambda _: True))

    def path(self, *file_names: str) -> str:
        """A path below the directory."""
        return names.join(self.directory, *file_names)

    # Topics

    def topics(self) -> dict[str, TopicDescription]:
        """All topics by name: those of ``topics.json``, and others whose partitions are found."""
        described = self.described_topics()
        compacted = {topic for topic, _ in self.offsets(names.CLEANER_OFFSET_CHECKPOINT)}
        for topic, partitions in self._partitions_found(lambda topic: topic not in described).items():
            configs = INTERNAL_TOPICS.get(topic) or ({"cleanup.policy": "compact"} if topic in compacted else {})
            described[topic] = TopicDescription(topic, partitions, configs, known=Known.NOTHING)
        return dict(sorted(described.items()))

    def topic(self, name: str) -> TopicDescription:
        """One topic. Raises UnknownTopicOrPartitionError, with the nearest existing name."""
        found = self.find_topic(name)
        if found is None:
            topics = self.topics()
            hint = did_you_mean(name, topics) or f"; it holds {', '.join(topics) or 'no topics'}"
            raise UnknownTopicOrPartitionError(f"no topic {name!r} in {self.directory}{hint}")
        return found

    def find_topic(self, name: str) -> TopicDescription | None:
        """One topic, or None. If ``topics.json`` lists it, as usual, reads no partition directory."""
        return self.described_topics().get(name) or self.topics().get(name)

    def config(self, topic: str) -> LogConfig:
        """The settings of a topic."""
        return self._config(self.topic(topic))

    def _config(self, description: TopicDescription) -> LogConfig:
        configs, overrides = tuple(description.configs.items()), tuple(self.overrides.items())
        return _config_of(description.name, description.known, configs, overrides)

    def create_topic(
        self, name: str, *, partitions: int, configs: Mapping[str, str] | None = None, topic_id: str | None = None
    ) -> TopicDescription:
        """Create a topic with empty partitions, durable on return. Its id is a new one unless given.

        After a crash, there is no topic of that name, perhaps with partition directories that a second call uses; or
        the whole topic.

        Raises TopicExistsError, InvalidTopicError, InvalidConfigError.
        """
        names.check_topic_name(name)
        configs = dict(configs or INTERNAL_TOPICS.get(name, {}))
        LogConfig.from_mapping(configs)
        check_stays_compacted(name, configs)
        if not 1 <= partitions <= PARTITIONS_MAX:
            raise InvalidConfigError(f"topic {name!r}: {partitions} partitions, 1 to {PARTITIONS_MAX} are allowed")
        topic_id = topic_id or checkpoints.encode_id(uuid4())
        topic = TopicDescription(name, tuple(range(partitions)), configs, topic_id)
        self._take_broker_lock()
        with self.root_lock():
            topics = self.topics()
            clash = next((other for other in topics if names.collides(name, other)), None)
            if clash is not None:
                raise TopicExistsError(f"topic {clash!r} exists in {self.directory}, {name!r} cannot be created")
            self.make_partitions(topic, topic.partitions)
            self.describe_topics({**self.described_topics(), name: topic})
        return topic

    def ensure_topic(
        self, name: str, *, partitions: int | None = None, configs: Mapping[str, str] | None = None
    ) -> TopicDescription:
        """The topic, created if it is missing. Raises TopicExistsError if it has other settings than asked for."""
        topic = self.find_topic(name)
        if topic is None:
            try:
                return self.create_topic(name, partitions=partitions or 1, configs=configs)
            except TopicExistsError:
                topic = self.find_topic(name)  # another process was faster
                if topic is None:
                    raise
        if partitions is not None and partitions != len(topic.partitions):
            raise TopicExistsError(
                f"topic {name!r} has {len(topic.partitions)} partitions, {partitions} were asked for"
            )
        if configs:
            _check_configs(topic, configs)
        return topic

    def make_partitions(self, topic: TopicDescription, partitions: Iterable[int]) -> None:
        """Create their directories, without records, durably; the caller holds the root lock.

        Drops earlier checkpoint entries of partitions with these names first: a new log begins at 0, and its recovery
        point then states that nothing is synced.
        """
        self.forget_partitions({(topic.name, partition) for partition in partitions})
        assert topic.topic_id is not None
        metadata = checkpoints.encode_partition_metadata(checkpoints.decode_id(topic.topic_id))
        for partition in partitions:
            directory = self.path(names.partition_directory(topic.name, partition))
            self.filesystem.make_directory(directory)
            write_atomically(self.filesystem, names.join(directory, names.PARTITION_METADATA_FILE), metadata)
        recovery_points = self.offsets(names.RECOVERY_POINT_CHECKPOINT) | {(topic.name, each): 0 for each in partitions}
        data = checkpoints.encode_offsets(recovery_points)
        write_atomically(self.filesystem, self.path(names.RECOVERY_POINT_CHECKPOINT), data)
        self.filesystem.sync_directory(self.directory)

    def described_topics(self) -> dict[str, TopicDescription]:
        """The content of ``topics.json``; empty in a broker's directory, which has no such file."""
        path = self.path(TOPICS_FILE)
        try:
            return decode_topics(read_file(self.filesystem, path, ROOT_FILE_BYTES_MAX))
        except FileNotFoundError:
            return {}
        except CorruptionError as error:
            raise error.located(path) from error

    def describe_topics(self, topics: Mapping[str, TopicDescription]) -> None:
        """Replace ``topics.json``, atomically and durably. The caller holds the root lock."""
        write_atomically(self.filesystem, self.path(TOPICS_FILE), encode_topics(topics.values()))

    def partitions_found(self, topic: str) -> tuple[int, ...]:
        """The partitions of a topic according to its directories, whatever ``topics.json`` contains."""
        return self._partitions_found(lambda each: each == topic).get(topic, ())

    def is_here(self, topic: str, partition: int) -> bool:
        """Whether a partition's directory exists here: it may be elsewhere, or lost."""
        return self.filesystem.status(self.path(names.partition_directory(topic, partition))) is not None

    def _partitions_found(self, is_wanted: Callable[[str], bool]) -> dict[str, tuple[int, ...]]:
        """Partitions by topic, according to the directories.

        A topic counts once it has a segment: a broker creates one at once, this engine at the first write. From then
        on, its partitions without a segment count if they have ``partition.metadata``.
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

    # Logs

    def open_log(self, topic: str, partition: int, config: LogConfig | None = None) -> Log:
        """A partition for writing; the same object until the manager is closed, but reopened if it failed.

        ``config`` overrides the topic's, for a partition that is known to exist. Raises LogDirLockedError while a
        broker runs on the directory, MissingSegmentError if the directory of the partition is lost, and otherwise as
        Log.open.
        """
        known = self._logs.get((topic, partition))
        if known is not None and known.failure is not None:
            self._logs.pop((topic, partition)).close()
        if (topic, partition) not in self._logs:
            config = stays_compacted(topic, config) if config else self._partition_config(topic, partition)
            self._take_broker_lock()
            directory = self.partition_path(topic, partition)
            if not self.is_here(topic, partition):  # an empty one in its place would hide the loss
                raise MissingSegmentError(f"{directory}: no such directory, although the topic has it; {LOST}")
            self._logs[topic, partition] = Log.open(
                directory,
                config,
                clock=self.clock,
                filesystem=self.filesystem,
                checkpoints=_RootCheckpoints(self, (topic, partition)),
            )
        return self._logs[topic, partition]

    def open_reader(self, topic: str, partition: int, config: LogConfig | None = None) -> LogReader:
        """A partition for reading, as it is now; ``config`` overrides the topic's. Takes no lock."""
        return self._open_to_read(LogReader, topic, partition, config)

    def open_watcher(self, topic: str, partition: int) -> LogWatcher:
        """A partition for reading as it grows. Takes no lock."""
        return self._open_to_read(LogWatcher, topic, partition)

    def _open_to_read(
        self, kind: type[ReaderT], topic: str, partition: int, config: LogConfig | None = None
    ) -> ReaderT:
        found = self._partition_config(topic, partition)
        return kind.open(
            self.partition_path(topic, partition),
            config or found,
            clock=self.clock,
            filesystem=self.filesystem,
            checkpoints=_RootCheckpoints(self, (topic, partition)),
        )

    def partition_path(self, topic: str, partition: int) -> str:
        """The path of a partition. Raises NotALogDirError for a link, which may lead out of the directory."""
        return not_a_link(self.filesystem, self.path(names.partition_directory(topic, partition)))

    def _partition_config(self, topic: str, partition: int) -> LogConfig:
        description = self.topic(topic)
        if partition not in description.partitions:
            raise UnknownTopicOrPartitionError(
                f"topic {topic!r} in {self.directory} has partitions {list(description.partitions)}, but not "
                f"{partition}"
            )
        return self._config(description)

    def kept(self, key: object, make: Callable[[], KeptT]) -> KeptT:
        """The result of ``make`` from the first call with ``key``; closed with the manager."""
        if key not in self._kept:
            self._kept[key] = make()
        found: KeptT = self._kept[key]
        return found

    def close_logs(self, topic: str) -> None:
        """Close the open logs of one topic cleanly."""
        for key in [key for key in self._logs if key[0] == topic]:
            self._logs.pop(key).close()

    def close(self) -> None:
        """Close the logs cleanly, then release the directory. A log that failed is left to the next recovery.

        Releases everything even if a log cannot be closed; the error is raised afterwards.
        """
        with ExitStack() as closing:
            if self._broker_lock is not None:
                closing.callback(self._broker_lock.release)
            for closeable in (*self._kept.values(), *self._logs.values()):
                closing.callback(closeable.close)
            self._broker_lock = None
            self._kept.clear()
            self._logs.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # Locks

    def check_writable(self) -> None:
        """Raise LogDirLockedError while a broker runs on the directory."""
        self._take_broker_lock()

    def lock_brokers_out(self) -> None:
        """Prevent brokers from starting on the directory until the manager is closed. LogDirLockedError if one runs."""
        if self._broker_lock is not None:
            return
        path = self.path(names.LOCK_FILE)
        self._broker_lock = self.filesystem.lock_shared_with_broker(path)
        if self._broker_lock is None:
            raise LogDirLockedError(
                f"{path}: a running Kafka broker holds this directory; it can be read, but stop the broker "
                "before writing to it"
            )

    def _take_broker_lock(self) -> None:
        """Called before the first change, after which a broker's mark of a clean shutdown no longer holds."""
        self.lock_brokers_out()
        if self.filesystem.status(self.path(names.CLEAN_SHUTDOWN_FILE)) is not None:
            self.filesystem.remove(self.path(names.CLEAN_SHUTDOWN_FILE))
            self.filesystem.sync_directory(self.directory)

    def root_lock(self) -> Lock:
        """Wait until nobody else changes files at the root, and lock them."""
        lock = self.filesystem.lock(self.path(ROOT_LOCK_FILE))
        assert lock is not None  # since it waits
        return lock

    # Checkpoints

    def marks(self, partition: TopicPartition) -> Marks:
        """The checkpoints' entries for a partition."""
        return self.all_marks().get(partition, Marks())

    def all_marks(self) -> dict[TopicPartition, Marks]:
        """The checkpoints' entries for each partition that they list."""
        recovery_points = self.offsets(names.RECOVERY_POINT_CHECKPOINT)
        log_starts = self.offsets(names.LOG_START_OFFSET_CHECKPOINT)
        was_closed_cleanly = self.filesystem.status(self.path(names.CLEAN_SHUTDOWN_FILE)) is not None
        return {
            partition: Marks(recovery_points.get(partition), log_starts.get(partition, 0), was_closed_cleanly)
            for partition in recovery_points.keys() | log_starts.keys()
        }

    def write_marks(self, marks: Mapping[TopicPartition, Marks]) -> None:
        """Replace the checkpoints' entries for some partitions; keeps the others."""
        with self.root_lock():
            self._update_offsets(
                names.RECOVERY_POINT_CHECKPOINT, {key: mark.recovery_point or 0 for key, mark in marks.items()}
            )
            self._update_offsets(
                names.LOG_START_OFFSET_CHECKPOINT, {key: mark.log_start_offset for key, mark in marks.items()}
            )

    def write_recovery_points(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the recovery points of some partitions; keeps the others, and all log starts."""
        with self.root_lock():
            self._update_offsets(names.RECOVERY_POINT_CHECKPOINT, offsets)

    def _update_offsets(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        before = self.offsets(name)
        after = {**before, **{key: offset for key, offset in offsets.items() if offset or key in before}}
        if after != before:
            write_atomically(self.filesystem, self.path(name), checkpoints.encode_offsets(after))

    def holes(self, partition: TopicPartition) -> Holes:
        """Where offsets may be missing in a partition.

        The cleaner's checkpoint lists a partition that was compacted or filled with gaps; a broker creates that file if
        its cleaner is on. A partition that is in neither ``topics.json`` nor the recovery points was copied here.
        """
        return self.holes_of_all()(partition)

    def holes_of_all(self) -> Callable[[TopicPartition], Holes]:
        """The same for any partition; reads the files only once."""
        try:
            noted = self._read_offsets(names.CLEANER_OFFSET_CHECKPOINT)
        except CorruptionError:
            return lambda _: Holes.ANYWHERE
        described, recovery_points = self.described_topics(), self.offsets(names.RECOVERY_POINT_CHECKPOINT)

        def told(partition: TopicPartition) -> Holes:
            if partition in (noted or ()):
                return Holes.ANYWHERE
            if partition[0] in described:
                return Holes.NOWHERE
            if partition not in recovery_points:
                return Holes.ANYWHERE
            return Holes.INSIDE_SEGMENTS if noted is None else Holes.NOWHERE

        return told

    def note_holes(self, partition: TopicPartition) -> None:
        """List a partition in the cleaner's checkpoint, durably: from now on, offsets may be missing in it."""
        with self.root_lock():
            noted = self.offsets(names.CLEANER_OFFSET_CHECKPOINT)
            if partition not in noted:
                data = checkpoints.encode_offsets({**noted, partition: 0})
                write_atomically(self.filesystem, self.path(names.CLEANER_OFFSET_CHECKPOINT), data)

    def forget_partitions(self, partitions: Container[TopicPartition]) -> None:
        """Drop checkpoint entries of deleted partitions, durably. The caller holds the root lock."""
        for name in names.OFFSET_CHECKPOINTS:
            before = self.offsets(name)
            after = {key: offset for key, offset in before.items() if key not in partitions}
            if after != before:
                write_atomically(self.filesystem, self.path(name), checkpoints.encode_offsets(after))

    def offsets(self, name: str) -> dict[TopicPartition, int]:
        """The checkpoint of that name; a damaged one counts as empty, which costs a recovery but no record."""
        try:
            return self._read_offsets(name) or {}
        except CorruptionError as error:
            logger.warning("%s; treated as empty", error)
            return {}

    def _read_offsets(self, name: str) -> dict[TopicPartition, int] | None:
        """None if there is no such checkpoint. Raises CorruptCheckpointError."""
        path = self.path(name)
        try:
            return checkpoints.decode_offsets(read_file(self.filesystem, path, ROOT_FILE_BYTES_MAX))
        except FileNotFoundError:
            return None
        except CorruptionError as error:
            raise error.located(path) from None


def _check_configs(topic: TopicDescription, configs: Mapping[str, str]) -> None:
    """Raise TopicExistsError if a topic has other settings than ``configs``; ignores settings that are not given."""
    asked, found = [LogConfig.from_mapping(each).to_mapping() for each in (configs, topic.configs)]
    for key in configs:
        if asked[key] != found[key]:
            raise TopicExistsError(f"topic {topic.name!r} has {key} = {found[key]}, {asked[key]} was asked for")


@dataclass(frozen=True)
class _RootCheckpoints:
    """The checkpoint entries of one partition in its directory."""

    manager: LogManager
    partition: TopicPartition

    def read(self) -> Marks:
        return self.manager.marks(self.partition)

    def write(self, marks: Marks) -> None:
        self.manager.write_marks({self.partition: marks})

    def sync(self) -> None:
        self.manager.filesystem.sync_directory(self.manager.directory)

    def holes(self) -> Holes:
        return self.manager.holes(self.partition)

    def note_holes(self) -> None:
        self.manager.note_holes(self.partition)
