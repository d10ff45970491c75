"""Which query a foreachBatch function of Spark Connect belongs to, by what the session says of its queries."""

from __future__ import annotations

import pickle
import sys
from importlib.machinery import ModuleSpec
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from pyspark_commitlog.pipeline.delta.tables import table_sink
from pyspark_commitlog.pipeline.write.exactly_once import connect_queries
from pyspark_commitlog.pipeline.write.exactly_once.connect_queries import Caller
from pyspark_commitlog.pipeline.write.exactly_once.progress import Run
from pyspark_commitlog.pipeline.write.foreach_batch import commitlog_sink


def session(*names: str, idle: str = "") -> Any:
    """A session in which queries with these ids are active; those in ``idle`` wait for data."""
    queries = [
        SimpleNamespace(id=name, runId=f"run of {name}", status={"isTriggerActive": name not in idle}) for name in names
    ]
    return SimpleNamespace(streams=SimpleNamespace(active=queries))


class Failing:
    """A session of a server that does not list queries."""

    @property
    def streams(self) -> Any:
        raise PySparkException("not implemented")


def test_only_query_of_a_session_is_the_caller() -> None:
    assert Caller().candidates(session("a")) == {"a"}


def test_query_that_was_active_before_the_function_arrived_is_not_the_caller() -> None:
    caller = Caller()
    caller.exclude_active(session("a"))
    assert caller.candidates(session("a", "b")) == {"b"}


def test_query_that_is_started_again_over_its_running_run_is_the_caller() -> None:
    caller, again = Caller(), session("a")
    caller.exclude_active(session("a"))
    again.streams.active[0].runId = "next run"
    assert caller.candidates(again) == {"a"}


def test_query_that_waits_for_data_is_not_the_caller() -> None:
    assert Caller().candidates(session("a", "b", idle="a")) == {"b"}


def test_queries_that_were_started_at_once_are_told_apart_by_a_later_call() -> None:
    caller = Caller()
    assert caller.candidates(session("a", "b", "c")) == {"a", "b", "c"}
    assert caller.candidates(session("a", "b", "d")) == {"a", "b"}
    assert caller.candidates(session("a", "b", idle="a")) == {"b"}
    assert caller.candidates(session("a", "b")) == {"b"}


def test_server_that_lists_no_queries_leaves_the_caller_unknown() -> None:
    caller = Caller()
    caller.exclude_active(Failing())  # type: ignore[arg-type]
    assert caller.candidates(Failing()) == set()  # type: ignore[arg-type]
    assert caller.candidates(session("a")) == {"a"}


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Caller:
    """Makes this process look like one for a foreachBatch function, which has called nothing yet."""
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec(connect_queries.WORKER, None))
    monkeypatch.setattr(connect_queries, "caller", Caller())
    return connect_queries.caller


SINKS = {
    "log": commitlog_sink(topic="t", log_dir="/log", txnAppId="app"),
    "table": table_sink(path="/table", txnAppId="app"),
}


@pytest.mark.parametrize("sink", SINKS)
def test_function_that_arrives_in_its_process_notes_which_queries_run_already(
    sink: str, worker: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: session("a"))
    arrived = pickle.loads(pickle.dumps(SINKS[sink]))
    assert vars(arrived).keys() == vars(SINKS[sink]).keys()
    assert Run.of(session("a", "b"), "app") == Run("app", "b", worker.run_id, frozenset("b"), is_remote=True)


def test_run_of_one_of_several_queries_has_no_query_id(worker: Caller) -> None:
    run = Run.of(session("a", "b"), "app")
    assert (run.query_id, run.queries, run.is_of_query) == ("", {"a", "b"}, True)
