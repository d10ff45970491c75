"""GatewayMetrics: the figures of a gateway for Prometheus, by the names that Kafka's JMX exporter gives them."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from ..protocol.apis import APIS
from .figures import Figures, OfTopic
from .threads.kept import thread_failures, unwell_threads

_TOPICS = "kafka_server_brokertopicmetrics"
_OF_TOPIC = {  # the fields of OfTopic
    "records_in": (f"{_TOPICS}_messagesin", "records that clients produced"),
    "bytes_in": (f"{_TOPICS}_bytesin", "their bytes, as stored"),
    "bytes_out": (f"{_TOPICS}_bytesout", "bytes that clients fetched"),
    "produced": (f"{_TOPICS}_totalproducerequests", "batches that were appended"),
    "fetched": (f"{_TOPICS}_totalfetchrequests", "fetches that were answered"),
}


class GatewayMetrics(Collector):
    """Reads the figures at each scrape."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """Returns all metrics."""
        now = self._figures.snapshot()
        yield from (self._of_topics(field, now.topics) for field in _OF_TOPIC)
        yield _counter(f"{_TOPICS}_failedproducerequests", "batches that were refused", now.failed_produces)
        yield _counter(f"{_TOPICS}_failedfetchrequests", "fetches of a partition that failed", now.failed_fetches)
        yield _counter(
            "commitlog_gateway_maintenance_failures", "failures of maintenance of a partition", now.failed_maintenance
        )
        failures = CounterMetricFamily(
            "commitlog_gateway_thread_failures", "errors that a thread did not expect", labels=["thread"]
        )
        for name, count in thread_failures().items():
            failures.add_metric([name], count)
        yield failures
        unwell = len(unwell_threads())
        yield GaugeMetricFamily("commitlog_gateway_threads_unwell", "threads that do not run now", value=unwell)
        damage = GaugeMetricFamily(
            "commitlog_gateway_damage", "damage found since the start: 1 per place", labels=["file", "position"]
        )
        for place in sorted(now.damaged):
            damage.add_metric(place, 1)
        yield damage
        requests = CounterMetricFamily("kafka_network_requestmetrics_requests", "requests", labels=["request"])
        times = SummaryMetricFamily(
            "kafka_network_requestmetrics_totaltimems",
            "milliseconds from a request to its answer, including a fetch's wait for records",
            labels=["request"],
        )
        for key, each in now.requests.items():
            requests.add_metric([_name(key)], each.count)
            times.add_metric([_name(key)], each.count, each.seconds * 1000)
        yield requests
        yield times
        syncs = SummaryMetricFamily("kafka_log_logflushstats_logflushrateandtimems", "milliseconds that syncs took")
        syncs.add_metric([], now.syncs.count, now.syncs.seconds * 1000)
        yield syncs

    @staticmethod
    def _of_topics(field: str, topics: dict[str, OfTopic]) -> Metric:
        name, text = _OF_TOPIC[field]
        found = CounterMetricFamily(name, text, labels=["topic"])
        for topic, each in topics.items():
            found.add_metric([topic], getattr(each, field))
        return found


def _counter(name: str, text: str, value: int) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def _name(key: int) -> str:
    """Returns Kafka's name of a kind of request, such as ``InitProducerId``."""
    return "".join(part.title() for part in APIS[key].name.split("_"))
