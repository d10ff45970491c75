"""The figures of a gateway, by the names that dashboards for Kafka know."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen
from weakref import WeakSet

import pytest
from prometheus_client import CollectorRegistry

from pyspark_commitlog.gateway.metrics import GatewayMetrics
from pyspark_commitlog.gateway.metrics_server import HEALTH, serve_metrics
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.gateway.threads import kept
from pyspark_commitlog.gateway.threads.kept import KeptThread
from tests.support.gateway import WireClient, fetch_fields, produce_fields
from tests.support.logs.building import batch


def test_what_clients_do_is_counted(gateway: Gateway, client: WireClient, topic: str) -> None:
    registry = CollectorRegistry()
    registry.register(GatewayMetrics(gateway.figures))

    def value(name: str, **labels: str) -> float:
        return registry.get_sample_value(name, labels) or 0

    of_topics, of_requests = "kafka_server_brokertopicmetrics", "kafka_network_requestmetrics"
    asked, syncs = (
        value(f"{of_requests}_requests_total", request="Produce"),
        "kafka_log_logflushstats_logflushrateandtimems",
    )
    failed, synced = value(f"{of_topics}_failedproducerequests_total"), value(f"{syncs}_count")
    failed_fetches = value(f"{of_topics}_failedfetchrequests_total")
    records = bytes(batch(b"one", b"two", b"three"))
    client.ask(0, 9, **produce_fields(topic, records))
    client.ask(0, 9, **produce_fields(topic, records[:-1]))
    client.ask(0, 9, **produce_fields("not-there", records))
    client.ask(1, 12, **fetch_fields(topic, 0))
    client.ask(1, 12, **fetch_fields("not-there", 0))
    assert value(f"{of_topics}_messagesin_total", topic=topic) == 3
    assert value(f"{of_topics}_bytesin_total", topic=topic) == len(records)
    assert value(f"{of_topics}_bytesout_total", topic=topic) == len(records)
    assert value(f"{of_topics}_totalproducerequests_total", topic=topic) == 1
    assert value(f"{of_topics}_totalfetchrequests_total", topic=topic) == 1
    assert value(f"{of_topics}_messagesin_total", topic="not-there") == 0
    assert value(f"{of_topics}_failedproducerequests_total") == failed + 2
    assert value(f"{of_topics}_failedfetchrequests_total") == failed_fetches + 1
    assert value(f"{of_requests}_requests_total", request="Produce") == asked + 3
    assert value(f"{of_requests}_totaltimems_count", request="Produce") == asked + 3
    assert value(f"{of_requests}_totaltimems_sum", request="Produce") > 0
    assert value(f"{syncs}_count") > synced
    assert value(f"{syncs}_sum") > 0


def test_the_page_about_metrics_has_each_of_a_gateways(gateway: Gateway) -> None:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    lines = page[page.index("`commitlog gateway --metrics-port") :].splitlines()
    named = {
        line.split("|")[1].strip().split()[0] for line in lines if line.startswith(("| kafka_", "| commitlog_gateway"))
    }
    printed = {
        f"{metric.name}_total" if metric.type == "counter" else metric.name
        for metric in GatewayMetrics(gateway.figures).collect()
    }
    assert named == printed


def test_health_names_the_threads_that_do_not_run(
    gateway: Gateway, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    appender = KeptThread("gateway-appender", lambda: None)
    monkeypatch.setattr(kept, "_KNOWN", WeakSet([appender]))  # of this test only
    monkeypatch.setattr(kept, "_failures", Counter())
    address = serve_metrics(gateway.figures, 0)
    health = address.replace("/metrics", HEALTH)
    with urlopen(health, timeout=30) as answer:
        assert (answer.status, answer.read()) == (200, b"ok\n")
    monkeypatch.setattr(kept, "_ended", {"gateway-appender", "library"})
    with pytest.raises(HTTPError) as refused, urlopen(health, timeout=30):
        pass
    assert (refused.value.code, refused.value.read()) == (503, b"threads that do not run: gateway-appender, library\n")
    with urlopen(address, timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    assert "commitlog_gateway_threads_unwell 2.0" in lines
    assert 'commitlog_gateway_thread_failures_total{thread="gateway-appender"} 0.0' in lines
