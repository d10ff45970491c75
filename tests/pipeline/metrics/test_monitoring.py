"""What conf/ has for Prometheus and Grafana: its queries name metrics and labels that exist; promtool accepts it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyspark_commitlog.pipeline.metrics import directory, queries
from pyspark_commitlog.pipeline.metrics.directory import Gauge

ROOT = Path(__file__).parents[3]
RULES = ROOT / "conf" / "prometheus" / "alerts.yml"
CONFIG = ROOT / "conf" / "prometheus" / "prometheus.yml"
DASHBOARD = ROOT / "conf" / "grafana" / "commitlog.json"

SCRAPED = {"job", "instance"}  # labels that Prometheus adds itself
LABELS = {
    each.name: {*each.labels}
    for module in (directory, queries)
    for each in vars(module).values()
    if type(each) is Gauge
} | {"up": SCRAPED}
WORDS = {"and", "or", "unless", "on", "ignoring", "by", "without", "group_left", "group_right", "bool", "offset"}
NOT_A_NAME = re.compile(r'"[^"]*"|\[[^\]]*\]|#.*')  # a text, a range, a comment
LISTED = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")
SELECTED = re.compile(r"([A-Za-z_:][\w:]*)\s*\{([^}]*)\}")
NAME = re.compile(r"\b[A-Za-z_:][\w:]*(?!\w|\s*\()")  # not that of a function


def metrics_in(query: str) -> set[str]:
    """Returns the metrics that a query names. Raises AssertionError for a label that none of them has."""
    plain = NOT_A_NAME.sub("", query)
    for name, matchers in SELECTED.findall(plain):
        asked = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
        assert asked <= LABELS.get(name, set()) | SCRAPED, f"{name} has no label {asked - LABELS.get(name, set())}"
    listed = {label.strip() for labels in LISTED.findall(plain) for label in labels.split(",")}
    names = set(NAME.findall(LISTED.sub("", re.sub(r"\{[^}]*\}", "", plain)))) - WORDS
    there = {label for name in names for label in LABELS.get(name, set())}
    assert listed <= there, f"no metric of {query!r} has {listed - there}"
    return names


def dashboard_queries() -> Iterator[tuple[str, str]]:
    """Yields each query of the dashboard with what it writes beside a line."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", []):
            yield target["expr"], target["legendFormat"]


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def test_a_label_that_does_not_exist_is_found_in_a_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LABELS, "kafka_x", {"group"})
    assert metrics_in('sum by (group) (rate(kafka_x{group=~"a"}[5m]) / 60) or vector(0) # y') == {"kafka_x"}
    with pytest.raises(AssertionError, match="no label"):
        metrics_in('kafka_x{topic="t"}')
    with pytest.raises(AssertionError, match="no metric"):
        metrics_in("sum by (topic) (kafka_x)")


def test_every_query_of_the_dashboard_names_metrics_and_labels_that_are_printed() -> None:
    named = set()
    for query, legend in dashboard_queries():
        found = metrics_in(query)
        assert found
        assert found <= LABELS.keys(), query
        labels = {label for name in found for label in LABELS[name]}
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= labels, legend
        named |= found
    assert {name for name in LABELS if name.startswith("commitlog_")} <= named  # each of ours is in a panel


def test_the_variables_of_the_dashboard_are_labels_of_metrics_that_are_printed() -> None:
    for variable in json.loads(DASHBOARD.read_text())["templating"]["list"]:
        if variable["type"] == "query":
            [(names, label)] = re.findall(r'__name__=~"([^"]+)".*\}, (\w+)\)', variable["query"])
            assert all(label in LABELS[name] for name in names.split("|"))


def test_every_alert_names_metrics_and_labels_that_are_printed_and_says_what_to_do() -> None:
    for rule in rules():
        found = metrics_in(rule["expr"])
        assert found <= LABELS.keys(), rule["alert"]
        labels = {label for name in found for label in LABELS[name]}
        texts = rule["annotations"]
        assert texts.keys() == {"summary", "description"}
        assert set(re.findall(r"\$labels\.(\w+)", " ".join(texts.values()))) <= labels, rule["alert"]


def test_every_alert_has_a_case_in_which_it_fires() -> None:
    cases = yaml.safe_load(Path(__file__).with_name("alerts.yml").read_text())["tests"]
    fired = {each["alertname"] for case in cases for each in case["alert_rule_test"] if each.get("exp_alerts")}
    assert {rule["alert"] for rule in rules()} == fired


@pytest.mark.only_all
def test_promtool_accepts_scrape_lines_and_alerts_and_they_fire_when_they_should(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    assert promtool, "promtool is missing. Debian: apt-get install --no-install-recommends prometheus"
    case = yaml.safe_load(Path(__file__).with_name("alerts.yml").read_text())
    cases = tmp_path / "alerts.yml"
    cases.write_text(yaml.safe_dump({**case, "rule_files": [str(RULES)]}))
    panels = tmp_path / "panels.yml"  # promtool reads no dashboard, but the same queries as rules
    recorded = [
        {"record": f"panel:{number}", "expr": query.replace("$__rate_interval", "5m")}
        for number, (query, _) in enumerate(dashboard_queries())
    ]
    panels.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": recorded}]}))
    for command in (
        ["check", "config", str(CONFIG)],
        ["check", "rules", str(RULES), str(panels)],
        ["test", "rules", str(cases)],
    ):
        done = subprocess.run([promtool, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
