"""The foreachBatch writer: each micro-batch of a streaming query is one Kafka transaction.

The query's progress (``exactly_once.progress``) is a consumer offset that is committed in the transaction; a batch
below this offset is skipped. docs/exactly_once.md lists what is guaranteed, and how it was tested.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from ...storage import TopicDescription, TransactionAbortedError
from ..rows.messages import LongRowError
from ..rows.spark_schema import WriteColumns
from ..workers.border import ending_here
from .answers import ANSWER, Answer, Written
from .exactly_once.checkpoint import Checkpoint, Plan, Remembered, Target
from .exactly_once.connect_queries import KnowsItsQuery
from .exactly_once.progress import Progress, Run, check_app_id, check_version, written_by_tasks
from .kept_writers import KeptWriter, SinkBatch, calling, release, remembered_here, writing
from .old_records import warn_if_old
from .publication.opening import check_session, end_at
from .publication.port import Ticket, Write
from .targets import Targets
from .task import TaskWriter, WritePlan

BATCH_ID = "streaming.sql.batchId"  # Spark's property of the thread that calls foreachBatch
ATTEMPTS = 3  # attempts to write a micro-batch, before the query fails
_STOPPED = ("cancelled", "java.lang.InterruptedException")  # in Spark's errors for stopped queries

logger = logging.getLogger(__name__)


def commitlog_sink(
    *,
    topic: str | None = None,
    topics: str | Sequence[str] | None = None,
    log_dir: str,
    txnAppId: str | None = None,  # noqa: N803  Spark's name for it, as in Delta's writer
    partitions: int | None = None,
    configs: Mapping[str, object] | None = None,
    producer: Mapping[str, object] | None = None,
    badRecords: str | None = None,  # noqa: N803  written as Spark writes its options
) -> CommitLogSink:
    """Returns a function for ``writeStream.foreachBatch`` that appends each micro-batch once to topics in ``log_dir``.

    ``log_dir`` is a directory, or the URL of a log on an object store, such as ``s3://bucket/logs``.

    Rows have a column ``value`` (binary or string) and may have ``key``, ``timestamp``, ``partition`` (int) and
    ``headers``; other columns are ignored. They are written to ``topic``; with ``topics`` (names, or one string with
    commas), each is written to the topic that its column ``topic`` names. A missing topic is created with
    ``partitions`` (default 1) and ``configs``, Kafka's topic settings by name; an existing topic must have these
    already. ``producer`` has settings of Kafka's producer by name (:meth:`ProducerSettings.parse`).

    A row that its topic refuses fails the query before any row of the micro-batch is visible. With ``badRecords``, the
    name of another topic, such a row is written to that topic instead, in the same transaction (``bad_rows``).

    ``txnAppId`` names the writer, by default the query's id; the batch id is the version of a write (Delta's
    ``txnVersion``). Two queries need two names; several sinks of one query, to different topics, may share a name. A
    name has 1 to 32,767 bytes of UTF-8, and a batch id is from 0 to 2**63 - 2.

    Raises InvalidConfigError for invalid arguments. The returned function raises, before anything is written,
    InvalidConfigError for columns that cannot be written, for a ``txnAppId`` of another query, and, with a directory,
    for ``spark.speculation``; TopicExistsError for a topic with other settings; ProgressMismatchError if checkpoint and
    log do not belong together; and LogDirLockedError if a broker runs on the directory, or another process writes under
    the same name. On an object store, the later of two processes with one name takes over, and the commit of the other
    raises ProducerFencedError.
    """
    targets = Targets.parse(
        log_dir,
        topic=topic,
        topics=topics if topics is None or isinstance(topics, str) else list(topics),
        partitions=partitions,
        configs=configs,
        producer=producer,
        bad_records=badRecords,
    )
    if txnAppId is not None:
        check_app_id(txnAppId)
    return CommitLogSink(targets, txnAppId)


class CommitLogSink(KnowsItsQuery):
    """The function that :func:`commitlog_sink` returns: call it with a DataFrame and a batch id."""

    def __init__(self, targets: Targets, app_id: str | None) -> None:
        self._targets = targets
        self._app_id = app_id
        self._written_as: set[str] = set()

    @ending_here
    def __call__(self, frame: DataFrame, batch_id: int) -> list[Written]:
        """Writes ``frame``.

        Returns the records that each task wrote; an empty list for a batch that was written before.
        """
        columns = WriteColumns.of(frame.schema, str(self._targets), by_topic=self._targets.by_column)
        check_session(frame.sparkSession, self._targets.directory)
        check_version(batch_id, "the batch id")
        session = frame.sparkSession
        run = Run.of(session, self._app_id)
        checkpoint, plan = _planned(session, run, batch_id)
        self._written_as.add(run.app_id)
        with calling(self._targets.directory, run, batch_id, self._targets.names):
            return self._write(columns.select(frame), run, batch_id, checkpoint, plan)

    def _write(self, rows: DataFrame, run: Run, version: int, checkpoint: Checkpoint, plan: Plan) -> list[Written]:
        directory = self._targets.directory

        def check_new() -> None:
            target = Target(run.app_id, directory, dict.fromkeys(self._targets.names))
            Progress(run, version, {}).check_remembered(_remembered(target, checkpoint), directory)

        topics = end_at(directory).prepared(self._targets, check_new)
        target = Target(run.app_id, directory, {name: topics[name].topic_id for name in self._targets.names})
        with writing(directory, run, topics) as writer:
            progress = Progress(run, version, writer.publication.committed(), plan)
            progress.check_remembered(_remembered(target, checkpoint), directory)
            writer.publication.check(progress, topics)
            batch = _MicroBatch(writer, self._targets, topics, progress)
            with checkpoint.secured(target, progress.notes(target.topics)) as secured:
                return batch.write(rows, secured)

    def close(self) -> None:
        """Closes the topics' logs cleanly, and releases the lock on the ``txnAppId``.

        Call it after the query has ended; a listener does the same a moment after the end. If neither happens, nothing
        is lost, but the next start, or a broker, has to read more of the log.
        """
        for app_id in self._written_as:
            release(self._targets.directory, app_id)
        self._written_as.clear()


class _MicroBatch:
    """Writes the rows of one micro-batch to the topics that lack them."""

    def __init__(
        self, writer: KeptWriter, targets: Targets, topics: Mapping[str, TopicDescription], progress: Progress
    ) -> None:
        self._writer = writer
        self._targets = targets
        self._progress = progress
        self._done = frozenset(name for name in targets.names if progress.is_done(name))
        self._topics = {name: topic for name, topic in topics.items() if name not in self._done}
        self.wanted = [name for name in targets.names if name not in self._done]  # topics that lack this version

    def write(self, rows: DataFrame, secured: Future[None]) -> list[Written]:
        """Writes the rows and returns the records of each task; [] if all topics have the rows already.

        Makes up to three attempts, because a killed worker or a lost executor need not end the query. Commits nothing
        before ``secured``, the sync of the checkpoint, is done.
        """
        if not self.wanted:
            secured.result()
            return []
        attempt = 1
        while True:
            try:
                return self._try(rows, secured)
            except LongRowError as error:  # costs no attempt, and happens only once
                logger.info("batch %d: %s; writing it and later ones by mapInArrow", self._progress.version, error)
                self._writer.has_long_rows = True
            except _failures() as error:
                if attempt == ATTEMPTS or any(each in str(error) for each in _STOPPED):
                    raise
                logger.warning("batch %d, attempt %d: %s", self._progress.version, attempt, error)
                attempt += 1

    def _try(self, rows: DataFrame, secured: Future[None]) -> list[Written]:
        """Begins a write, runs it with one Spark job, and commits it with the progress, or aborts it.

        Returns the records that each task wrote.
        """
        publication, progress = self._writer.publication, self._progress
        began_s = time.monotonic()
        ticket = publication.begin(self._topics, progress)
        with AbortOnError(self._writer, ticket) as guard:
            answers = self._run_tasks(ticket, rows)
            written = written_by_tasks(answers)
            what = f"batch {progress.version} of {progress.run.app_id}"
            warn_if_old(self._targets.directory, self._topics, what, written)
            commit = publication.decision(Write(ticket, self._topics, self.wanted, progress), answers, written)
            secured.result()
            guard.is_armed = False  # commit aborts by itself, or must not be followed by an abort
            committing_s = time.monotonic()
            written = commit()
        ended_s = time.monotonic()
        self._writer.newest = SinkBatch(
            self._targets.directory, self._progress.run.app_id, written, ended_s - began_s, ended_s - committing_s
        )
        return written

    def _run_tasks(self, begun: Ticket, rows: DataFrame) -> list[Answer]:
        """Runs the tasks and returns their answers."""
        running = self._writer.publication.running(begun, are_here=_tasks_run_here(rows.sparkSession))
        with running as ticket, self._described(rows.sparkSession):
            plan = WritePlan.of(self._targets, self._topics, self._done, ticket, self._progress.version)
            return _run(TaskWriter(plan), rows, may_be_long=self._writer.has_long_rows)

    def _described(self, session: SparkSession) -> AbstractContextManager[None]:
        """Returns a context in which Spark's UI describes jobs by batch, writer and topics."""
        text = f"batch {self._progress.version} of {self._progress.run.app_id} into {', '.join(self.wanted)}"
        if is_remote():
            return nullcontext()
        from . import classic_session  # noqa: PLC0415  py4j, which a client of Spark Connect lacks

        return classic_session.described(session, text)


def _planned(session: SparkSession, run: Run, version: int) -> tuple[Checkpoint, Plan]:
    """Returns the query's checkpoint and the plan of its micro-batch, as far as they are known."""
    checkpoint, batch = checkpoint_of(session, run, version)
    return checkpoint, checkpoint.plan(batch)


def checkpoint_of(session: SparkSession, run: Run, version: int) -> tuple[Checkpoint, int]:
    """Returns the query's checkpoint, and the batch id that Spark has for the micro-batch.

    Spark's own batch id is a property of the thread: ``version`` may differ from it, because a foreachBatch function
    may number its writes as it likes.
    """
    if run.is_remote or not run.query_id:
        return Checkpoint(), version
    from . import classic_session  # noqa: PLC0415  as above

    checkpoint = classic_session.watch(session, run.query_id, run.run_id)
    return checkpoint, int(session.sparkContext.getLocalProperty(BATCH_ID) or version)


def _remembered(target: Target, checkpoint: Checkpoint) -> list[Remembered]:
    """Returns the notes about the target's topics that are in the checkpoint and in this process."""
    here = remembered_here(target.directory, target.app_id)
    return [*checkpoint.remembered(target), *(each for each in here if each.topic in target.topics)]


def _tasks_run_here(session: SparkSession) -> bool:
    """Whether tasks run on this machine, so that syncing a file here syncs their writes."""
    return not is_remote() and str(session.sparkContext.master).split("[")[0] == "local"


def _run(task: TaskWriter, rows: DataFrame, *, may_be_long: bool) -> list[Answer]:
    """Writes all rows with one Spark job and returns the answers of its tasks.

    Raises LongRowError for a row that is too long for Arrow messages, unless rows ``may_be_long``.
    """
    if not is_remote() and not may_be_long:
        from . import arrow_messages  # noqa: PLC0415  as above

        limits = arrow_messages.limits_for(rows.sparkSession, rows.schema)
        if limits is not None:
            return arrow_messages.collect_over_messages(rows, task.answers, limits)
    return [Answer(*row) for row in rows.mapInArrow(task, ANSWER).collect()]


def _failures() -> tuple[type[Exception], ...]:
    """Returns the errors after which another attempt may succeed."""
    if is_remote():
        return (TransactionAbortedError, PySparkException)
    from .classic_session import JobFailedError  # noqa: PLC0415  as above

    return (TransactionAbortedError, PySparkException, JobFailedError)


class AbortOnError:
    """Aborts a write if the block ends with any exception while ``is_armed`` is set."""

    def __init__(self, writer: KeptWriter, ticket: Ticket) -> None:
        self._writer = writer
        self._ticket = ticket
        self.is_armed = True

    def __enter__(self) -> AbortOnError:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and self.is_armed:
            self._writer.publication.abort(self._ticket)
