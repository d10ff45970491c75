"""What a run of maintenance is told, and which partitions it is about.

What is the same for all partitions is read once, so that ten thousand of them cost no more than their own files.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pyspark_commitlog.storage.arguments import parse_names, parse_pairs
from pyspark_commitlog.storage.clock import Clock, SystemClock, instant
from pyspark_commitlog.storage.config import CleanerConfig, LogConfig, keys_of
from pyspark_commitlog.storage.errors import CorruptionError, InvalidConfigError
from pyspark_commitlog.storage.filesystem import FileSystem, LocalFileSystem, not_a_link, read_file, this_process
from pyspark_commitlog.storage.format import checkpoints, names
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

    @classmethod
    def parse(cls, pairs: Iterable[str]) -> ConfigOverrides:
        """From ``key=value``, the last of a key counts; InvalidConfigError names a wrong one, and the nearest key."""
        given = parse_pairs("--config", pairs)
        check_interval_ms = _check_interval(given.pop(CHECK_INTERVAL_KEY, str(CHECK_INTERVAL_MS)))
        for key in given:
            _check_known(key)
        for key in LogConfig.without_effect(given):
            logger.warning("--config %s: has no effect here", key)
        topic = {key: value for key, value in given.items() if key in _TOPIC_KEYS}
        broker = {key: value for key, value in given.items() if key not in _TOPIC_KEYS}
        CleanerConfig.from_mapping(broker)
        return cls(topic, broker, check_interval_ms)

    def config_of(self, topic: TopicDescription) -> LogConfig:
        """The settings that hold for a topic."""
        return LogConfig.from_mapping({**topic.configs, **self.topic}, broker=self.broker)


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


@dataclass(frozen=True)
class Partition:
    """One log, with its settings and what the checkpoints said of it when the run began. Can be pickled."""

    topic: str
    number: int
    config: LogConfig
    checkpointed: CheckpointedOffsets = field(default_factory=CheckpointedOffsets)

    @property
    def key(self) -> TopicPartition:
        return self.topic, self.number

    def __str__(self) -> str:
        return names.partition_directory(self.topic, self.number)

    def _directory(self, run: MaintenanceRun) -> str:
        return not_a_link(run.filesystem, names.join(run.directory, str(self)))

    def context(self, run: MaintenanceRun) -> LogContext:
        """What those who only look at its files need."""
        return LogContext(self._directory(run), self.config, run.clock, run.filesystem, writable=False)

    def open_reader(self, run: MaintenanceRun) -> LogReader:
        """The log as it is; the marks are those of the run's beginning, which may be lower than those of now."""
        marks = KeptInMemory(self.checkpointed.recovery_point or 0, self.checkpointed.log_start_offset or 0)
        clock, filesystem = run.clock, run.filesystem
        return LogReader.open(self._directory(run), self.config, clock=clock, filesystem=filesystem, checkpoints=marks)


@dataclass(frozen=True)
class Selection:
    """The partitions a run is about."""

    partitions: tuple[Partition, ...]  # by topic and number
    damage: tuple[CorruptionError, ...]  # of checkpoints at the root


def select_partitions(manager: LogManager, wanted: Sequence[str], overrides: ConfigOverrides) -> Selection:
    """The partitions of the topics ``wanted``, of all where it is empty.

    Each is a name, or a pattern: a regular expression that the whole name matches; or several, separated by commas. A
    topic's name is never taken for a pattern. Raises UnknownTopicOrPartitionError with the nearest name,
    InvalidConfigError for a setting, no name at all, or a pattern that is none or matches nothing.
    """
    topics = manager.topics()
    asked = parse_names("--topics", wanted)
    chosen = dict.fromkeys(name for each in asked for name in _matching(manager, topics, each)) if asked else topics
    told, damage = _checkpointed(manager)
    partitions = tuple(
        Partition(name, number, config, CheckpointedOffsets(*(offsets.get((name, number)) for offsets in told)))
        for name in sorted(chosen)
        for config in [overrides.config_of(topics[name])]
        for number in topics[name].partitions
    )
    return Selection(partitions, damage)


def _matching(manager: LogManager, topics: Mapping[str, TopicDescription], wanted: str) -> list[str]:
    if wanted in topics:
        return [wanted]
    if names.is_topic_name(wanted):
        return [manager.topic(wanted).name]  # which raises
    try:
        pattern = re.compile(wanted)
    except re.error as error:
        raise InvalidConfigError(f"--topics {wanted!r}: neither a topic nor a regular expression: {error}") from None
    found = [name for name in topics if pattern.fullmatch(name)]
    if not found:
        raise InvalidConfigError(f"--topics {wanted!r}: no topic matches; there are {', '.join(topics) or 'none'}")
    return found


def _checkpointed(manager: LogManager) -> tuple[list[dict[TopicPartition, int]], tuple[CorruptionError, ...]]:
    """The checkpoints of the directory, in the order of CheckpointedOffsets; a damaged one says nothing."""
    told: list[dict[TopicPartition, int]] = []
    damage: list[CorruptionError] = []
    for name in names.OFFSET_CHECKPOINTS:
        path = manager.path(name)
        try:
            told.append(checkpoints.decode_offsets(read_file(manager.filesystem, path, ROOT_FILE_BYTES_MAX)))
        except FileNotFoundError:
            told.append({})
        except CorruptionError as error:
            damage.append(error.located(path))
            told.append({})
    return told, tuple(damage)
