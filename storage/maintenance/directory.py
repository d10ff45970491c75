"""The four kinds of work over all chosen partitions of a directory, by whatever runs tasks: a loop, or a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Protocol, TypeVar

from pyspark_commitlog.storage.maintenance import compacting, retaining, verifying
from pyspark_commitlog.storage.maintenance.outcome import PartitionOutcome
from pyspark_commitlog.storage.maintenance.settings import MaintenanceRun, Selection

Item = TypeVar("Item")
Result = TypeVar("Result")


class Runner(Protocol):
    """Runs tasks that need nothing of each other, anywhere that sees the directory."""

    def __call__(self, what: str, task: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
        """``task`` of each item, in the order of the items; ``what`` names the tasks in the plural.

        Task, items and results can be pickled.
        """
        ...


def in_this_process(what: str, task: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
    """The runner that is a loop."""
    return map(task, items)


def retain_partitions(
    run: MaintenanceRun, selection: Selection, runner: Runner, *, keep_for_groups: Sequence[str] = ()
) -> Iterator[PartitionOutcome]:
    """Retention, one log a task."""
    with run.manager() as manager:
        groups = retaining.GroupsKept.read(manager, keep_for_groups)
    yield from runner("logs", partial(retaining.retain_partition, run, groups=groups), selection.partitions)


def compact_partitions(run: MaintenanceRun, selection: Selection, runner: Runner) -> Iterator[PartitionOutcome]:
    """Compaction of the logs that are due, the dirtiest first, one log a task; of the others, why they are not."""
    choices = list(runner("logs looked at", partial(compacting.choose, run), selection.partitions))
    due = compacting.by_dirt(choices)
    yield from (choice.outcome for choice in choices if choice.outcome is not None)
    yield from runner("logs", partial(compacting.compact_partition, run), due)


def verify_partitions(run: MaintenanceRun, selection: Selection, runner: Runner) -> Iterator[PartitionOutcome]:
    """Verification, one segment a task; checkpoints at the root that are damaged come first."""
    yield from map(verifying.checkpoint_outcome, selection.damage)
    plans = list(runner("logs listed", partial(verifying.plan_partition, run), selection.partitions))
    tasks = [verifying.SegmentTask(plan.partition, segment) for plan in plans for segment in plan.segments]
    results = list(runner("segments", partial(verifying.verify_one_segment, run), tasks))
    pairs = zip(tasks, results, strict=True)
    found = {key: [result for _, result in group] for key, group in groupby(pairs, lambda pair: pair[0].partition.key)}
    for plan in plans:
        yield verifying.verdict(run, plan, found.get(plan.partition.key, ()))
