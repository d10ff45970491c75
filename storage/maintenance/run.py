"""The options of a maintenance run, its facts about each partition, and the runner of its tasks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Protocol, TypeVar

from ..bucket.collecting import COLLECTOR_KEYS, CollectLimits
from ..bucket.commit_log import CommitLog
from ..clock import Clock, SystemClock, instant
from ..config import CleanerConfig, LogConfig, keys_of
from ..directory.admin import log_bytes
from ..directory.broker_settings.described import parse_described
from ..directory.broker_settings.found import FoundSettings, TopicSettings
from ..directory.directory_settings import BROKER_KEYS, check_interval_ms
from ..directory.given_settings import config_of
from ..directory.log_directory import ROOT_FILE_BYTES_MAX
from ..directory.manager import LogManager
from ..directory.protected_topics import is_protected, is_state_of_a_tool
from ..directory.topics_file import TopicDescription
from ..errors import CorruptionError, InvalidConfigError, LogDirLockedError, did_you_mean
from ..filesystem.local import LocalFileSystem
from ..filesystem.locks import this_process
from ..filesystem.operations import not_a_link, read_file
from ..filesystem.port import FileSystem, Lock, MadeFileSystem
from ..format.files import file_names
from ..format.files.file_names import TopicPartition
from ..paths import is_store_url, local_path
from ..reading.marks import KeptInMemory
from ..reading.reader import LogReader
from ..segment.joining import Holes, always
from ..segment.walk import LogContext
from ..shown import bucket_of, shown_at
from ..text import parse_pairs
from ..verify.log import CheckpointedOffsets
from ..writing.locks import MAINTENANCE_LOCK_FILE, take_maintenance_lock, wait_for_lock, write_holder

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")

_TOPIC_KEYS = frozenset(key.name for key in keys_of(LogConfig).values())


@dataclass(frozen=True)
class ConfigOverrides:
    """Settings for one run, by Kafka's names: ``topic`` overrides a topic's own settings, these override ``broker``."""

    topic: Mapping[str, str] = field(default_factory=dict)
    broker: Mapping[str, str] = field(default_factory=dict)
    described: FoundSettings = field(default_factory=FoundSettings)  # of a broker's topics, by its tools

    @classmethod
    def parse(
        cls, pairs: Iterable[str], described_in: Sequence[str] = (), *, log_dir: str | None = None
    ) -> ConfigOverrides:
        """Returns the overrides in ``key=value`` pairs, and the settings of topics in files ``described_in``.

        The last pair of a key counts. The files have the output of Kafka's tools. ``log_dir``: the log of the run, a
        directory or a URL; None: unknown. Logs a warning for each key that has no effect there.

        Raises InvalidConfigError, which names a wrong key and the nearest known one, or a file and its unreadable line.
        """
        given = parse_pairs("--config", pairs)
        for key in given:
            _check_known(key)
        is_bucket = log_dir is None or is_store_url(log_dir)
        for key in LogConfig.without_effect(given):
            if key in COLLECTOR_KEYS and is_bucket:
                continue
            logger.warning("--config %s: has no effect here", key)
        topic = {key: value for key, value in given.items() if key in _TOPIC_KEYS}
        broker = {key: value for key, value in given.items() if key not in _TOPIC_KEYS}
        CleanerConfig.from_mapping(broker)
        CollectLimits.from_mapping(broker)
        check_interval_ms(broker)
        return cls(topic, broker, _described(described_in))

    def above(self, broker: Mapping[str, str]) -> ConfigOverrides:
        """Returns these overrides with the settings in ``broker`` added, except those that the run overrides itself."""
        return replace(self, broker={**broker, **self.broker})

    def config_of(self, topic: TopicDescription) -> LogConfig:
        """Returns the settings of a topic in this run."""
        return config_of(topic, self.topic, self.broker)


def _described(paths: Sequence[str]) -> FoundSettings:
    """Returns the settings of topics in files; if two files describe a topic, the last one counts."""
    filesystem = LocalFileSystem()
    topics: dict[str, TopicSettings] = {}
    for path in paths:
        try:
            data = read_file(filesystem, path, ROOT_FILE_BYTES_MAX)
        except (OSError, CorruptionError) as error:
            raise InvalidConfigError(f"--topic-configs: {error}") from None
        topics.update(parse_described(data.decode(errors="replace"), path).topics)
    return FoundSettings(topics)


def _check_known(key: str) -> None:
    known = {*_TOPIC_KEYS, *BROKER_KEYS, *COLLECTOR_KEYS}
    if key not in known:
        raise InvalidConfigError(f"unknown config {key}{did_you_mean(key, sorted(known))}")


@dataclass(frozen=True)
class MaintenanceRun:
    """The directory and the options of a maintenance run, for all of its tasks. Can be pickled."""

    directory: str  # a local path, file:/x becomes /x; or the URL of a log on an object store
    holder: str = ""  # the run's name, start and process (:func:`describe_holder`), for others that find a lock held
    overrides: ConfigOverrides = field(default_factory=ConfigOverrides)
    as_of_ms: int | None = None  # the time to assume; None: now
    dry_run: bool = False  # change nothing and take no lock
    wait: bool = False  # whether to wait for partitions locked by another process, instead of reporting them
    filesystem: FileSystem = field(default_factory=LocalFileSystem)
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        """Raises InvalidConfigError for a path on another file system (:func:`paths.local_path`).

        Reads the log at a URL, or the tier at an address, as :meth:`LogManager.open` does.
        """
        object.__setattr__(self, "filesystem", shown_at(self.directory) or self.filesystem)
        made = self.filesystem.root if isinstance(self.filesystem, MadeFileSystem) else None
        object.__setattr__(self, "directory", made or local_path(self.directory))

    @property
    def bucket(self) -> CommitLog | None:
        """The log on an object store, if the run maintains one."""
        return bucket_of(self.filesystem)

    def now_ms(self) -> int:
        """Returns the time that the run assumes, in ms since the epoch."""
        return self.clock.now_ms() if self.as_of_ms is None else self.as_of_ms

    def check(self) -> None:
        """Raises InvalidConfigError if ``as_of_ms`` is in the future and the run is not a dry run."""
        if self.as_of_ms is not None and self.as_of_ms > self.clock.now_ms() and not self.dry_run:
            raise InvalidConfigError(
                "--as-of is in the future, and no record may be deleted early: add --dry-run to see what "
                "would be done then"
            )

    def manager(self) -> LogManager:
        """Opens the directory. Raises NotALogDirError."""
        return LogManager.open(self.directory, clock=self.clock, filesystem=self.filesystem)

    @cached_property
    def broker_settings(self) -> Mapping[str, str]:
        """The settings of a broker, by its keys: those of the directory, overridden by those of the run."""
        with self.manager() as manager:
            return self.overrides.above(manager.broker_settings()).broker

    @cached_property
    def cleaner_config(self) -> CleanerConfig:
        return CleanerConfig.from_mapping(self.broker_settings)

    @cached_property
    def check_interval_ms(self) -> int:
        """How often retention runs, in ms."""
        return check_interval_ms(self.broker_settings)


def describe_holder(name: str) -> str:
    """Returns ``NAME since TIME, PROCESS`` for this process, so that others can find who locks a partition."""
    return f"{name} since {instant(SystemClock().now_ms())}, {this_process()}"


class Runner(Protocol):
    """Runs independent tasks, on machines that can access the directory."""

    def __call__(self, what: str, task: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
        """Returns the result of ``task`` for each item, in order. ``what`` names the items for progress: ``segments``.

        ``task``, items and results can be pickled.
        """
        ...


class Chosen(Enum):
    """The way in which a run selected a topic."""

    BY_NAME = "by name"
    BY_PATTERN = "by pattern"
    WITH_ALL = "with all"


@dataclass(frozen=True)
class Partition:
    """One log, with its settings and its checkpointed offsets at the beginning of the run. Can be pickled."""

    topic: str
    number: int
    config: LogConfig
    checkpointed: CheckpointedOffsets = field(default_factory=CheckpointedOffsets)
    chosen: Chosen = Chosen.BY_NAME
    is_ours: bool = True  # all of its settings are known, because this engine created the topic
    ungiven: frozenset[str] = frozenset()  # settings that decide about deletion but are unknown
    holes: Holes = Holes.INSIDE_SEGMENTS  # where offsets may be missing
    has_own_policy: bool = True  # its cleanup.policy is known, whatever the run's overrides

    @property
    def is_undecided(self) -> bool:
        """Whether somebody has to name settings before anything of the topic may be deleted."""
        return bool(self.ungiven) and not is_protected(self.topic)

    @property
    def spared(self) -> str | None:
        """Why nothing of the log may be deleted, whatever its settings; None if something may."""
        if self.chosen is Chosen.BY_NAME:
            return None
        if is_protected(self.topic):
            return "an internal topic, chosen only by its name: to include it, name it in --topics"
        if is_state_of_a_tool(self.topic) and not self.has_own_policy:
            return (
                "tools keep state for ever in topics of this name, and its own cleanup.policy is not known, so it is "
                "chosen only by its name: to include it, name it in --topics"
            )
        return None

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.topic, self.number)

    def __str__(self) -> str:
        return file_names.partition_directory(self.topic, self.number)

    def _directory(self, run: MaintenanceRun) -> str:
        return not_a_link(run.filesystem, file_names.join(run.directory, str(self)))

    def context(self, run: MaintenanceRun) -> LogContext:
        """Returns a context for reading the log's files, not for writing."""
        holes = always(Holes.ANYWHERE if self.config.compact else self.holes)
        return LogContext(self._directory(run), self.config, run.clock, run.filesystem, writable=False, holes=holes)

    @contextmanager
    def locked_for(self, run: MaintenanceRun) -> Iterator[None]:
        """A context that holds the log's maintenance lock; other processes show ``run.holder`` in their errors.

        It does not open the log, which would repair the segments one after the other; tasks repair them in parallel.
        If another process holds the lock, waits with ``run.wait``, else raises LogDirLockedError.
        """
        context = self.context(run)
        with _maintenance_lock(context, wait=run.wait):
            write_holder(context, run.holder)
            yield

    def open_reader(self, run: MaintenanceRun) -> LogReader:
        """Opens the log as it is now; its checkpointed offsets are from the run's start and may be too low."""
        marks = KeptInMemory(self.checkpointed.recovery_point, self.checkpointed.log_start_offset or 0, self.holes)
        clock, filesystem = run.clock, run.filesystem
        return LogReader.open(self._directory(run), self.config, clock=clock, filesystem=filesystem, checkpoints=marks)

    def log_bytes(self, run: MaintenanceRun) -> int:
        """Returns the bytes of the ``.log`` files, to show progress; 0 without a directory."""
        with suppress(OSError):
            return log_bytes(run.filesystem, self._directory(run))
        return 0


def _maintenance_lock(context: LogContext, *, wait: bool) -> Lock:
    try:
        return take_maintenance_lock(context)
    except LogDirLockedError as error:
        if not wait:
            raise
        logger.warning("%s; waiting for it", error)
        return wait_for_lock(context, MAINTENANCE_LOCK_FILE)
