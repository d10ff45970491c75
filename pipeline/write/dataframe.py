"""``df.write.format("commitlog").mode("append")``: writes a DataFrame to topics, all of it or nothing.

Spark plans a write and commits it in different processes, so no lock can cover both: the plan begins the write, and the
commit succeeds only if nobody has ended it since. A second write under the same ``txnAppId`` that begins in between
ends it, as a second producer with the same ``transactional.id`` does in Kafka; in a log directory, the retention job
does the same after ``transaction.timeout.ms``. The first write then fails, and none of its rows ever become visible.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ...storage import (
    InvalidConfigError,
)
from ..read.options import INT_MAX, Given
from ..rows.catalog_tables import SAVE, missing_path
from ..rows.kafka_options import KAFKAS, check_names
from ..rows.spark_schema import WriteColumns
from ..workers.border import errors_end_here
from ..workers.quiet_end import end_quietly
from .answers import Answer
from .exactly_once.progress import VERSION_MAX, Progress, Run, check_app_id, written_by_tasks
from .old_records import warn_if_old
from .publication.opening import end_at
from .publication.port import Publication, Write
from .targets import PRODUCER_SETTINGS, Targets, is_producers
from .task import TaskWriter, WritePlan, drain

_OURS = ("path", "topic", "topics", "partitions", "configs", "badRecords", "txnAppId", "txnVersion")
_OF_SPARKS_SINK = "includeHeaders"  # ignored: like Spark's sink, we write the column headers whenever there is one


@dataclass(frozen=True)
class WriteOptions:
    """The parsed options of a write.

    These are ``path``, ``topic`` or ``topics``, ``partitions`` and ``configs`` (JSON) of a new topic, ``badRecords``,
    ``txnAppId`` with ``txnVersion``, and the producer's settings by Kafka's names, with or without the prefix
    ``kafka.`` (:class:`ProducerSettings`).
    """

    targets: Targets
    app_id: str | None  # None: the write gets a name of its own, so it is never skipped
    version: int

    @classmethod
    def parse(cls, options: Mapping[str, str], *passed: str, is_query: bool = False) -> Self:
        """Parses options, ignoring the case of names. ``passed``: names of other options that are allowed.

        ``is_query``: the options are of a streaming query, whose batch id is the version.

        Raises InvalidConfigError for an unknown option, which it names with the most similar known one, and for an
        invalid value.
        """
        given = {name.lower(): value for name, value in options.items()}
        check_names(
            options, (*_OURS, *PRODUCER_SETTINGS), "a write", _OF_SPARKS_SINK, *passed, *filter(is_producers, given)
        )
        if "path" not in given:
            raise missing_path("save", options, SAVE)
        targets = Targets.parse(
            given["path"],
            topic=given.get("topic"),
            topics=given.get("topics"),
            partitions=Given(given).whole("partitions", INT_MAX),
            configs=_json_object(given, "configs"),
            producer={name: given[name] for name in given if is_producers(name) or name.startswith(KAFKAS)},
            bad_records=given.get("badrecords"),
        )
        app_id, version = given.get("txnappid"), Given(given).whole("txnVersion", VERSION_MAX, least=0)
        if is_query and version is not None:
            raise InvalidConfigError("option txnVersion is for a batch write: the version of a query is its batch id")
        if not is_query and (app_id is None) != (version is None):
            raise InvalidConfigError(
                "options txnAppId (the writer's name) and txnVersion (the number of its write) must be given together"
            )
        if app_id is not None:
            check_app_id(app_id)
        return cls(targets, app_id, version or 0)


@errors_end_here
class BatchWrite(DataSourceArrowWriter):
    """One write of a DataFrame: begins when Spark plans it.

    Spark pickles it and sends it to the tasks, which call :meth:`write`, and to the process that calls :meth:`commit`
    or :meth:`abort`.
    """

    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        """Begins the write. Raises the errors of ``commitlog_sink``'s function, before anything is written."""
        targets = options.targets
        WriteColumns.of(schema, str(targets), by_topic=targets.by_column)
        self._version = options.version
        self._is_named = options.app_id is not None
        self._app_id = options.app_id or f"batch-{uuid.uuid4()}"
        self._directory = targets.directory
        self._plan = self._begin(targets)

    def _begin(self, targets: Targets) -> WritePlan | None:
        """Begins the write. Returns the plan for the tasks, or None if this version was written before."""
        end, timeout_ms = end_at(self._directory), targets.producer.transaction_timeout_ms
        topics = end.prepared(targets, lambda: None)
        with closing(end.taken(self._directory, self._app_id, timeout_ms, is_named=self._is_named)) as publication:
            progress = self._progress(publication)
            publication.check(progress, topics)
            done = frozenset(name for name in targets.names if progress.is_done(name))
            if done == set(targets.names):
                return None
            wanted = {name: topic for name, topic in topics.items() if name not in done}
            return WritePlan.of(targets, wanted, done, publication.begin(wanted, progress), self._version)

    def _progress(self, publication: Publication) -> Progress:
        return Progress(Run(self._app_id, "", ""), self._version, publication.committed())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self._plan is None:
            drain(iterator)
            return Report([])
        return Report(TaskWriter(self._plan).answers(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Makes the rows visible.

        Raises TransactionAbortedError if a task appended twice, and TransactionRefusedError if another write or the
        retention job ended this one.
        """
        end_quietly()
        if self._plan is None:
            return
        plan = self._plan
        answers = [answer for message in messages if isinstance(message, Report) for answer in message.answers]
        written = written_by_tasks(answers)
        warn_if_old(self._directory, plan.topics, f"write {self._app_id}", written)
        with closing(plan.ticket.resumed(self._directory, is_named=self._is_named)) as publication:
            write = Write(plan.ticket, plan.topics, sorted(plan.wanted), self._progress(publication))
            publication.decision(write, answers, written)()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Ends the write unless it is decided already: Spark also calls this after a failed commit."""
        if self._plan is not None:
            self._plan.ticket.abort(self._directory)


@dataclass
class Report(WriterCommitMessage):
    """The message from a task to :meth:`BatchWrite.commit`."""

    answers: Sequence[Answer]


def refuse_overwrite() -> InvalidConfigError:
    """Returns the error for ``mode("overwrite")`` and ``outputMode("complete")``."""
    return InvalidConfigError(
        'a log is only appended to, so mode("overwrite"), and outputMode("complete") of a query, are refused: write '
        'with mode("append"), and with outputMode("append") or outputMode("update"); old records are '
        "deleted by retention.ms and retention.bytes, and all of them with the topic"
    )


def _json_object(given: Mapping[str, str], option: str) -> dict[str, object]:
    text = given.get(option, "{}")
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidConfigError(f'option {option} is {text!r}; it must be a JSON object: {{"retention.ms": "-1"}}')
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in found.items()}
