"""Who writes, how far it got, and what counts of what its tasks say.

How far a writer got with a topic is a committed consumer offset: group = ``txnAppId``, topic ``__sink.<topic>`` (there
is no such topic, so no lag is computed from it), partition 0, offset = version + 1, metadata = JSON of query id, run
id, records, the digest of the micro-batch's plan where it is known, and where the records end (``ends``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from operator import index
from typing import NamedTuple, SupportsIndex

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from pyspark_commitlog.pipeline.checkpoint import NO_PLAN, NOTES, Note, Plan, Remembered
from pyspark_commitlog.pipeline.ends import Ends, merged
from pyspark_commitlog.pipeline.writer import Answer, UnwritableRowError, Written
from pyspark_commitlog.storage import (
    CommittedOffset,
    InvalidConfigError,
    ProgressMismatchError,
    TopicDescription,
    TransactionAbortedError,
    check_transactional_id,
)

PREFIX = "__sink."
NO_ENDS: Mapping[str, Ends] = {}
VERSION_MAX = 2**63 - 2  # what is committed is the next one, as an int64


class Run(NamedTuple):
    """Who writes: a query and its present run, as Spark tells; both empty outside a classic streaming query."""

    app_id: str
    query_id: str
    run_id: str

    @classmethod
    def of(cls, session: SparkSession, app_id: str | None) -> Run:
        """Raises InvalidConfigError where there is no name to write under."""
        query_id = run_id = ""
        if not is_remote():
            # StreamExecution sets both on the thread that calls foreachBatch.
            query_id = session.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
            run_id = session.sparkContext.getLocalProperty("spark.jobGroup.id") or "" if query_id else ""
        if app_id is None and not query_id:
            raise InvalidConfigError("txnAppId must be given: outside a streaming query there is no query id to take")
        return cls(app_id or query_id, query_id, run_id)

    @property
    def is_of_query(self) -> bool:
        """Under Spark Connect the ids are not known, but a process that runs a foreachBatch function is of one run."""
        return bool(self.run_id) or is_remote()


class Progress:
    """How far a writer got with each topic, as its committed offsets tell."""

    def __init__(
        self, run: Run, version: int, offsets: Mapping[tuple[str, int], CommittedOffset], plan: Plan = NO_PLAN
    ) -> None:
        """``offsets``: what the group committed; ``plan``: of the micro-batch, as its checkpoint has it."""
        self.run = run
        self.version = version
        self._offsets = offsets
        self._plan = plan

    def reached(self, topic: str) -> int:
        """The first version that the topic lacks; 0 where it has none."""
        found = self._offsets.get(progress_key(topic))
        return 0 if found is None else found.offset

    def is_done(self, topic: str) -> bool:
        """Raises InvalidConfigError where another query wrote under this name, or this run wrote the batch already;
        ProgressMismatchError where what was written is another plan of the micro-batch.
        """
        found = self._offsets.get(progress_key(topic))
        if found is None:
            return False
        wrote = json.loads(found.metadata or "{}")
        self._check_same_query(wrote, found.offset, topic)
        is_done = found.offset > self.version
        if is_done:
            self._check_same_plan(wrote, found.offset, topic)
        return is_done

    def check_remembered(self, remembered: Iterable[Remembered], directory: str) -> None:
        """Raises ProgressMismatchError where the topics have less than somebody remembers."""
        for each in remembered:
            has, note = self.reached(each.topic), each.note
            if has < note.required(self.version):
                raise set_back(each, self.run.app_id, directory, has)

    def notes(self, topics: Mapping[str, str | None]) -> dict[str, Note]:
        """What a checkpoint must remember before the version is committed; ``topics``: ids by name."""
        return {topic: Note(self.version, self.reached(topic), topic_id) for topic, topic_id in topics.items()}

    def ends(self, topics: Mapping[str, TopicDescription]) -> dict[str, Ends]:
        """Where what was written ends, in those of ``topics`` that hold some."""
        written = [each.metadata for (topic, _), each in self._offsets.items() if topic.startswith(PREFIX)]
        return merged([json.loads(metadata or "{}") for metadata in written], topics)

    def offsets(
        self, records: Mapping[str, int], ends: Mapping[str, Ends] = NO_ENDS
    ) -> dict[str, dict[tuple[str, int], CommittedOffset]]:
        """What is committed with the transaction; ``records`` by topic, ``ends`` as they will be then."""
        return {
            self.run.app_id: {
                progress_key(topic): CommittedOffset(self.version + 1, self._metadata(topic, records, ends))
                for topic in records
            }
        }

    def _metadata(self, topic: str, records: Mapping[str, int], ends: Mapping[str, Ends]) -> str:
        """The ends of a topic without a progress of its own, that of bad records, come with each that has one."""
        metadata = {"queryId": self.run.query_id, "runId": self.run.run_id, "records": records[topic]}
        if self._plan.digest:
            metadata["plan"] = self._plan.digest
        if ends:
            its = {name: each.as_json() for name, each in ends.items() if name == topic or name not in records}
            metadata["ends"] = its
        return json.dumps(metadata, separators=(",", ":"))

    def _check_same_query(self, wrote: dict[str, str], offset: int, topic: str) -> None:
        run, other = self.run, wrote.get("queryId", "")
        if other and run.query_id and other != run.query_id:
            raise InvalidConfigError(
                f"txnAppId {run.app_id!r} wrote {offset} batches to topic {topic} as query {other}, and this is query "
                f"{run.query_id}: a new checkpoint with an old txnAppId would skip or repeat them. Take another "
                f"txnAppId, or delete the offsets of group {run.app_id!r} to begin anew on purpose"
            )
        if run.run_id and wrote.get("runId") == run.run_id and offset == self.version + 1:
            raise written_twice(self.version, topic, run.app_id)

    def _check_same_plan(self, wrote: dict[str, str], offset: int, topic: str) -> None:
        """A version that was written before has the rows that its micro-batch had then."""
        group, written_as = self.run.app_id, wrote.get("plan", "")
        if written_as and self._plan.digest and written_as != self._plan.digest:
            raise ProgressMismatchError(
                f"topic {topic} {_batches(offset)} of txnAppId {group!r}, the last one as planned with digest "
                f"{written_as}, and batch {self.version} is planned otherwise in {self._plan.path}, digest "
                f"{self._plan.digest}: the checkpoint lost its newest entries, or is an older copy. To skip the batch "
                "would leave rows out. Put back the checkpoint that fits, or a log as old as the checkpoint; to write "
                "the batch as it is planned now, though rows of it may be there already, delete the checkpoint's "
                f"folder {NOTES} and the offsets of group {group!r} (commitlog groups --delete-offsets --group {group} "
                f"--topic {progress_key(topic)[0]})"
            )


def check_app_id(app_id: str) -> None:
    """Raises InvalidConfigError for a ``txnAppId`` that is no transactional id."""
    check_transactional_id(app_id, "txnAppId")


def check_version(version: object, name: str) -> None:
    """Raises InvalidConfigError, which calls it ``name``, for a version that no committed offset tells."""
    if not isinstance(version, SupportsIndex) or not 0 <= index(version) <= VERSION_MAX:
        raise InvalidConfigError(f"{name} is {version!r}; it must be a whole number from 0 to {VERSION_MAX}")


def set_back(remembered: Remembered, app_id: str, directory: str, has: int) -> ProgressMismatchError:
    """The error for a log that has only the versions below ``has``, where more is remembered."""
    topic, note, source, way_out = remembered
    return ProgressMismatchError(
        f"{source} that batch {note.batch} of txnAppId {app_id!r} went into topic {topic} of {directory}, which "
        f"{_batches(has)}: an older copy of the log is in its place, or the offsets of group {app_id!r} are lost. To "
        "go on would leave rows out, or write them twice. Put back the log that fits, or a checkpoint as old as the "
        f"log; to go on all the same, {way_out}"
    )


def written_twice(version: int, topic: str, app_id: str) -> InvalidConfigError:
    """The error for a second write of a version in one run, which a further run would take for written."""
    return InvalidConfigError(
        f"batch {version} was written to topic {topic} in this very run: a foreachBatch function that writes to a "
        f"topic twice needs a txnAppId for each. Keep {app_id!r} for the first write, which is done for this batch, "
        "and name another for the second. To write all rows at once instead is right from the next batch on, but "
        "leaves out those of the second write in this one"
    )


def _batches(reached: int) -> str:
    return f"has batches up to {reached - 1}" if reached else "has no batch of it"


def judged(answers: Sequence[Answer]) -> list[Written]:
    """What the tasks wrote, where all of it counts.

    Raises UnwritableRowError for a row that no topic takes, TransactionAbortedError where a task refused to write.
    """
    for each in answers:
        if each.unwritable is not None:
            raise UnwritableRowError(each.unwritable)
    for each in answers:
        if each.refused is not None:
            raise TransactionAbortedError(f"aborted: {each.refused}")
    return [Written(*each[: len(Written._fields)]) for each in answers]  # type: ignore[arg-type]


def progress_key(topic: str) -> tuple[str, int]:
    """The topic and partition of the committed offset that says how far a writer got with a topic."""
    return PREFIX + topic, 0
