"""Finds the query that calls a foreachBatch function under Spark Connect, where the function cannot ask for it.

Spark runs the function in a process of its own, one for each run of a query. A client in that process sees the queries
that are active in the session; the caller is one of them. Others are excluded in three ways: those that were active
when this process received the function, since Spark sends it before it starts the query; those that are not in a
micro-batch during a call; and those that were excluded during an earlier call. Several candidates may remain, if
clients start queries in one session at the same moment.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

WORKER = "pyspark.sql.connect.streaming.worker.foreach_batch_worker"  # Spark's program for these processes

Runs = dict[str, str]  # the ids of queries, by run


class Caller:
    """The query whose foreachBatch function runs in this process."""

    def __init__(self) -> None:
        self.run_id = str(uuid4())  # our own id, because Spark's is as unknown as the query
        self._others: Runs = {}
        self._candidates: Runs | None = None  # None: nothing is known

    def exclude_active(self, session: SparkSession | None) -> None:
        """Excludes the runs that are active. Call it before the query of this process starts."""
        if self._candidates is None and session is not None:
            self._others = _active(session) or {}

    def candidates(self, session: SparkSession) -> frozenset[str]:
        """Returns the ids of the queries that may be the caller; empty if the server does not report them.

        Use it in a call.
        """
        if self._candidates is None or len(self._candidates) > 1:
            found = _active(session, in_batch=True)
            if found is not None:
                known = found if self._candidates is None else self._candidates
                self._candidates = {run: found[run] for run in found.keys() & known.keys() - self._others.keys()}
        return frozenset((self._candidates or {}).values())


caller = Caller()


class KnowsItsQuery:
    """A foreachBatch function, as an object that Spark pickles."""

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Runs in the query's process, before the query starts."""
        self.__dict__.update(state)
        if is_here():
            caller.exclude_active(SparkSession.getActiveSession())


def is_here() -> bool:
    """Whether this is a process of Spark Connect for a foreachBatch function."""
    return getattr(getattr(sys.modules["__main__"], "__spec__", None), "name", "") == WORKER


def _active(session: SparkSession, *, in_batch: bool = False) -> Runs | None:
    """Returns the session's active queries, or those in a micro-batch; None if the server does not report them."""
    try:
        active = session.streams.active
        if len(active) > 1 and in_batch:
            active = [each for each in active if each.status["isTriggerActive"]]
        return {str(each.runId): str(each.id) for each in active}
    except PySparkException:
        return None
