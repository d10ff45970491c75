"""Erases records from many partitions, one log per task, and searches them again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

from ..bucket.collecting import CollectLimits
from ..bucket.topics import find_topic
from ..directory.admin import topic_ids
from ..directory.log_directory import check_copied
from ..directory.manager import LogManager
from ..directory.protected_topics import is_protected
from ..errors import InvalidConfigError, StorageError
from ..filesystem.port import FileSystem
from ..format.files import file_names
from ..maintenance.bucket.scratch import Place
from ..maintenance.outcome import OutcomeStatus, PartitionOutcome, attempt, outcome_of, patiently
from ..maintenance.run import MaintenanceRun, Partition, Runner
from ..maintenance.selecting import Selection
from ..text import counted
from .certificate import Certificate, Erasure, ErasureClaim
from .choosing import ChosenRecords, ErasureTask, RecordChoice, choose
from .in_bucket import collect_old, erase_in_bucket, may_have_records
from .in_tier import EarlierRun, TierCopies, joined
from .keys import AskedKeys, KeyFinder, RecordFinder
from .one_log import LogErasure, erase, preview
from .search import ErasedKeys, LogContent, Sought, search


def erase_partitions(
    run: MaintenanceRun, selection: Selection, runner: Runner, asked: Erasure
) -> Iterator[PartitionOutcome]:
    """Erases the asked records from the selected partitions; yields an outcome for each.

    Writes the certificate, unless ``run.dry_run``. Raises InvalidConfigError for an internal topic and for a
    certificate of another erasure, and LogDirLockedError while a broker runs on the directory.
    """
    _check_selection(selection, asked)
    certificate = None if run.dry_run else _begin(run, asked)
    tasks, failed = _tasks(run, selection, runner, asked, certificate)
    keys = asked.records if isinstance(asked.records, AskedKeys) else None
    for outcome in chain(failed, runner("logs", partial(_erase_partition, run, keys), tasks)):
        if certificate is not None:
            name = file_names.partition_directory(outcome.topic, outcome.partition)
            certificate.note(name, {"status": outcome.status.value, **outcome.facts})
        yield outcome
    if certificate is not None:
        topics = {each.topic for each in selection.partitions}
        certificate.end(run.clock.now_ms(), _old_objects(run, certificate, topics))


def _begin(run: MaintenanceRun, asked: Erasure) -> Certificate:
    with run.manager() as manager:
        manager.check_writable()
    return Certificate.begin(asked, run.directory, run.clock.now_ms())


def _tasks(
    run: MaintenanceRun, selection: Selection, runner: Runner, asked: Erasure, certificate: Certificate | None
) -> tuple[list[ErasureTask], list[PartitionOutcome]]:
    """Returns the logs to erase from, and the outcomes of those in which no records could be chosen.

    Records that a condition chooses are in the certificate before the first one is erased.
    """
    if isinstance(asked.records, AskedKeys):
        return [ErasureTask(each, earlier=_earlier(certificate, each)) for each in selection.partitions], []
    tasks, failed = list[ErasureTask](), list[PartitionOutcome]()
    results = runner("logs to choose from", partial(_choose, run, asked.records), selection.partitions)
    for partition, chosen in zip(selection.partitions, results, strict=True):
        if isinstance(chosen, PartitionOutcome):
            failed.append(chosen)
        else:
            erased = None if certificate is None else certificate.choose(str(partition), chosen)
            tasks.append(ErasureTask(partition, chosen, erased, _earlier(certificate, partition)))
    return tasks, failed


def _earlier(certificate: Certificate | None, partition: Partition) -> EarlierRun | None:
    return None if certificate is None else certificate.earlier(str(partition))


def _choose(run: MaintenanceRun, choice: RecordChoice, partition: Partition) -> ChosenRecords | PartitionOutcome:
    def chosen() -> ChosenRecords:
        id_ = _topic_id(run, partition)
        with partition.open_reader(run) as reader:
            return reader.looking_again(lambda: choose(reader, partition.key, choice, id_))

    return attempt(partition, chosen)


def _topic_id(run: MaintenanceRun, partition: Partition) -> str | None:
    with run.manager() as manager:
        return topic_ids(manager, [partition.key]).get(partition.topic)


def _old_objects(run: MaintenanceRun, certificate: Certificate, topics: Collection[str]) -> list[str]:
    """Deletes old objects that may be deleted; returns the remaining ones."""
    if run.bucket is None:
        return []
    if not certificate.names_old_objects:
        certificate.name_old_objects(may_have_records(run.bucket, topics))
    limits = CollectLimits.from_mapping(run.broker_settings)
    return collect_old(run.bucket, limits, certificate.old_objects, run.clock, wait=run.wait)


def check_erased_partitions(
    run: MaintenanceRun, selection: Selection, runner: Runner, claim: ErasureClaim
) -> Iterator[PartitionOutcome]:
    """Searches the selected partitions again for records that a certificate calls erased; yields their outcomes.

    A partition that still has some has failed: erase it again.
    """
    yield from runner("logs", partial(_check_partition, run, claim), selection.partitions)


def _check_selection(selection: Selection, asked: Erasure) -> None:
    if not asked.topics:
        raise InvalidConfigError("name the topics to erase from with --topics")
    internal = sorted({each.topic for each in selection.partitions if is_protected(each.topic)})
    if internal:
        raise InvalidConfigError(
            f"{', '.join(internal)}: records of internal topics are not erased by their keys; delete groups with "
            "commitlog groups --delete"
        )


def _erase_partition(run: MaintenanceRun, keys: AskedKeys | None, task: ErasureTask) -> PartitionOutcome:
    if run.dry_run:
        return outcome_of(task.partition, lambda: _preview(run, keys, task))
    return _failed_if_found(outcome_of(task.partition, lambda: _erase(run, keys, task)))


def _preview(run: MaintenanceRun, keys: AskedKeys | None, task: ErasureTask) -> Erased:
    finder = _finder(keys, task)
    with task.partition.open_reader(run) as reader:
        done = reader.looking_again(lambda: preview(reader, finder))
    return Erased(task.partition, _covering(task, done))


def _erase(run: MaintenanceRun, keys: AskedKeys | None, task: ErasureTask) -> Erased:
    partition, finder = task.partition, _finder(keys, task)
    topic_id = _topic_id(run, partition)
    if task.chosen is not None and task.chosen.topic_id != topic_id:
        raise StorageError(f"{partition}: the topic was deleted and made again in the meantime; run this again")
    elsewhere: tuple[str, ...] = ()
    if run.bucket is not None:
        check_copied(run.filesystem, partition.context(run).directory)
        place = Place(run.bucket, find_topic(run.bucket.catch_up(), partition.topic), partition.number)
        done = erase_in_bucket(place, partition.config, run.clock, finder, run.holder)
    else:
        with run.manager() as manager:
            log = manager.open_log(*partition.key, partition.config)
            is_copied = partition.is_ours and not partition.config.remote_log_copy_disable
            copies = TierCopies(manager, log, partition.key, task.earlier, is_ours=is_copied)
            done = patiently(run, log, lambda: erase(log, finder, run.holder, copies))
            elsewhere = tuple(_elsewhere(manager, partition, done))
    sought = task.erased or ErasedKeys(_given(keys))
    return Erased(partition, _covering(task, done), _search(run, partition, sought), elsewhere, topic_id)


def _finder(keys: AskedKeys | None, task: ErasureTask) -> RecordFinder:
    return KeyFinder(_given(keys)) if task.chosen is None else task.chosen


def _given(keys: AskedKeys | None) -> AskedKeys:
    assert keys is not None  # set, because no condition chose the records
    return keys


def _covering(task: ErasureTask, done: LogErasure) -> LogErasure:
    """Returns the changes; records that were appended after the choice are not covered."""
    end = done.end_offset if task.chosen is None else min(done.end_offset, task.chosen.end_offset)
    return done._replace(end_offset=end)


def _search(run: MaintenanceRun, partition: Partition, sought: Sought) -> LogContent:
    with partition.open_reader(run) as reader:
        return reader.looking_again(lambda: search(reader, sought))


def _check_partition(run: MaintenanceRun, claim: ErasureClaim, partition: Partition) -> PartitionOutcome:
    def checked() -> Checked:
        sought = claim.sought(str(partition), _topic_id(run, partition))
        return Checked(partition, _search(run, partition, sought))

    return _failed_if_found(outcome_of(partition, checked))


def _failed_if_found(outcome: PartitionOutcome) -> PartitionOutcome:
    is_free = outcome.facts.get("is_free", True)
    return outcome if is_free else replace(outcome, status=OutcomeStatus.FAILED)


def _elsewhere(manager: LogManager, partition: Partition, done: LogErasure) -> Iterator[str]:
    """Yields the other known files with records of the partition."""
    for each in done.replaced:
        if each.other_names:
            path = file_names.segment_file(each.base_offset, file_names.LOG)
            links = counted(each.other_names, "hard link")
            yield f"{links} to the old {path} of {partition}, as a snapshot on the same disk has"
    yield from _other_directories(manager.filesystem, manager.directory, partition)


def _other_directories(filesystem: FileSystem, directory: str, partition: Partition) -> Iterator[str]:
    for name in filesystem.list(directory):
        found = file_names.parse_partition_directory(name)
        is_marked = found is not None and (found.topic, found.partition) == partition.key and name != str(partition)
        if is_marked or name == file_names.unfinished_directory(*partition.key):
            yield f"{file_names.join(directory, name)}: an unfinished or deleted copy of {partition}; remove it"


@dataclass(frozen=True)
class Erased:
    """The report of the records erased from a log, or to be erased."""

    partition: Partition
    done: LogErasure
    content: LogContent | None = None  # None: a dry run
    elsewhere: Iterable[str] = ()
    topic_id: str | None = None

    @property
    def _covers_open(self) -> bool:
        return self.done.open_from is None or self.done.open_from < self.done.end_offset

    @property
    def _is_complete(self) -> bool:
        is_free = self.content is not None and not self.content.found
        return is_free and self._covers_open and not self.done.in_tier

    @property
    def records(self) -> int:
        return sum(each.records for each in self.done.replaced)

    def __str__(self) -> str:
        done, segments = self.done, len(self.done.replaced)
        verb = "would be erased" if self.content is None else "erased"
        lines = [
            f"{self.partition}: {counted(self.records, 'record')} {verb}, in {counted(segments, 'segment')}; covers "
            f"all offsets below {done.end_offset}"
        ]
        if done.open_from is not None:
            covered = "are covered too" if self._covers_open else "are not covered: run this again when it has ended"
            lines.append(f"a transaction is open from offset {done.open_from} on; its records {covered}")
        if self.content is not None:
            lines.append(_searched(self.content))
        lines += [f"elsewhere: {each}" for each in [*self.elsewhere, *joined(done.in_tier)]]
        return "\n  ".join(lines)

    def facts(self) -> Mapping[str, Any]:
        after = {} if self.content is None else self.content.to_json()
        return {
            "records_erased": self.records,
            "erased_below_offset": self.done.end_offset,
            "open_transaction_from": self.done.open_from,
            "replaced": [each._asdict() for each in self.done.replaced],
            "removed_files": [*self.done.removed],
            "elsewhere": [*self.elsewhere],
            "topic_id": self.topic_id,
            "in_tier": [each._asdict() for each in self.done.in_tier],
            "after": after,
            "is_free": self.content is None or not self.content.found,
            "is_complete": self._is_complete,
        }


@dataclass(frozen=True)
class Checked:
    """The report of a search for erased records."""

    partition: Partition
    content: LogContent

    def __str__(self) -> str:
        return f"{self.partition}: {_searched(self.content)}"

    def facts(self) -> Mapping[str, Any]:
        return {**self.content.to_json(), "is_free": not self.content.found}


def _searched(content: LogContent) -> str:
    facts = content.to_json()
    some, none = content.sought.says
    found = f"{content.found:,} {some}: erase again" if content.found else none
    return f"read again: {counted(facts['records'], 'record')} in {facts['bytes']:,} bytes; {found}"
