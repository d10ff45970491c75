"""The upgrade of a directory: creates its topics in the target, then copies each partition by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from ...storage.clock import Clock, SystemClock
from ...storage.directory.manager import LogManager
from ...storage.errors import CorruptionError, InvalidConfigError, LogDirLockedError, LogStoreError, NotALogDirError
from ...storage.filesystem.holders import lock_holders
from ...storage.filesystem.local import LocalFileSystem
from ...storage.filesystem.operations import make_directory_durably
from ...storage.filesystem.port import FileSystem, Lock
from ...storage.format.files.file_names import TopicPartition
from ...storage.maintenance.outcome import OutcomeStatus, PartitionOutcome
from ...storage.maintenance.run import Runner
from ...storage.text import counted
from ..log_0_7.directory import position_partitions
from ..log_0_7.reader import PositionLogReader
from .partition import Copied, PartitionCopy

LOCK_FILE = ".lock"


@dataclass(frozen=True)
class UpgradeRun:
    """An upgrade, for all of its tasks. Can be pickled."""

    source: str  # the directory of 0.7
    target: str  # the log directory to create, or to continue with
    positions: str  # the directory of the tables
    configs: Mapping[str, str] = field(default_factory=dict)  # of the topics to make
    filesystem: FileSystem = field(default_factory=LocalFileSystem)
    clock: Clock = field(default_factory=SystemClock)

    def table_path(self, partition: TopicPartition) -> str:
        """Returns the path of the table of a partition."""
        return f"{self.positions}/{partition}.csv"

    def source_partitions(self) -> dict[TopicPartition, str]:
        """Returns the directory of each partition of the source. Raises NotALogDirError if there is none."""
        if self.filesystem.status(self.source) is None:
            raise NotALogDirError(f"{self.source}: no such directory")
        found = position_partitions(self.filesystem, self.source)
        if not found:
            raise NotALogDirError(f"{self.source} has no partition of Kafka 0.7, such as my-topic-0")
        return {TopicPartition(*each): f"{self.source}/{name}" for name, each in sorted(found.items())}

    def manager(self) -> LogManager:
        """Opens the target, which is created if missing."""
        return LogManager.open(self.target, create=True, clock=self.clock, filesystem=self.filesystem)


def upgrade_partitions(run: UpgradeRun, runner: Runner) -> Iterator[PartitionOutcome]:
    """Makes the topics of the source in the target, and copies each partition; yields an outcome for each.

    On disk after each step: some of the topics, whole, but empty; all topics; some partitions copied, as
    :meth:`.partition.PartitionCopy.run` says. If it is killed at any step and run again, the result is the same. Raises
    InvalidConfigError if source and target are one directory, LogDirLockedError if another upgrade runs, and
    NotALogDirError for a source without partitions, and for a target that is no log directory.
    """
    if run.source == run.target:
        raise InvalidConfigError(f"{run.source}: an upgrade needs another directory for the new log")
    sources = run.source_partitions()
    make_directory_durably(run.filesystem, run.positions)
    with _locked(run):
        failures = dict(_make_topics(run, sources))
        for each in sources:
            if each.topic in failures:
                yield _failed(each, failures[each.topic])
        wanted = [(each, directory) for each, directory in sources.items() if each.topic not in failures]
        yield from runner("partitions", partial(_outcome, run), wanted)


def _locked(run: UpgradeRun) -> Lock:
    path = f"{run.positions}/{LOCK_FILE}"
    lock = run.filesystem.lock(path, wait=False)
    if lock is None:
        raise LogDirLockedError(
            f"another upgrade writes to {run.positions}; wait for it, or stop it{lock_holders(path)}"
        )
    return lock


def _make_topics(run: UpgradeRun, sources: Mapping[TopicPartition, str]) -> Iterator[tuple[str, LogStoreError]]:
    """Makes the topics that are missing, with partitions up to the largest number; yields those it cannot make."""
    counts: dict[str, int] = {}
    for topic, partition in sources:
        counts[topic] = max(counts.get(topic, 0), partition + 1)
    with run.manager() as manager:
        for topic, count in counts.items():
            try:
                manager.ensure_topic(topic, partitions=count, configs=dict(run.configs) or None)
            except LogStoreError as error:
                yield topic, error


def _outcome(run: UpgradeRun, item: tuple[TopicPartition, str]) -> PartitionOutcome:
    """Copies a partition from its directory in the source."""
    partition, directory = item
    try:
        with run.manager() as manager:
            copy = PartitionCopy(
                PositionLogReader(directory, run.filesystem),
                manager.open_log(*partition),
                run.table_path(partition),
                run.filesystem,
            )
            return _done(partition, copy.run())
    except (LogStoreError, OSError) as error:
        return _failed(partition, error)


def _done(partition: TopicPartition, copied: Copied) -> PartitionOutcome:
    text = (
        f"{partition}: positions {copied.first_position} to {copied.end_position}, "
        f"{counted(copied.appended, 'record')} appended, log end offset {copied.end_offset}"
    )
    return PartitionOutcome(*partition, OutcomeStatus.DONE, text, copied._asdict())


def _failed(partition: TopicPartition, error: Exception) -> PartitionOutcome:
    damaged = isinstance(error, CorruptionError)
    status = OutcomeStatus.DAMAGED if damaged else OutcomeStatus.FAILED
    return PartitionOutcome(*partition, status, f"{partition}: {error}", {"error": str(error)})
