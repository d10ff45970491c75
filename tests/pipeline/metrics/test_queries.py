"""The listener: Spark's progress of a micro-batch is served as metrics, also after the query's end."""

from __future__ import annotations

import json
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from pyspark.sql import SparkSession, functions as F
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryStartedEvent, QueryTerminatedEvent

from pyspark_commitlog.pipeline.metrics import directory as exposition, queries as listener
from pyspark_commitlog.pipeline.metrics.directory import Gauge
from pyspark_commitlog.pipeline.metrics.queries import CommitLogMetrics
from pyspark_commitlog.pipeline.write import kept_writers
from pyspark_commitlog.pipeline.write.foreach_batch import commitlog_sink
from pyspark_commitlog.storage import LogManager
from tests.support.logs.building import append
from tests.support.logs.directories import directory_with_internal_topics
from tests.support.prometheus import Page
from tests.support.waiting import soon

ID, RUN = "85a2e94a-e469-46db-9053-a31e6c79721d", "97612643-69ea-409b-b53d-1d5a3649e95d"
OTHER_RUN = "11111111-69ea-409b-b53d-1d5a3649e95d"
PYTHON = "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream@741f9e8b"


def source(end: object, latest: object, description: str = PYTHON) -> dict[str, Any]:
    rates = {"numInputRows": 2, "inputRowsPerSecond": 0.0, "processedRowsPerSecond": 0.8}
    return {"description": description, "startOffset": None, "endOffset": end, "latestOffset": latest, **rates}


def progress(*sources: dict[str, Any], **changes: Any) -> QueryProgressEvent:
    """Returns the progress that Spark 4.2 reports for a query that reads topic ``orders``."""
    told = {
        **{"id": ID, "runId": RUN, "name": "copy", "timestamp": "2026-11-21T05:59:17.826Z"},
        **{"batchId": 3, "batchDuration": 2601, "durationMs": {"triggerExecution": 2601}, "stateOperators": []},
        **{"numInputRows": 4, "inputRowsPerSecond": 0.5, "processedRowsPerSecond": 0.8},
        "sources": sources or (source({"orders": {"0": 2, "1": 3}}, {"orders": {"0": 5, "1": 3}}),),
        "sink": {"description": "ForeachBatchSink", "numOutputRows": -1},
    }
    return QueryProgressEvent.fromJson({"progress": {**told, **changes}})


def started(run_id: str = RUN) -> QueryStartedEvent:
    return QueryStartedEvent.fromJson(
        {"id": ID, "runId": run_id, "name": "copy", "timestamp": "2026-11-21T05:59:17.826Z", "jobTags": []}
    )


def terminated(run_id: str = RUN, exception: str | None = None) -> QueryTerminatedEvent:
    return QueryTerminatedEvent.fromJson(
        {"id": ID, "runId": run_id, "exception": exception, "errorClassOnException": None}
    )


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture(autouse=True)
def no_other_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides the sinks of other tests in this process."""
    monkeypatch.setattr(kept_writers, "_slots", {})


@pytest.fixture
def metrics(registry: CollectorRegistry) -> CommitLogMetrics:
    return CommitLogMetrics(port=None, registry=registry)


def page(registry: CollectorRegistry, *labels: str) -> Page:
    return Page(generate_latest(registry).decode(), *labels)


# --- without Spark


def test_a_query_is_a_group_and_its_lag_what_it_could_have_read(
    metrics: CommitLogMetrics, registry: CollectorRegistry
) -> None:
    assert page(registry).samples == {}
    metrics.onQueryProgress(progress())
    found = page(registry, "group", "topic", "partition")
    assert found["kafka_consumergroup_group_offset"] == {("copy", "orders", "0"): 2, ("copy", "orders", "1"): 3}
    assert found["kafka_consumergroup_group_lag"] == {("copy", "orders", "0"): 3, ("copy", "orders", "1"): 0}
    assert found["kafka_consumergroup_group_sum_lag"] == {("copy",): 3}
    assert "kafka_consumergroup_group_lag_seconds" not in found
    who = page(registry, "cluster_name", "consumer_id", "client_id", "partition")
    assert ("spark", RUN, ID, "0") in who["kafka_consumergroup_group_lag"]


def test_rows_rates_and_times_of_the_last_micro_batch_are_served(
    metrics: CommitLogMetrics, registry: CollectorRegistry
) -> None:
    metrics.onQueryProgress(progress(batchId=2))
    metrics.onQueryProgress(progress())
    found = page(registry, "group")
    told = {
        name: values[("copy",)] for name in found.samples if name.startswith("commitlog_") and (values := found[name])
    }
    assert told == {
        "commitlog_query_running": 1,
        "commitlog_query_failed": 0,
        "commitlog_query_batch_id": 3,
        "commitlog_query_input_rows": 4,
        "commitlog_query_input_rows_per_second": 0.5,
        "commitlog_query_processed_rows_per_second": 0.8,
        "commitlog_query_batch_seconds": 2.601,
    }
    metrics.onQueryProgress(progress(sink={"description": "memory", "numOutputRows": 9}))
    assert page(registry, "group")["commitlog_query_output_rows"] == {("copy",): 9}


def test_a_query_without_a_name_is_its_id(metrics: CommitLogMetrics, registry: CollectorRegistry) -> None:
    metrics.onQueryProgress(progress(name=None))
    assert page(registry, "group")["commitlog_query_batch_id"] == {(ID,): 3}


def test_an_ended_query_keeps_its_last_figures(metrics: CommitLogMetrics, registry: CollectorRegistry) -> None:
    metrics.onQueryStarted(started())
    assert page(registry, "group").samples.keys() == {"commitlog_query_running", "commitlog_query_failed"}
    metrics.onQueryProgress(progress())
    metrics.onQueryProgress(progress(name="other", runId=OTHER_RUN))
    metrics.onQueryTerminated(terminated())
    found = page(registry, "group", "partition")
    assert found["commitlog_query_batch_id"] == {("copy",): 3, ("other",): 3}
    assert found["commitlog_query_running"] == {("copy",): 0, ("other",): 1}
    assert found["commitlog_query_failed"] == {("copy",): 0, ("other",): 0}
    assert found["kafka_consumergroup_group_lag"]["copy", "0"] == 3
    metrics.onQueryTerminated(terminated())
    metrics.onQueryTerminated(terminated("22222222-69ea-409b-b53d-1d5a3649e95d"))  # never seen


def test_a_query_that_failed_is_known_as_such_until_it_is_started_again(
    metrics: CommitLogMetrics, registry: CollectorRegistry
) -> None:
    metrics.onQueryProgress(progress())
    metrics.onQueryTerminated(terminated(exception="java.lang.Error"))
    assert page(registry, "group")["commitlog_query_failed"] == {("copy",): 1}
    metrics.onQueryStarted(started(OTHER_RUN))
    found = page(registry, "group")
    assert found["commitlog_query_failed"] == {("copy",): 0}
    assert found["commitlog_query_running"] == {("copy",): 1}
    assert found["commitlog_query_batch_id"] == {("copy",): 3}  # of the run before, until its own first micro-batch
    metrics.onQueryProgress(progress(runId=OTHER_RUN, batchId=4))
    assert page(registry, "group")["commitlog_query_batch_id"] == {("copy",): 4}


def test_a_query_that_had_nothing_to_read_keeps_the_figures_of_its_run_before(
    metrics: CommitLogMetrics, registry: CollectorRegistry
) -> None:
    metrics.onQueryProgress(progress())
    metrics.onQueryTerminated(terminated())
    metrics.onQueryStarted(started(OTHER_RUN))
    metrics.onQueryTerminated(terminated(OTHER_RUN))
    assert page(registry, "group")["commitlog_query_batch_id"] == {("copy",): 3}


def test_figures_of_the_queries_that_ended_last_are_kept(
    metrics: CommitLogMetrics, registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "FINISHED_KEPT", 2)
    runs = [f"{number}1111111-69ea-409b-b53d-1d5a3649e95d" for number in range(4)]
    for number, run in enumerate(runs):
        metrics.onQueryProgress(progress(name=f"q{number}", runId=run))
    for run in reversed(runs[1:]):
        metrics.onQueryTerminated(terminated(run))
    assert page(registry, "group")["commitlog_query_running"] == {("q0",): 1, ("q1",): 0, ("q2",): 0}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(
            source({"orders": {"0": 1}}, {"orders": {"0": 9}}, "KafkaV2[Subscribe[orders]]"), id="of a broker"
        ),
        pytest.param(source({"seconds": 7}, {"seconds": 9}), id="of another Python source"),
        pytest.param(source(7, 9), id="numbers"),
        pytest.param(source(None, None), id="nothing yet"),
        pytest.param(source({"startingOffsets": "latest"}, None), id="not begun"),
        pytest.param(source("x{", "["), id="no JSON"),
    ],
)
def test_sources_of_others_have_no_lag(
    other: dict[str, Any], metrics: CommitLogMetrics, registry: CollectorRegistry
) -> None:
    metrics.onQueryProgress(progress(other))
    assert "kafka_consumergroup_group_lag" not in page(registry)
    metrics.onQueryProgress(progress(other, source({"orders": {"0": 2}}, {"orders": {"0": 5}})))
    assert page(registry, "topic")["kafka_consumergroup_group_lag"] == {("orders",): 3}


def test_of_two_reads_of_a_partition_the_one_with_more_lag_counts(
    metrics: CommitLogMetrics, registry: CollectorRegistry
) -> None:
    reads = [source({"orders": {"0": end}}, {"orders": {"0": latest}}) for end, latest in ((4, 5), (2, 7), (6, 6))]
    metrics.onQueryProgress(progress(*reads))
    assert page(registry, "topic")["kafka_consumergroup_group_lag"] == {("orders",): 5}


def test_with_the_directory_lag_counts_to_the_log_end_and_in_seconds(
    tmp_path: Path, registry: CollectorRegistry
) -> None:
    path = directory_with_internal_topics(tmp_path / "events")
    with LogManager.open(path) as manager:
        manager.create_topic("orders", partitions=2)
        append(manager.open_log("orders", 0), *[b"v"] * 8)
        append(manager.open_log("orders", 1), *[b"v"] * 3)
    metrics = CommitLogMetrics(port=None, log_dir=path, registry=registry)
    metrics.onQueryProgress(progress())
    found = page(registry, "group", "partition")
    assert found["kafka_consumergroup_group_lag"] == {("copy", "0"): 6, ("copy", "1"): 0}
    seconds = found["kafka_consumergroup_group_lag_seconds"]
    assert seconds["copy", "0"] > 0
    assert seconds["copy", "1"] == 0
    assert found["commitlog_query_batch_id"] == {("copy",): 3}
    clusters = page(registry, "cluster_name", "partition", "topic")
    assert clusters["commitlog_query_batch_id"] == {("events",): 3}
    assert clusters["kafka_partition_latest_offset"]["events", "0", "orders"] == 8
    metrics.onQueryTerminated(terminated())
    with LogManager.open(path) as manager:
        append(manager.open_log("orders", 1), b"v")
    assert page(registry, "group", "partition")["kafka_consumergroup_group_lag"]["copy", "1"] == 1  # goes on growing
    metrics.close()
    assert page(registry).samples == {}


def test_it_answers_until_it_is_closed(registry: CollectorRegistry) -> None:
    metrics = CommitLogMetrics(port=0, registry=registry)
    metrics.onQueryProgress(progress())
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics", timeout=60) as answer:
        assert "commitlog_query_batch_id" in answer.read().decode()
    with pytest.raises(OSError, match="in use"):
        CommitLogMetrics(port=metrics.port, registry=CollectorRegistry())
    metrics.close()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics", timeout=60)
    metrics.close()


@pytest.mark.parametrize(
    ("chosen", "address"), [({}, "127.0.0.1"), ({"address": "0.0.0.0"}, "0.0.0.0")], ids=["by default", "if asked"]
)
def test_other_machines_can_connect_only_if_asked(
    chosen: dict[str, str], address: str, registry: CollectorRegistry
) -> None:
    metrics = CommitLogMetrics(port=0, registry=registry, **chosen)
    assert metrics._server is not None
    assert metrics._server.server_address[0] == address
    metrics.close()


def test_a_slow_request_does_not_block_the_listener(tmp_path: Path, registry: CollectorRegistry) -> None:
    metrics = CommitLogMetrics(port=None, log_dir=str(tmp_path), registry=registry)
    [_, directory] = metrics._collectors
    with directory._turn:  # as while it looks
        teller = threading.Thread(target=metrics.onQueryProgress, args=[progress(batchId=4)], daemon=True)
        teller.start()
        teller.join(60)
        assert not teller.is_alive()
    assert page(registry)["commitlog_query_batch_id"] == {(): 4}


# --- with Spark


def directory_of_orders(tmp_path: Path, partitions: int, values: list[bytes]) -> str:
    """Creates a log directory with topic ``orders``, where each partition has the values."""
    path = directory_with_internal_topics(tmp_path / "events")
    with LogManager.open(path) as manager:
        manager.create_topic("orders", partitions=partitions)
        for partition in range(partitions):
            append(manager.open_log("orders", partition), *values)
    return path


def test_a_query_is_served_while_it_runs(spark: SparkSession, tmp_path: Path, registry: CollectorRegistry) -> None:
    path = directory_of_orders(tmp_path, partitions=2, values=[b"v"] * 5)
    metrics = CommitLogMetrics(port=None, registry=registry)
    spark.streams.addListener(metrics)
    try:
        stream = spark.readStream.format("commitlog").options(subscribe="orders", startingOffsets="earliest").load(path)
        query = stream.writeStream.queryName("told").format("noop").trigger(processingTime="1 second").start()
        try:
            soon(lambda: ("told",) in page(registry, "group")["commitlog_query_batch_id"], KeyError)
            found = page(registry, "group", "topic", "partition")
            partitions = {("told", "orders", "0"), ("told", "orders", "1")}
            assert found["kafka_consumergroup_group_offset"] == dict.fromkeys(partitions, 5)
            assert found["kafka_consumergroup_group_lag"] == dict.fromkeys(partitions, 0)
            assert page(registry, "consumer_id", "partition")["kafka_consumergroup_group_lag"].keys() == {
                (str(query.runId), "0"),
                (str(query.runId), "1"),
            }
            assert json.loads(query.lastProgress.json)["numInputRows"] >= 0
        finally:
            query.stop()
        soon(lambda: page(registry, "group")["commitlog_query_running"] == {("told",): 0})
        assert page(registry, "group", "topic", "partition")["kafka_consumergroup_group_offset"].keys() == partitions
    finally:
        spark.streams.removeListener(metrics)


def test_the_last_batch_of_a_sink_is_served_by_topic_also_after_its_query_ended(
    spark: SparkSession, tmp_path: Path, registry: CollectorRegistry
) -> None:
    path = directory_of_orders(tmp_path, partitions=1, values=[b"v" * 100] * 10)
    CommitLogMetrics(port=None, registry=registry)
    stream = spark.readStream.format("commitlog").options(subscribe="orders", startingOffsets="earliest").load(path)
    rows = stream.selectExpr("value", "cast(offset % 2 as int) as partition").observe(
        "rows", F.expr("count(1) as count")
    )
    sink = commitlog_sink(topic="copies", log_dir=path, partitions=3, txnAppId="copier")
    query = rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        soon(lambda: page(registry, "group", "topic")["commitlog_sink_batch_records"] == {("copier", "copies"): 10})
        found = page(registry, "group")
        assert found["commitlog_sink_batch_partitions"] == {("copier",): 2}
        assert found["commitlog_sink_batch_bytes"]["copier",] > 1000
        assert found["commitlog_sink_batch_seconds"]["copier",] > found["commitlog_sink_commit_seconds"]["copier",] > 0
        soon(lambda: 10 in [told.observedMetrics["rows"]["count"] for told in query.recentProgress], KeyError)
    finally:
        query.stop()
    assert page(registry, "group", "topic")["commitlog_sink_batch_records"] == {("copier", "copies"): 10}


def test_sinks_of_one_name_are_distinguished_by_their_directories(
    spark: SparkSession, tmp_path: Path, registry: CollectorRegistry
) -> None:
    CommitLogMetrics(port=None, registry=registry)
    directories = [str(tmp_path / name) for name in ("a", "b")]
    sinks = [commitlog_sink(topic="copies", log_dir=path, partitions=1, txnAppId="copier") for path in directories]
    for rows, sink in enumerate(sinks, 1):
        sink(spark.range(rows).selectExpr("cast(id as string) as value"), 0)
    found = page(registry, "group", "log_dir")
    assert found["commitlog_sink_batch_records"] == {("copier", path): rows for rows, path in enumerate(directories, 1)}
    for sink in sinks:
        sink.close()
    assert page(registry, "group", "log_dir")["commitlog_sink_batch_records"] == found["commitlog_sink_batch_records"]


# --- the page about them


def test_the_page_about_metrics_has_each_of_them_with_its_labels() -> None:
    told: dict[str, tuple[str, ...]] = {}
    page = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()
    for line in page[: page.index("`commitlog gateway --metrics-port")].splitlines():
        if line.startswith(("| kafka_", "| commitlog_")):
            name, labels = (cell.strip() for cell in line.split("|")[1:3])
            told[name] = list(told.values())[-1] if labels == "the same" else tuple(labels.split(", "))
    gauges = [each for module in (exposition, listener) for each in vars(module).values() if isinstance(each, Gauge)]
    assert told == {gauge.name: gauge.labels for gauge in gauges}
