"""LogManager: creates and lists the topics of a log directory, and opens the logs of their partitions.

A directory without ``topics.json``, such as a broker's, is used with default configs but without retention limits,
which are unknown; its topics and partitions are found by the names of directories.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar
from uuid import uuid4

from ..clock import Clock
from ..config import LogConfig
from ..errors import (
    MissingSegmentError,
    PolicyViolationError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
    did_you_mean,
)
from ..filesystem.operations import make_own_directory, not_a_link, remove_tree, write_atomically
from ..filesystem.port import FileSystem
from ..format.files import checkpoints, file_names as names
from ..format.files.file_names import TopicPartition
from ..reading.marks import Checkpoints
from ..reading.reader import LogReader
from ..reading.watcher import LogWatcher
from ..shown import pinned
from ..topic_rules import check_count, check_free, check_new_name, check_partitions, check_requested
from ..writing.locks import is_append_lock_taken
from ..writing.log import Log
from .given_settings import config_of
from .log_directory import LogDirectory, check_copied
from .protected_topics import COORDINATOR_TOPICS, check_stays_compacted, stays_compacted
from .remote_tier import report_remote
from .root_checkpoints import RootCheckpoints
from .topics_file import Known, TopicDescription

if TYPE_CHECKING:
    from ..bucket.commit_log import CommitLog

UNSTAGED_MAX = 100  # up to this many new partitions are made under the root lock, in a third of a second
INTERNAL_PARTITIONS = 50  # offsets.topic.num.partitions, transaction.state.log.num.partitions

LOST = (
    "it was lost: restore it, for example from a snapshot; to continue without it, create the directory and remove "
    f"its line from {names.RECOVERY_POINT_CHECKPOINT}"
)

_Pairs = tuple[tuple[str, str], ...]


class Closeable(Protocol):
    """An object with a ``close`` method, which :meth:`LogManager.kept` closes with the manager."""

    def close(self) -> None: ...


ReaderT = TypeVar("ReaderT", bound=LogReader)
KeptT = TypeVar("KeptT", bound=Closeable)


@lru_cache
def _config_of(topic: str, known: Known, configs: _Pairs, overrides: _Pairs, broker: _Pairs) -> LogConfig:
    """Returns the config of a topic; cached, so that all partitions of a topic share one object, which is immutable."""
    return config_of(TopicDescription(topic, (), dict(configs), known=known), dict(overrides), dict(broker))


class LogManager(LogDirectory):
    """The logs in one directory. Belongs to one thread at a time; a context manager that closes it."""

    def __init__(self, directory: str, clock: Clock, filesystem: FileSystem, overrides: Mapping[str, str]) -> None:
        super().__init__(directory, clock, filesystem, overrides)
        self._logs: dict[TopicPartition, Log] = {}
        self._kept: dict[object, Any] = {}

    # Topics

    def topics(self) -> dict[str, TopicDescription]:
        """Returns all topics, by name: those in ``topics.json``, and others for which there are directories."""
        file = self.topics_file()
        described, broker = dict(file.topics), file.broker
        compacted = {topic for topic, _ in self.offsets(names.CLEANER_OFFSET_CHECKPOINT)}
        for topic, partitions in self._partitions_found(lambda topic: topic not in described).items():
            configs = COORDINATOR_TOPICS.get(topic) or ({"cleanup.policy": "compact"} if topic in compacted else {})
            described[topic] = TopicDescription(topic, partitions, configs, known=Known.NOTHING, broker=broker)
        return dict(sorted(described.items()))

    def topic(self, name: str) -> TopicDescription:
        """Returns a topic. Raises UnknownTopicOrPartitionError, with the most similar existing name."""
        found = self.find_topic(name)
        if found is None:
            topics = self.topics()
            hint = did_you_mean(name, topics) or f"; it holds {', '.join(topics) or 'no topics'}"
            raise UnknownTopicOrPartitionError(f"no topic {name!r} in {self.directory}{hint}")
        return found

    def find_topic(self, name: str) -> TopicDescription | None:
        """Returns a topic; None if it does not exist. Reads no partition directory if ``topics.json`` lists it."""
        return self.topics_file().topics.get(name) or self.topics().get(name)

    def config(self, topic: str) -> LogConfig:
        """Returns the effective settings of a topic."""
        return self._config(self.topic(topic))

    def _config(self, description: TopicDescription) -> LogConfig:
        given = (tuple(each.items()) for each in (description.configs, self.overrides, description.broker))
        return _config_of(description.name, description.known, *given)

    def check_configs(self, configs: Mapping[str, str]) -> None:
        """Raises InvalidConfigError for settings that no topic can have here."""
        LogConfig.from_mapping(configs, broker=self.broker_settings())
        if self.bucket is not None:
            from ..bucket.topics import check_configs  # noqa: PLC0415  a directory needs none of it

            check_configs(configs)

    def check_new_topic(self, name: str, configs: Mapping[str, str]) -> None:
        """Raises the errors of :meth:`create_topic` for a name or settings that no new topic can have here."""
        if self.bucket is not None and name in COORDINATOR_TOPICS:
            raise PolicyViolationError(f"topic {name!r} cannot be created on an object store: commits have its content")
        check_new_name(name)
        self.check_configs(configs)
        check_stays_compacted(name, configs)

    def create_topic(
        self, name: str, *, partitions: int, configs: Mapping[str, str] | None = None, topic_id: str | None = None
    ) -> TopicDescription:
        """Creates a topic with empty partitions; durable on return. ``topic_id`` defaults to a new one.

        After a crash, the whole topic exists or it does not; directories of its partitions may exist, which a second
        call uses.

        Raises TopicExistsError, InvalidTopicError, InvalidConfigError, and PolicyViolationError for one of Kafka's
        internal topics on an object store, where commits have its content.
        """
        if self.bucket is not None:
            return self._commit_topic(self.bucket, name, partitions, configs, topic_id)
        configs, broker = dict(configs or COORDINATOR_TOPICS.get(name, {})), self.broker_settings()
        self.check_new_topic(name, configs)
        check_partitions(name, partitions)
        topic_id = topic_id or checkpoints.encode_id(uuid4())
        topic = TopicDescription(name, tuple(range(partitions)), configs, topic_id, broker=broker)
        self._take_broker_lock()
        if partitions > UNSTAGED_MAX:  # checked first, so that many directories are not made in vain
            check_free(name, self.topics(), f" in {self.directory}")
        with self.staged_partitions(topic, topic.partitions) as staged, self.root_lock():
            check_free(name, self.topics(), f" in {self.directory}")
            self.make_partitions(topic, topic.partitions, staged)
            self.describe_topics({**self.described_topics(), name: topic})
        return topic

    def _commit_topic(
        self, log: CommitLog, name: str, partitions: int, configs: Mapping[str, str] | None, topic_id: str | None
    ) -> TopicDescription:
        self.check_new_topic(name, configs or {})
        from ..bucket.topics import create_topic  # noqa: PLC0415  a directory needs none of it

        log.commit(lambda state: create_topic(state, name, partitions, configs, topic_id=topic_id))
        return self.topic(name)

    def ensure_topic(
        self, name: str, *, partitions: int | None = None, configs: Mapping[str, str] | None = None
    ) -> TopicDescription:
        """Returns a topic, and creates it if it is missing, with one partition by default.

        Raises TopicExistsError if the topic has another number of partitions or other ``configs``; None: any.
        """
        topic = self.find_topic(name)
        if topic is None:
            try:
                return self.create_topic(name, partitions=partitions or 1, configs=configs)
            except TopicExistsError:
                topic = self.find_topic(name)  # another process was faster
                if topic is None:
                    raise
        check_count(name, len(topic.partitions), partitions)
        check_requested(name, configs or {}, topic.configs, topic.broker)
        return topic

    @contextmanager
    def staged_partitions(self, topic: TopicDescription, partitions: Sequence[int]) -> Iterator[str | None]:
        """Makes the directories of many partitions, without the root lock; yields the folder that has them.

        Making one takes milliseconds, and other processes wait for the lock. Yields None for few partitions. The folder
        is named like a deleted partition, so a later deletion, or a broker, removes it after a crash.
        """
        if len(partitions) <= UNSTAGED_MAX:
            yield None
            return
        folder = self.path(names.marked_directory(topic.name, 0, "delete", uuid4().hex))
        make_own_directory(self.filesystem, folder)
        try:
            for partition in partitions:
                self._make_directory(folder, topic, partition)
            yield folder
        finally:
            remove_tree(self.filesystem, folder)

    def make_partitions(self, topic: TopicDescription, partitions: Iterable[int], staged: str | None = None) -> None:
        """Creates the directories of some partitions, without records; durable. The caller holds the root lock.

        First removes checkpoint entries of earlier partitions with the same names: a new log begins at offset 0, and
        its recovery point of 0 states that nothing is synced. ``staged``: the folder from :meth:`staged_partitions`.
        """
        self.forget_partitions({TopicPartition(topic.name, partition) for partition in partitions})
        for partition in partitions:
            if staged is None or not self._is_moved(staged, names.partition_directory(topic.name, partition)):
                self._make_directory(self.directory, topic, partition)
        if staged is not None and self.filesystem.status(staged) is not None:
            self.filesystem.sync_directory(staged)
        recovery_points = self.offsets(names.RECOVERY_POINT_CHECKPOINT)
        recovery_points |= {TopicPartition(topic.name, each): 0 for each in partitions}
        data = checkpoints.encode_offsets(recovery_points)
        write_atomically(self.filesystem, self.path(names.RECOVERY_POINT_CHECKPOINT), data)
        self.filesystem.sync_directory(self.directory)

    def _make_directory(self, parent: str, topic: TopicDescription, partition: int) -> None:
        assert topic.topic_id is not None
        metadata = checkpoints.encode_partition_metadata(checkpoints.decode_id(topic.topic_id))
        directory = names.join(parent, names.partition_directory(topic.name, partition))
        make_own_directory(self.filesystem, directory)
        write_atomically(self.filesystem, names.join(directory, names.PARTITION_METADATA_FILE), metadata)

    def _is_moved(self, staged: str, name: str) -> bool:
        """Moves a directory to its path; False if a crash left another one there, or a deletion removed this one."""
        if self.filesystem.status(not_a_link(self.filesystem, self.path(name))) is not None:
            return False
        with suppress(FileNotFoundError):
            self.filesystem.rename(names.join(staged, name), self.path(name))
            return True
        return False

    # Logs

    def is_append_locked(self, topic: str, partition: int) -> bool:
        """Whether a process holds the append lock of a partition now, so that :meth:`open_log` would wait for it."""
        directory = self.partition_path(topic, partition)
        return self.is_here(topic, partition) and is_append_lock_taken(self.filesystem, directory)

    def open_log(
        self, topic: str, partition: int, config: LogConfig | None = None, *, reports_remote: bool = True
    ) -> Log:
        """Opens a partition for writing. Returns the same object until the manager is closed or a write has failed.

        ``config`` replaces the topic's; the partition must then exist. ``reports_remote``: as in :meth:`open_reader`.
        Raises LogDirLockedError while a broker runs on the directory, MissingSegmentError if the directory of the
        partition is lost, and the errors of Log.open.
        """
        topic_partition = TopicPartition(topic, partition)
        known = self._logs.get(topic_partition)
        has_failed = known is not None and known.failure is not None
        if has_failed:
            self._logs.pop(topic_partition).close()
        if topic_partition not in self._logs:
            config = stays_compacted(topic, config) if config else self._partition_config(topic, partition)
            self._take_broker_lock()
            directory = self.partition_path(topic, partition)
            if not self.is_here(topic, partition):  # an empty directory in its place would hide the loss
                check_copied(self.filesystem, directory)
                raise MissingSegmentError(f"{directory}: no such directory, although the topic has it; {LOST}")
            self._logs[topic_partition] = Log.open(
                directory,
                config,
                clock=self.clock,
                filesystem=self.filesystem,
                checkpoints=RootCheckpoints(self, topic_partition),
                after_failure=has_failed,
            )
            if reports_remote:
                report_remote(directory, self._logs[topic_partition].remote)
        return self._logs[topic_partition]

    def opened_log(self, topic: str, partition: int) -> Log | None:
        """Returns a partition's log that is open for writing and has not failed, if there is one. Opens nothing."""
        log = self._logs.get(TopicPartition(topic, partition))
        return log if log is None or log.failure is None else None

    def open_reader(
        self, topic: str, partition: int, config: LogConfig | None = None, *, reports_remote: bool = True
    ) -> LogReader:
        """Opens a partition for reading, as it is now; ``config`` replaces the topic's. Takes no lock.

        Logs a warning if only a broker's remote storage has the log's first offsets. With ``reports_remote=False``, the
        caller does that, by :attr:`LogReader.remote`.
        """
        found = self._partition_config(topic, partition)
        return self._open_to_read(LogReader, topic, partition, config or found, reports_remote=reports_remote)

    def open_reader_of_known(self, topic: str, partition: int, config: LogConfig) -> LogReader:
        """Opens a partition that the caller knows to exist; saves a tier from listing all partitions of the topic.

        Otherwise as :meth:`open_reader` with ``reports_remote=False``.
        """
        return self._open_to_read(LogReader, topic, partition, config, reports_remote=False)

    def open_watcher(self, topic: str, partition: int, *, reports_remote: bool = True) -> LogWatcher:
        """Opens a partition for reading as it grows. Takes no lock. Otherwise as :meth:`open_reader`."""
        config = self._partition_config(topic, partition)
        return self._open_to_read(LogWatcher, topic, partition, config, reports_remote=reports_remote)

    def _open_to_read(
        self,
        kind: type[ReaderT],
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        reports_remote: bool,
    ) -> ReaderT:
        path = self.partition_path(topic, partition)
        files = pinned(self.filesystem, path)
        opened = kind.open(
            path,
            config,
            clock=self.clock,
            filesystem=files,
            checkpoints=self._checkpoints_to_read(TopicPartition(topic, partition), files),
        )
        if reports_remote:
            report_remote(path, opened.remote)
        return opened

    def _checkpoints_to_read(self, partition: TopicPartition, files: FileSystem) -> Checkpoints:
        """Returns the marks for a reader of a partition, as of the moment of its ``files``, if they have one."""
        if self.bucket is None or partition.topic not in self.bucket.state.topic_ids:
            return RootCheckpoints(self, partition)
        from ..bucket.files.marks import StateMarks  # noqa: PLC0415  a directory needs none of it
        from ..bucket.files.pinned import PinnedFiles  # noqa: PLC0415

        assert isinstance(files, PinnedFiles)
        return StateMarks(files)

    def partition_path(self, topic: str, partition: int) -> str:
        """Returns the path of a partition's directory.

        Raises NotALogDirError for a symbolic link, which may lead out of the log directory.
        """
        return not_a_link(self.filesystem, self.path(names.partition_directory(topic, partition)))

    def _partition_config(self, topic: str, partition: int) -> LogConfig:
        description = self.topic(topic)
        description.check_partition(partition, self.directory)
        return stays_compacted(topic, self._config(description))

    def kept(self, key: object, make: Callable[[], KeptT]) -> KeptT:
        """Returns the result of ``make``, which is called at the first call with ``key``; closed with the manager."""
        if key not in self._kept:
            self._kept[key] = make()
        found: KeptT = self._kept[key]
        return found

    def close_logs(self, topics: Collection[str]) -> None:
        """Closes the open logs of some topics cleanly; if one cannot be closed, closes the others, then raises."""
        with ExitStack() as closing:
            for key in [key for key in self._logs if key.topic in topics]:
                closing.callback(self._logs.pop(key).close)

    def close(self) -> None:
        """Closes all logs cleanly, then releases the lock on the directory. The next opening recovers a failed log.

        If a log cannot be closed, closes the others and releases the lock, then raises the error.
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
