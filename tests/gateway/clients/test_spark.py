"""Spark's ``format("kafka")``: batch and stream, to and from the gateway, with no more in its log than beside Kafka."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.gateway.clients import spark_program
from tests.gateway.clients.programs import TIMEOUT_S
from tests.support.gateway import serving
from tests.support.kafka.broker import Topic, create_topics

pytestmark = [pytest.mark.slow, pytest.mark.only_all]

ROOT = Path(__file__).parents[3]
SAID_AT_START = ("WARNING: Using incubator modules", 'Setting default log level to "WARN"')


@pytest.mark.parametrize("log_at", ["directory", "seaweedfs"], indirect=True)
def test_sparks_kafka_source_and_sink_and_ours_beside_the_gateway(log_at: str, tmp_path: Path) -> None:
    with serving(log_at) as gateway:
        create_topics(gateway.bootstrap_servers, dict.fromkeys(["in", "out", "kept"], Topic(2)))
        command = [sys.executable, "-m", spark_program.__name__, gateway.bootstrap_servers, str(tmp_path), log_at]
        done = subprocess.run(command, capture_output=True, text=True, timeout=2 * TIMEOUT_S, check=False, cwd=ROOT)
    logged = [line for line in done.stderr.splitlines() if not line.startswith(SAID_AT_START)]
    problems = [line for line in logged if "WARN" in line or "ERROR" in line]
    assert (done.returncode, done.stdout.strip(), problems) == (0, "done", []), done.stderr
