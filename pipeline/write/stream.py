"""``writeStream.format("commitlog")``: writes each micro-batch once to topics on an object store.

Spark makes a writer in a process that plans a micro-batch, sends it to the tasks, and makes another one in a process
that commits. So data that all tasks share travels with the writer, and data for the commit travels in the tasks'
messages: the tasks know the query, the committing process does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType
from pyspark.taskcontext import TaskContext

from ...storage import (
    SINK_PREFIX,
    InvalidConfigError,
    ObjectStoreError,
    ProgressMismatchError,
    is_store_url,
    local_path,
    open_store,
)
from ..rows.spark_schema import WriteColumns
from ..workers.border import errors_end_here
from .answers import Answer
from .dataframe import WriteOptions
from .exactly_once.checkpoint import Checkpoint, LocalCheckpoint, Note, Remembered, Target
from .exactly_once.progress import Progress, Run, set_back, written_by_tasks
from .old_records import warn_if_old
from .publication import bucket
from .publication.bucket import BucketPublication, StagingTicket
from .publication.port import Offsets, Write
from .task import TaskWriter, WritePlan

if TYPE_CHECKING:
    from .targets import Targets

CHECKPOINT = "checkpointLocation"  # Spark's options of a query, which reach us too
_OF_QUERIES = (CHECKPOINT, "queryName")


@errors_end_here
class StreamWrite(DataSourceStreamArrowWriter):
    """Writes micro-batches of one query; Spark makes one for each micro-batch, and one that commits."""

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        """Creates missing topics. Raises the errors of ``commitlog_sink``'s function, and :func:`refuse_stream`."""
        parsed = WriteOptions.parse(options, *_OF_QUERIES, is_query=True)
        self._targets: Targets = parsed.targets
        if not is_store_url(self._targets.directory):
            raise refuse_stream()
        WriteColumns.of(schema, str(self._targets), by_topic=self._targets.by_column)
        self._app_id = parsed.app_id  # None: the query's id
        self._checkpoint = next((value for name, value in options.items() if name.lower() == CHECKPOINT.lower()), "")
        self._topics = bucket.prepared(self._targets, self._check_new)
        self._write = uuid4().hex

    def _check_new(self) -> None:
        """Raises ProgressMismatchError if the checkpoint has batches of the log that is about to be created."""
        checkpoint, directory = _checkpoint_at(self._checkpoint), self._targets.directory
        if is_store_url(self._checkpoint):
            _check_not_begun(self._checkpoint, directory)
        run = Run(self._app_id or checkpoint.query_id(), checkpoint.query_id(), "")
        target = Target(run.app_id, directory, dict.fromkeys(self._targets.names))
        Progress(run, checkpoint.newest_batch(), {}).check_remembered(checkpoint.remembered(target), directory)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        run, batch = _run_of_task(self._app_id)
        ticket = StagingTicket(run.app_id, self._write, None)
        plan = WritePlan.of(self._targets, self._topics, frozenset(), ticket, batch)
        return StreamReport(TaskWriter(plan).answers(iterator), run, plan)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        """Makes all rows visible; does nothing for a batch that is in the log already.

        Raises ProducerFencedError if another run took over, InvalidConfigError if another query wrote under the name,
        ProgressMismatchError if log and checkpoint do not belong together, and OutcomeUnknownError.
        """
        reports = [each for each in messages if isinstance(each, StreamReport)]
        if reports:  # without a task, there are no rows
            _Commit(reports, batchId, self._checkpoint).run()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Does nothing: Spark calls it also after a commit whose result is not known."""


@dataclass
class StreamReport(WriterCommitMessage):
    """The message from a task to :meth:`StreamWrite.commit`."""

    answers: Sequence[Answer]
    run: Run
    plan: WritePlan


class _Commit:
    """The commit of one micro-batch."""

    def __init__(self, reports: Sequence[StreamReport], version: int, checkpoint: str) -> None:
        self._answers = [answer for report in reports for answer in report.answers]
        self._run, self._plan, self._version = reports[0].run, reports[0].plan, version
        self._checkpoint = _checkpoint_at(checkpoint)
        names = sorted(self._plan.wanted)
        self._target = Target(
            self._run.app_id, self._plan.directory, {name: self._plan.topics[name].topic_id for name in names}
        )

    def run(self) -> None:
        plan, target = self._plan, self._target
        written = written_by_tasks(self._answers)
        warn_if_old(plan.directory, plan.topics, f"batch {self._version} of {self._run.app_id}", written)
        publication = _publication_of(plan.directory, self._run)
        progress = Progress(self._run, self._version, publication.committed(), self._checkpoint.plan(self._version))
        progress.check_remembered(self._checkpoint.remembered(target), plan.directory)
        if self._is_done(progress):
            return
        assert isinstance(plan.ticket, StagingTicket)
        write = Write(publication.ticket(plan.ticket.write), plan.topics, list(target.topics), progress)
        with self._checkpoint.secured(target, progress.notes(target.topics)) as secured:
            commit = publication.decision(write, self._answers, written)
            secured.result()
            commit()

    def _is_done(self, progress: Progress) -> bool:
        """Whether all topics have the batch. Raises ProgressMismatchError if only some have it."""
        done = [name for name in self._target.topics if progress.is_done(name)]
        if done and len(done) < len(self._target.topics):
            raise ProgressMismatchError(
                f"batch {self._version} of {self._run.app_id!r} is in topic {', '.join(done)}, but not in all of "
                f"{', '.join(self._target.topics)}: the topics of the query were changed before the batch was "
                "complete. Run the query once with the topics that it had"
            )
        return bool(done)


_PUBLICATIONS: dict[tuple[str, str], tuple[str, BucketPublication]] = {}  # by URL and name; with the run that has it


def _publication_of(directory: str, run: Run) -> BucketPublication:
    """Returns the writer that this process keeps for a run; the first one of a run fences those of other runs.

    Raises ProgressMismatchError if the log was replaced during the run by one that has fewer batches of it.
    """
    key = (directory, run.app_id)
    run_id, kept = _PUBLICATIONS.pop(key, ("", None))
    if kept is None or run_id != run.run_id:
        kept = bucket.kept(directory, run)
    elif not kept.is_current():
        before, kept = kept.committed(), bucket.kept(directory, run)
        _check_not_set_back(before, kept, run)
    _PUBLICATIONS[key] = run.run_id, kept
    return kept


def _check_not_set_back(before: Offsets, publication: BucketPublication, run: Run) -> None:
    now = publication.committed()
    for partition, had in before.items():
        has = now[partition].offset if partition in now else 0
        if has < had.offset:
            topic, note = partition.topic.removeprefix(SINK_PREFIX), Note(had.offset - 1, had.offset, None)
            remembered = Remembered(topic, note, "this process remembers", "start the query again")
            raise set_back(remembered, run.app_id, publication.directory, has)


def _run_of_task(app_id: str | None) -> tuple[Run, int]:
    """Returns the query's run and the micro-batch of the task that calls."""
    context = TaskContext.get()
    assert context is not None
    query_id = context.getLocalProperty("sql.streaming.queryId") or ""
    run_id = context.getLocalProperty("spark.jobGroup.id") or ""
    return Run(app_id or query_id, query_id, run_id), int(context.getLocalProperty("streaming.sql.batchId") or 0)


def _checkpoint_at(location: str) -> Checkpoint:
    """Returns the query's checkpoint; an unknown one unless the option names a local folder by its whole path."""
    with suppress(InvalidConfigError):
        if location.startswith(("/", "file:")):
            return LocalCheckpoint(local_path(location))
    return Checkpoint()


def _check_not_begun(checkpoint: str, directory: str) -> None:
    """Raises ProgressMismatchError if a checkpoint on an object store has a batch that was committed to some log.

    Such a checkpoint has no notes that name the log. Raises nothing if the log's credentials do not open it.
    """
    with suppress(InvalidConfigError, ObjectStoreError):
        committed = [each.key for each in open_store(checkpoint).list("commits")]
        numbers = [int(name) for key in committed if (name := key.rpartition("/")[2]).isdecimal()]
        if numbers:
            raise ProgressMismatchError(
                f"{checkpoint}: the query has committed batches up to {max(numbers)}, but there is no log at "
                f"{directory}: it was deleted, or was another one. Restore it, or use a new checkpoint. To go on with "
                "an empty log, make it first: commitlog topics --create"
            )


def refuse_stream() -> InvalidConfigError:
    """Returns the error for ``writeStream.format("commitlog")`` with a log directory."""
    return InvalidConfigError(
        "writing each row of a streaming query exactly once to a log directory needs foreachBatch, since Spark's "
        "Python sinks have no step before the tasks in which a transaction could begin (a log on an object store needs "
        "none). Use instead: from pyspark_commitlog import commitlog_sink; "
        "df.writeStream.foreachBatch(commitlog_sink(topic='…', log_dir='…')).option('checkpointLocation', '…').start()"
    )
