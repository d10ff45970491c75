"""What a page of metrics says."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample


class Page:
    """``page[name]``: the values of a metric, by those of ``labels`` that it has."""

    def __init__(self, text: str, *labels: str) -> None:
        self._labels = labels
        self.samples: dict[str, list[Sample]] = {}
        for family in text_string_to_metric_families(text):
            self.samples[family.name] = list(family.samples)

    def __contains__(self, name: str) -> bool:
        return name in self.samples

    def __getitem__(self, name: str) -> dict[tuple[str, ...], float]:
        found: dict[tuple[str, ...], float] = {}
        for sample in self.samples[name]:
            key = tuple(sample.labels[label] for label in self._labels if label in sample.labels)
            assert key not in found, f"{name} {key} comes twice"
            found[key] = sample.value
        return found

    def labels_of(self, name: str) -> set[str]:
        return {label for sample in self.samples[name] for label in sample.labels}


def page_of(*collectors: Collector) -> str:
    """What Prometheus would be answered."""
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    return generate_latest(registry).decode()
