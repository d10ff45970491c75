"""Who writes, how far it got, and what counts of what its tasks say.

How far a writer got with a topic is a committed consumer offset: group = ``txnAppId``, topic ``__sink.<topic>`` (there
is no such topic, so no lag is computed from it), partition 0, offset = version + 1, metadata = JSON of query id, run id
and records.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from pyspark_commitlog.pipeline.writer import Answer, UnwritableRowError, Written
from pyspark_commitlog.storage import CommittedOffset, InvalidConfigError, TransactionAbortedError


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
        if not app_id and not query_id:
            raise InvalidConfigError("txnAppId must be given: outside a streaming query there is no query id to take")
        return cls(app_id or query_id, query_id, run_id)


class Progress:
    """How far a writer got with each topic, as its committed offsets tell."""

    def __init__(self, run: Run, version: int, offsets: Mapping[tuple[str, int], CommittedOffset]) -> None:
        self.run = run
        self.version = version
        self._offsets = offsets

    def is_done(self, topic: str) -> bool:
        """Raises InvalidConfigError where another query wrote under this name, or this run wrote the batch already."""
        found = self._offsets.get(_offset_of(topic))
        if found is None:
            return False
        self._check_same_query(json.loads(found.metadata or "{}"), found.offset, topic)
        return found.offset > self.version

    def offsets(self, records: Mapping[str, int]) -> dict[str, dict[tuple[str, int], CommittedOffset]]:
        """What is committed with the transaction; ``records`` by topic."""
        return {
            self.run.app_id: {
                _offset_of(topic): CommittedOffset(self.version + 1, self._metadata(count))
                for topic, count in records.items()
            }
        }

    def _metadata(self, records: int) -> str:
        metadata = {"queryId": self.run.query_id, "runId": self.run.run_id, "records": records}
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
            raise InvalidConfigError(
                f"batch {self.version} was written to topic {topic} in this very run: a foreachBatch function that "
                "writes to a topic twice needs a txnAppId for each"
            )


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


def _offset_of(topic: str) -> tuple[str, int]:
    return f"__sink.{topic}", 0
