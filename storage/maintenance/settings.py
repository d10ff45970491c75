"""What a run of maintenance is told, and what it knows of a partition."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from pyspark_commitlog.storage.arguments import parse_pairs
from pyspark_commitlog.storage.broker_settings import FoundSettings, TopicSettings, parse_described
from pyspark_commitlog.storage.clock import Clock, SystemClock, instant
from pyspark_commitlog.storage.config import CleanerConfig, LogConfig, keys_of
from pyspark_commitlog.storage.errors import CorruptionError, InvalidConfigError
from pyspark_commitlog.storage.filesystem import FileSystem, LocalFileSystem, not_a_link, read_file, this_process
from pyspark_commitlog.storage.format import names
from pyspark_commitlog.storage.given_settings import config_of
from pyspark_commitlog.storage.internal_topics import is_internal, is_state_of_a_tool
from pyspark_commitlog.storage.joining import Holes, always
from pyspark_commitlog.storage.manager import ROOT_FILE_BYTES_MAX, LogManager, TopicPartition
from pyspark_commitlog.storage.reader import KeptInMemory, LogReader
from pyspark_commitlog.storage.retention import CHECK_INTERVAL_MS
from pyspark_commitlog.storage.segment_reader import LogContext
from pyspark_commitlog.storage.topics_file import TopicDescription
from pyspark_commitlog.storage.verify import CheckpointedOffsets

logger = logging.getLogger(__name__)

CHECK_INTERVAL_KEY = "log.retention.check.interval.ms"

_TOPIC_KEYS = frozenset(key.name for key in keys_of(LogConfig).values())
_BROKER_KEYS = frozenset(
    synonym.name
    for config in (LogConfig, CleanerConfig)
    for key in keys_of(config).values()
    for synonym in key.synonyms
)


@dataclass(frozen=True)
class ConfigOverrides:
    """Settings for one run, by Kafka's names: a topic's count before the topic's own, a broker's behind them."""

    topic: Mapping[str, str] = field(default_factory=dict)
    broker: Mapping[str, str] = field(default_factory=dict)
    check_interval_ms: int = CHECK_INTERVAL_MS  # log.retention.check.interval.ms: how often retention runs
    described: FoundSettings = field(default_factory=FoundSettings)  # of topics that a broker made, by its tools

    @classmethod
    def parse(cls, pairs: Iterable[str], described_in: Sequence[str] = ()) -> ConfigOverrides:
        """From ``key=value``, the last of a key counts; ``described_in`` are files that hold what Kafka's tools print.

        InvalidConfigError names a wrong key, and the nearest one; or a file, and the line that is none of theirs.
        """
        given = parse_pairs("--config", pairs)
        check_interval_ms = _check_interval(given.pop(CHECK_INTERVAL_KEY, str(CHECK_INTERVAL_MS)))
        for key in given:
            _check_known(key)
        for key in LogConfig.without_effect(given):
            logger.warning("--config %s: has no effect here", key)
        topic = {key: value for key, value in given.items() if key in _TOPIC_KEYS}
        broker = {key: value for key, value in given.items() if key not in _TOPIC_KEYS}
        CleanerConfig.from_mapping(broker)
        return cls(topic, broker, check_interval_ms, _described(described_in))

    def config_of(self, topic: TopicDescription) -> LogConfig:
        """The settings that hold for a topic."""
        return config_of(topic, self.topic, self.broker)


def _described(paths: Sequence[str]) -> FoundSettings:
    """What several files say; of a topic that two of them describe, the last counts."""
    filesystem = LocalFileSystem()
    topics: dict[str, TopicSettings] = {}
    for path in paths:
        try:
            data = read_file(filesystem, path, ROOT_FILE_BYTES_MAX)
        except (OSError, CorruptionError) as error:
            raise InvalidConfigError(f"--topic-configs: {error}") from None
        topics.update(parse_described(data.decode(errors="replace"), path).topics)
    return FoundSettings(topics)


def _check_interval(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise InvalidConfigError(f"{CHECK_INTERVAL_KEY} = {text!r}: must be a whole number, at least 1")
    return int(text)


def _check_known(key: str) -> None:
    known = {*_TOPIC_KEYS, *_BROKER_KEYS, CHECK_INTERVAL_KEY}
    if key not in known:
        near = difflib.get_close_matches(key, sorted(known), n=1)
        raise InvalidConfigError(f"unknown config {key}" + (f": did you mean {near[0]}?" if near else ""))


@dataclass(frozen=True)
class MaintenanceRun:
    """What is to be done to a log directory, but for its partitions. Can be pickled, and so sent to other machines."""

    directory: str
    work: str = ""  # what is done, by whom and since when (:func:`work_of`): told to whoever finds a partition locked
    overrides: ConfigOverrides = field(default_factory=ConfigOverrides)
    as_of_ms: int | None = None  # as if it were that time; None: now
    dry_run: bool = False  # nothing is changed and no lock taken
    wait: bool = False  # for partitions that another process works on; else they are reported
    filesystem: FileSystem = field(default_factory=LocalFileSystem)
    clock: Clock = field(default_factory=SystemClock)

    def now_ms(self) -> int:
        """The time by which it goes."""
        return self.clock.now_ms() if self.as_of_ms is None else self.as_of_ms

    def check(self) -> None:
        """Raise InvalidConfigError where more than looking is asked for as of a time to come."""
        if self.as_of_ms is not None and self.as_of_ms > self.clock.now_ms() and not self.dry_run:
            raise InvalidConfigError(
                "--as-of lies in the future, and records must not go before their time: add --dry-run to see what "
                "would be done then"
            )

    def manager(self) -> LogManager:
        """The directory, opened. Raises NotALogDirError."""
        return LogManager.open(self.directory, clock=self.clock, filesystem=self.filesystem)

    @cached_property
    def cleaner_config(self) -> CleanerConfig:
        return CleanerConfig.from_mapping(self.overrides.broker)


def work_of(name: str) -> str:
    """What this process does from now on: where to look for whoever holds a partition."""
    return f"{name} since {instant(SystemClock().now_ms())}, {this_process()}"


class Chosen(Enum):
    """How a run came to a topic."""

    BY_NAME = "by name"
    BY_PATTERN = "by pattern"
    WITH_ALL = "with all"


@dataclass(frozen=True)
class Partition:
    """One log, with its settings and what the checkpoints said of it when the run began. Can be pickled."""

    topic: str
    number: int
    config: LogConfig
    checkpointed: CheckpointedOffsets = field(default_factory=CheckpointedOffsets)
    chosen: Chosen = Chosen.BY_NAME
    is_ours: bool = True  # all of its settings are known, as of a topic that this engine made
    ungiven: frozenset[str] = frozenset()  # of the settings by which records go, those that nobody gave
    holes: Holes = Holes.INSIDE_SEGMENTS  # where offsets may be missing
    has_own_policy: bool = True  # its cleanup.policy is known, whatever the run says

    @property
    def spared(self) -> str | None:
        """Why nothing of it goes, whatever its settings say; None where nothing spares it."""
        if self.chosen is Chosen.BY_NAME:
            return None
        if is_internal(self.topic):
            return "an internal topic, chosen only by its name: never by a pattern, nor with all"
        if is_state_of_a_tool(self.topic) and not self.has_own_policy:
            return (
                "named as tools name what they keep for ever, and its own cleanup.policy is not known: chosen only by "
                "its name, never by a pattern, nor with all"
            )
        return None

    @property
    def key(self) -> TopicPartition:
        return self.topic, self.number

    def __str__(self) -> str:
        return names.partition_directory(self.topic, self.number)

    def _directory(self, run: MaintenanceRun) -> str:
        return not_a_link(run.filesystem, names.join(run.directory, str(self)))

    def context(self, run: MaintenanceRun) -> LogContext:
        """What those who only look at its files need."""
        holes = always(Holes.ANYWHERE if self.config.compact else self.holes)
        return LogContext(self._directory(run), self.config, run.clock, run.filesystem, writable=False, holes=holes)

    def open_reader(self, run: MaintenanceRun) -> LogReader:
        """The log as it is; the marks are those of the run's beginning, which may be lower than those of now."""
        marks = KeptInMemory(self.checkpointed.recovery_point, self.checkpointed.log_start_offset or 0, self.holes)
        clock, filesystem = run.clock, run.filesystem
        return LogReader.open(self._directory(run), self.config, clock=clock, filesystem=filesystem, checkpoints=marks)
