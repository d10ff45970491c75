"""Runs each kind of maintenance over all selected partitions; a runner runs the tasks, in a loop or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from typing import Protocol, runtime_checkable

from ..directory.manager import LogManager
from ..errors import LogStoreError
from ..format.files.file_names import TopicPartition
from ..index_rebuild.segment import SegmentSurvey
from ..retention.policies import RetentionPolicy
from ..text import parse_names
from ..tiers.known_segments import KnownSegments
from . import abandoned_transactions, compact, rebuild as rebuilding, recover, retain, verify
from .bucket import operations as in_bucket
from .outcome import OutcomeStatus, PartitionOutcome, attempt, of_directory
from .run import Item, MaintenanceRun, Partition, Result, Runner
from .selecting import Selection, with_checkpoints

LOGS_AT_A_TIME = 64  # limit of logs whose locks one process holds: each is an open file


@runtime_checkable
class ReadsLog(Protocol):
    """An item of a runner whose task reads a log, or a part of one."""

    def log_bytes(self, run: MaintenanceRun) -> int:
        """Returns the bytes of the ``.log`` files that the task reads."""
        ...


class Operation(Protocol):
    """An operation over selected partitions that needs no further arguments, such as :func:`compact_partitions`."""

    def __call__(self, run: MaintenanceRun, selection: Selection, runner: Runner, /) -> Iterator[PartitionOutcome]: ...


def _judge_deleted(run: MaintenanceRun, outcomes: Iterable[PartitionOutcome]) -> Iterator[PartitionOutcome]:
    """Yields the outcomes; if a topic was deleted during the run, its outcome states that, and is not a failure."""
    for outcome in outcomes:
        is_deleted = outcome.status is not OutcomeStatus.DONE and _is_deleted(run, outcome.topic)
        yield outcome.of_deleted() if is_deleted else outcome


def _is_deleted(run: MaintenanceRun, topic: str) -> bool:
    """Whether a topic was deleted; False also if the directory cannot be read, so that the failure stays one."""
    try:
        with run.manager() as manager:
            return manager.find_topic(topic) is None
    except (LogStoreError, OSError):
        return False


def in_this_process(what: str, task: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
    """A :class:`Runner` that runs the tasks one after the other."""
    return map(task, items)


def retain_partitions(
    run: MaintenanceRun,
    selection: Selection,
    runner: Runner,
    *,
    keep_for_groups: Sequence[str] = (),
    keep_for_tables: retain.TablesKept = retain.no_tables,
    policy: RetentionPolicy | None = None,
) -> Iterator[PartitionOutcome]:
    """Deletes old segments, one log per task, and yields an outcome per partition.

    First ends abandoned transactions, which would block this. Keeps records that a group in ``keep_for_groups`` has not
    read; each item is a name, or several separated by commas. ``keep_for_tables`` returns, when the run begins, the
    next offsets of tables that are exported from topics; records that these lack are kept. ``policy`` replaces
    ``retention.ms`` and ``retention.bytes`` in topics whose ``cleanup.policy`` has ``delete``.
    """
    kept_for = parse_names("--keep-for-groups", keep_for_groups)
    if run.bucket is not None:
        with run.manager() as manager:
            readers = retain.ReadersKept.read(manager, kept_for, keep_for_tables)
        yield from in_bucket.retain_partitions(run, selection.partitions, readers, policy)
        return
    with run.manager() as manager:
        ended = list(abandoned_transactions.resolve(run, manager))
        readers = retain.ReadersKept.read(manager, kept_for, keep_for_tables)
    yield from ended
    task = partial(retain.retain_partition, run, readers=readers, policy=policy, known=KnownSegments())
    yield from _judge_deleted(run, runner("logs", task, selection.partitions))


def compact_partitions(run: MaintenanceRun, selection: Selection, runner: Runner) -> Iterator[PartitionOutcome]:
    """Compacts logs that are due, dirtiest first, one log per task. Yields an outcome for every log, due or not."""
    if run.bucket is not None:
        yield from in_bucket.compact_partitions(run, selection.partitions, runner)
        return
    choices = list(runner("logs examined", partial(compact.choose, run), selection.partitions))
    due = compact.by_dirt(choices)
    yield from _judge_deleted(run, (choice.outcome for choice in choices if choice.outcome is not None))
    yield from _judge_deleted(run, runner("logs", partial(compact.compact_partition, run), due))


def verify_partitions(run: MaintenanceRun, selection: Selection, runner: Runner) -> Iterator[PartitionOutcome]:
    """Verifies logs, one segment per task; yields outcomes of damage at the root, then of partitions."""
    yield from _of_root(selection)
    yield from _judge_deleted(run, map(verify.verdict, _verified(run, selection.partitions, runner).values()))


def _of_root(selection: Selection) -> Iterator[PartitionOutcome]:
    yield from (of_directory("checkpoint", error) for error in selection.damage)
    yield from (of_directory("copy", error) for error in selection.unfinished)


def _verified(
    run: MaintenanceRun, partitions: Sequence[Partition], runner: Runner
) -> dict[TopicPartition, verify.Verified | PartitionOutcome]:
    """Returns the verification report of each partition."""
    plans = list(runner("logs listed", partial(verify.plan_partition, run), partitions))
    tasks = [verify.SegmentTask(plan.partition, segment) for plan in plans for segment in plan.segments]
    results = list(runner("segments", partial(verify.verify_one_segment, run), tasks))
    pairs = zip(tasks, results, strict=True)
    found = {key: [result for _, result in group] for key, group in groupby(pairs, lambda pair: pair[0].partition.key)}
    return {plan.partition.key: verify.report_on(run, plan, found.get(plan.partition.key, ())) for plan in plans}


def recover_partitions(run: MaintenanceRun, selection: Selection, runner: Runner) -> Iterator[PartitionOutcome]:
    """Recovers logs after a crash, one log per task: cuts off an incomplete end. Yields an outcome per partition.

    Then verifies them, so that no log counts as recovered in which something is wrong. With ``run.dry_run``, only
    verifies; the findings show what recovery would do. Raises LogDirLockedError while a broker runs on the directory.
    """
    if run.dry_run:
        yield from verify_partitions(run, selection, runner)
        return
    with run.manager() as manager:
        manager.check_writable()
    yield from _of_root(selection)
    recovered = list(runner("logs", partial(recover.recover_partition, run), selection.partitions))
    done = {(each.topic, each.partition) for each in recovered if each.status is OutcomeStatus.DONE}
    with run.manager() as manager:
        now = with_checkpoints(manager, [each for each in selection.partitions if each.key in done])
    yield from _judge_deleted(run, recover.with_findings(recovered, _verified(run, now, runner)))


def rebuild_partitions(run: MaintenanceRun, selection: Selection, runner: Runner) -> Iterator[PartitionOutcome]:
    """Rebuilds wrong indexes and snapshots, one segment per task, but not of damaged logs; yields the outcomes.

    Raises LogDirLockedError while a broker runs on the directory, unless ``run.dry_run``.
    """
    if run.bucket is not None:
        yield from in_bucket.rebuild_partitions(run, selection.partitions, runner)
        return
    for at in range(0, len(selection.partitions), LOGS_AT_A_TIME):
        with ExitStack() as locks, run.manager() as manager:
            if not run.dry_run:
                manager.check_writable()
            logs = _Logs(run, manager, runner, selection.partitions[at : at + LOGS_AT_A_TIME])
            logs.lock(locks)
            logs.survey()
            logs.rebuild()
            yield from _judge_deleted(run, logs.finish())


class _Logs:
    """Logs whose indexes are rebuilt together. A log's first problem is its outcome; later steps skip the log."""

    def __init__(
        self, run: MaintenanceRun, manager: LogManager, runner: Runner, partitions: Sequence[Partition]
    ) -> None:
        self._run, self._manager, self._runner = run, manager, runner
        self._partitions = partitions
        self._wrong: dict[TopicPartition, PartitionOutcome] = {}
        self._surveys: dict[TopicPartition, list[SegmentSurvey]] = {}
        self._indexes: list[rebuilding.SegmentToSurvey] = []  # indexes that contradict the log

    def lock(self, locks: ExitStack) -> None:
        """Takes the maintenance locks until ``locks`` closes, in order, so that no two processes block each other."""
        if not self._run.dry_run:
            for partition in self._partitions:
                self._note(partition, attempt(partition, partial(self._lock_one, partition, locks)))

    def _lock_one(self, partition: Partition, locks: ExitStack) -> None:
        rebuilding.finish_swaps(self._run, self._manager, partition)
        locks.enter_context(partition.locked_for(self._run))

    def survey(self) -> None:
        """Reads every segment; keeps the results for the next steps."""
        tasks: list[rebuilding.SegmentToSurvey] = []
        for partition in self._sound():
            listed = rebuilding.list_segments(self._run, partition)
            self._note(partition, listed)
            tasks += [] if isinstance(listed, PartitionOutcome) else listed
        results = self._runner("segments", partial(rebuilding.survey_one_segment, self._run), tasks)
        for task, survey in zip(tasks, results, strict=True):
            self._note(task.partition, survey)
            if isinstance(survey, SegmentSurvey):
                self._surveys.setdefault(task.partition.key, []).append(survey)
                if survey.changes and not task.is_active:
                    self._indexes.append(task)

    def rebuild(self) -> None:
        """Writes the indexes of closed segments, except in logs with a damaged segment."""
        if self._run.dry_run:
            return
        is_damaged = {key for key, surveys in self._surveys.items() if any(each.damage for each in surveys)}
        tasks = [
            task
            for task in self._indexes
            if task.partition.key not in is_damaged and task.partition.key not in self._wrong
        ]
        results = self._runner("indexes", partial(rebuilding.rebuild_one_segment, self._run), tasks)
        for task, wrong in zip(tasks, results, strict=True):
            self._note(task.partition, wrong)

    def finish(self) -> Iterator[PartitionOutcome]:
        """Writes the files that depend on all segments of a log, and yields the outcome of each log."""
        for partition in self._partitions:
            wrong = self._wrong.get(partition.key)
            surveys = self._surveys.get(partition.key, [])
            yield wrong or rebuilding.finish_partition(self._run, self._manager, partition, surveys)

    def _sound(self) -> list[Partition]:
        return [partition for partition in self._partitions if partition.key not in self._wrong]

    def _note(self, partition: Partition, result: object) -> None:
        if isinstance(result, PartitionOutcome):
            self._wrong.setdefault(partition.key, result)
