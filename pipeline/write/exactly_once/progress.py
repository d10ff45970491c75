"""The progress of writers: which versions (micro-batches) of a writer each topic has.

A writer's progress in a topic is a committed consumer offset: group = ``txnAppId``, topic ``__sink.<topic>`` (no such
topic exists, so no lag is computed for it), partition 0, offset = version + 1, metadata = JSON with query id, run id,
number of records, the digest of the micro-batch's plan if it is known, and the ends of the records (``log_ends``). The
ends in a topic of many partitions are in several such offsets, for partitions 0, 1, and so on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import index
from typing import Any, NamedTuple, SupportsIndex

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from ....storage import (
    SINK_PREFIX,
    CommittedOffset,
    InvalidConfigError,
    ProgressMismatchError,
    TopicDescription,
    TopicPartition,
    TransactionAbortedError,
    TransactionPart,
    check_transactional_id,
)
from ..answers import Answer, UnwritableRowError, Written
from ..partitioners.chooser import PartitionerError
from . import connect_queries
from .checkpoint import NO_PLAN, NOTES, Note, Plan, Remembered
from .log_ends import Ends, after, check_written, in_parts, merged

NO_ENDS: Mapping[str, Ends] = {}
VERSION_MAX = 2**63 - 2  # the committed offset is version + 1, an int64
_OF_GATEWAYS = ("__transaction.", "__gateway.")  # names of writers of a log on an object store
_RECORDS, _PLAN = "records", "plan"  # metadata fields: of every writer; of one that knows its plan


class Run(NamedTuple):
    """A run of a writer: the writer's name, the query's id, and the run's id; ids are empty outside a query.

    With Spark Connect, the query's id is empty too if it is one of several ``candidates``, or not known at all.
    """

    app_id: str
    query_id: str
    run_id: str
    candidates: frozenset[str] = frozenset()  # with Spark Connect
    is_remote: bool = False  # whether a query runs with Spark Connect

    @classmethod
    def of(cls, session: SparkSession, app_id: str | None) -> Run:
        """Returns the current run. Its writer is named ``app_id``, or after the query's id if ``app_id`` is None.

        Raises InvalidConfigError if ``app_id`` is None outside a classic streaming query.
        """
        query_id = run_id = ""
        if app_id is not None and connect_queries.is_here():
            return cls._remote(session, app_id)
        if not is_remote():
            # StreamExecution sets both on the thread that calls foreachBatch.
            query_id = session.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
            run_id = session.sparkContext.getLocalProperty("spark.jobGroup.id") or "" if query_id else ""
        if app_id is None and not query_id:
            raise InvalidConfigError(
                "txnAppId must be given: outside a streaming query there is no query id to take its place"
            )
        return cls(app_id or query_id, query_id, run_id)

    @classmethod
    def _remote(cls, session: SparkSession, app_id: str) -> Run:
        candidates = connect_queries.caller.candidates(session)
        query_id = next(iter(candidates)) if len(candidates) == 1 else ""
        return cls(app_id, query_id, connect_queries.caller.run_id, candidates, is_remote=True)

    @property
    def is_of_query(self) -> bool:
        """Whether a streaming query writes."""
        return bool(self.run_id)

    @property
    def queries(self) -> frozenset[str]:
        """The queries that may be the writer; empty if not known."""
        return self.candidates or frozenset(filter(None, [self.query_id]))


class Progress:
    """The progress of a writer in its topics, compared with the version that it is about to write."""

    def __init__(
        self, run: Run, version: int, offsets: Mapping[TopicPartition, CommittedOffset], plan: Plan = NO_PLAN
    ) -> None:
        """``offsets`` are the committed offsets of the writer's group, ``plan`` is the micro-batch's plan, if known."""
        self.run = run
        self.version = version
        self._offsets = offsets
        self._plan = plan

    def reached(self, topic: str) -> int:
        """Returns the first version that the topic lacks; 0 if it has none."""
        found = self._offsets.get(progress_key(topic))
        return 0 if found is None else found.offset

    def is_done(self, topic: str) -> bool:
        """Whether the topic has this version.

        Raises InvalidConfigError if another query wrote under this name, or if this run has written the batch already,
        and ProgressMismatchError if the batch in the topic had another plan, if the plan is not known, or if it may be
        that of another query.
        """
        found = self._offsets.get(progress_key(topic))
        if found is None:
            return False
        wrote = _written_as(found)
        self._check_same_query(wrote, found.offset, topic)
        is_done = found.offset > self.version
        if is_done:
            self._check_believed(wrote, found.offset, topic)
            self._check_same_plan(wrote, found.offset, topic)
            self._check_known_query(wrote, topic)
        return is_done

    def check_remembered(self, remembered: Iterable[Remembered], directory: str) -> None:
        """Raises ProgressMismatchError if a topic has fewer batches than the notes ``remembered`` say."""
        for each in remembered:
            has, note = self.reached(each.topic), each.note
            if has < note.required(self.version):
                raise set_back(each, self.run.app_id, directory, has)

    def notes(self, topics: Mapping[str, str | None]) -> dict[str, Note]:
        """Returns the notes, by topic, to write before this version is committed; ``topics`` are ids by name."""
        return {topic: Note(self.version, self.reached(topic), topic_id) for topic, topic_id in topics.items()}

    def ends(self, topics: Mapping[str, TopicDescription]) -> dict[str, Ends]:
        """Returns the ends of the writer's records, for those of ``topics`` to which it has written."""
        written = [_written_as(each) for (topic, _), each in self._offsets.items() if topic.startswith(SINK_PREFIX)]
        return merged(written, topics)

    def counted(self, topics: Mapping[str, TopicDescription]) -> dict[TopicPartition, int]:
        """Returns the committed end of the writer's records by partition, for ``topics`` to which it has written.

        Records of the writer beyond such an end are not part of its progress.
        """
        return {
            TopicPartition(name, number): ends.offsets[number] if number < len(ends.offsets) else 0
            for name, ends in self.ends(topics).items()
            for number in topics[name].partitions
        }

    def to_commit(
        self, wanted: Iterable[str], written: Sequence[Written], topics: Mapping[str, TopicDescription]
    ) -> tuple[list[TransactionPart], dict[str, dict[TopicPartition, CommittedOffset]]]:
        """Returns the content of the commit: the parts that tasks wrote, and the group's offsets with the new progress.

        ``wanted`` are the topics that make progress: all ``topics`` except the one for bad records. Raises
        ProgressMismatchError if an older copy replaced a partition while tasks wrote.
        """
        ends = self.ends(topics)
        check_written(ends, written)
        records = dict.fromkeys(wanted, 0)
        for each in written:
            if each.topic in records:
                records[each.topic] += each.records
        parts = [TransactionPart(each.topic, each.partition, each.records) for each in written]
        return parts, self.offsets(records, after(ends, written, topics))

    def offsets(
        self, records: Mapping[str, int], ends: Mapping[str, Ends] = NO_ENDS
    ) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        """Returns the offsets to commit in the transaction, by group.

        ``records`` are the numbers of records by topic, ``ends`` the ends after the commit.
        """
        return {
            self.run.app_id: {
                progress_key(topic)._replace(partition=number): CommittedOffset(self.version + 1, metadata)
                for topic in records
                for number, metadata in enumerate(self._metadata(topic, records, ends))
            }
        }

    def _metadata(self, topic: str, records: Mapping[str, int], ends: Mapping[str, Ends]) -> Iterator[str]:
        """Yields the JSON of a topic's committed offsets: one, or several if there are many partitions.

        The ends of the topic for bad records, which has no progress, are in it too.
        """
        metadata: dict[str, Any] = {"queryId": self.run.query_id, "runId": self.run.run_id, _RECORDS: records[topic]}
        if self.run.queries and not self.run.query_id:
            metadata["queryIds"] = sorted(self.run.queries)
        if self._plan.digest:
            metadata[_PLAN] = self._plan.digest
        for part in in_parts({name: each for name, each in ends.items() if name == topic or name not in records}):
            yield json.dumps(metadata | ({"ends": part} if part else {}), separators=(",", ":"))

    def _check_believed(self, wrote: Mapping[str, Any], offset: int, topic: str) -> None:
        """Raises ProgressMismatchError if nothing shows that a writer committed the offset for this batch's plan."""
        group = self.run.app_id
        if _RECORDS not in wrote:
            missing = "its metadata is not that of a writer, but of a client, or of a command that set it"
        elif self._plan.digest and _PLAN not in wrote:
            missing = "it has no digest of the plan: Spark Connect or an older version of this package committed it"
        else:
            return
        raise ProgressMismatchError(
            f"topic {topic} {_batches(offset)} of txnAppId {group!r} by the offset of that group, but {missing}. "
            f"Skipping batch {self.version} might lose its rows, so it is not skipped: compare the topic's last "
            f"records with the input of the batch. {_way_out(group, topic)}"
        )

    def _check_same_query(self, wrote: Mapping[str, Any], offset: int, topic: str) -> None:
        run, others = self.run, _queries(wrote)
        if others and run.queries and others.isdisjoint(run.queries):
            raise InvalidConfigError(
                f"txnAppId {run.app_id!r} wrote {offset} batches to topic {topic} as query {_either(others)}, but this "
                f"is query {_either(run.queries)}: a new checkpoint with an old txnAppId would skip or repeat these "
                f"batches. Use another txnAppId; to start over on purpose, delete the offsets of group {run.app_id!r}"
            )
        if run.run_id and wrote.get("runId") == run.run_id and offset == self.version + 1:
            raise written_twice(self.version, topic, run.app_id)

    def _check_known_query(self, wrote: Mapping[str, Any], topic: str) -> None:
        """Raises ProgressMismatchError with Spark Connect unless it is certain that this query wrote the batch."""
        run, wrote_it = self.run, _queries(wrote)
        if not run.is_remote or (run.query_id and wrote_it == {run.query_id}):
            return
        raise ProgressMismatchError(
            f"topic {topic} has batch {self.version} of txnAppId {run.app_id!r} already, written by query "
            f"{_either(wrote_it) or 'unknown'}, and this is query {_either(run.queries) or 'unknown'}: with Spark "
            "Connect it cannot be told whether they are the same, and skipping the batch would lose rows if they are "
            "not. If this query has a new checkpoint, use another txnAppId. If it was only started again, compare the "
            f"topic's last records with the input of the batch. {_way_out(run.app_id, topic)}"
        )

    def _check_same_plan(self, wrote: Mapping[str, Any], offset: int, topic: str) -> None:
        """Raises ProgressMismatchError if the batch was written with another plan, since it then has other rows."""
        group, written_as = self.run.app_id, wrote.get(_PLAN, "")
        if written_as and self._plan.digest and written_as != self._plan.digest:
            raise ProgressMismatchError(
                f"topic {topic} {_batches(offset)} of txnAppId {group!r}, the last one planned with digest "
                f"{written_as}, but batch {self.version} has another plan in {self._plan.path}, digest "
                f"{self._plan.digest}: the checkpoint lost its newest entries, or is an older copy. Skipping the batch "
                "would lose rows. Restore the checkpoint that fits the log, or a log as old as the checkpoint. "
                f"{_way_out(group, topic)}"
            )


def _written_as(committed: CommittedOffset) -> dict[str, Any]:
    """Returns the notes in a writer's progress; empty if the metadata is not a writer's."""
    try:
        found = json.loads(committed.metadata or "{}")
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}


def _way_out(group: str, topic: str) -> str:
    """Returns how a user can force a batch to be written despite the committed offset."""
    return (
        "To write the batch as it is planned now, although the log may have some of its rows, delete the checkpoint's "
        f"folder {NOTES} and the offsets of group {group!r} (commitlog groups --delete-offsets --group {group} "
        f"--topic {progress_key(topic).topic})"
    )


def check_app_id(app_id: str) -> None:
    """Raises InvalidConfigError for a ``txnAppId`` that cannot be a transactional id, or that a gateway uses.

    On an object store, a gateway writes under such names for its clients, and a writer would fence it.
    """
    check_transactional_id(app_id, "txnAppId")
    if app_id.startswith(_OF_GATEWAYS):
        raise InvalidConfigError(
            f"txnAppId is {app_id!r}; names that begin with {' or '.join(map(repr, _OF_GATEWAYS))} are reserved: a "
            "gateway over an object store writes under them. Choose another name"
        )


def check_version(version: object, name: str) -> None:
    """Raises InvalidConfigError for a version that does not fit a committed offset; ``name`` is for the message."""
    if not isinstance(version, SupportsIndex) or not 0 <= index(version) <= VERSION_MAX:
        raise InvalidConfigError(f"{name} is {version!r}; it must be a whole number from 0 to {VERSION_MAX}")


def set_back(remembered: Remembered, app_id: str, directory: str, has: int) -> ProgressMismatchError:
    """Returns the error for a log that has only versions below ``has``, although a note says that it had more."""
    topic, note, source, way_out = remembered
    return ProgressMismatchError(
        f"{source} that batch {note.batch} of txnAppId {app_id!r} was written to topic {topic} of {directory}, which "
        f"{_batches(has)}: the log is an older copy, or the offsets of group {app_id!r} are lost. Continuing would "
        "lose rows, or write them twice. Restore the log that fits the checkpoint, or a checkpoint as old as the log; "
        f"to continue anyway, {way_out}"
    )


def written_twice(version: int, topic: str, app_id: str) -> InvalidConfigError:
    """Returns the error for a second write of a version in one run; a later run would skip its rows."""
    return InvalidConfigError(
        f"batch {version} was already written to topic {topic} in this run: a foreachBatch function that writes to a "
        f"topic twice needs a txnAppId for each write. Keep {app_id!r} for the first write, which is done for this "
        "batch, and use another one for the second. Writing all rows at once instead works from the next batch on, "
        "but loses those of the second write in this one"
    )


def _queries(wrote: Mapping[str, Any]) -> frozenset[str]:
    """Returns the queries that may have written a batch, by the metadata of its progress; empty if not known."""
    return frozenset(filter(None, [wrote.get("queryId"), *wrote.get("queryIds", ())]))


def _either(queries: Iterable[str]) -> str:
    return " or ".join(sorted(queries))


def _batches(reached: int) -> str:
    return f"has batches up to {reached - 1}" if reached else "has no batch of it"


def written_by_tasks(answers: Sequence[Answer]) -> list[Written]:
    """Returns the records of each task in each partition, if all of them may be committed.

    Raises UnwritableRowError for a row that no topic accepts, PartitionerError if a user's partitioner failed, and
    TransactionAbortedError if a task refused to write.
    """
    for each in answers:
        if each.misplaced is not None:
            raise PartitionerError(each.misplaced)
        if each.unwritable is not None:
            raise UnwritableRowError(each.unwritable)
    for each in answers:
        if each.refused is not None:
            raise TransactionAbortedError(f"aborted: {each.refused}")
    return [Written(*each[: len(Written._fields)]) for each in answers if each.topic is not None]  # type: ignore[arg-type]


def progress_key(topic: str) -> TopicPartition:
    """Returns the topic and partition under which a writer's progress in ``topic`` is committed."""
    return TopicPartition(SINK_PREFIX + topic, 0)
