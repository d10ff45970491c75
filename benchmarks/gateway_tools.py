"""Kafka's own performance tools as clients of the gateway's benchmark. Each call starts a JVM and returns seconds."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping

from tests.support.kafka import kafka_jvm

TOOLS = "org.apache.kafka.tools"
TIMEOUT_S = 300
TUNED = {"batch.size": "262144", "linger.ms": "20"}  # of a producer
# Those of the tools' start scripts, in place of the tests' quick start.
JVM_OPTIONS = ("-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=4")


def produce(
    bootstrap: str, topic: str, records: int, record_bytes: int, settings: Mapping[str, str] | None = None
) -> float:
    """Seconds that ``kafka-producer-perf-test`` takes, with acks=all, from its first record to its last answer."""
    properties = {"bootstrap.servers": bootstrap, "acks": "all", **(settings or {})}
    printed = _run(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", str(records), "--record-size", str(record_bytes), "--throughput", "-1"),
        *("--producer-props", *(f"{name}={value}" for name, value in properties.items())),
    )
    rate = re.search(rf"^{records} records sent, ([\d.]+) records/sec", printed, re.MULTILINE)
    if rate is None:
        raise ValueError(f"not all of {records} records were sent: {printed}")
    return records / float(rate[1])


def consume(bootstrap: str, topic: str, records: int) -> float:
    """Seconds that ``kafka-consumer-perf-test`` takes, without the time until its group has begun."""
    printed = _run(
        "ConsumerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--messages", str(records)),
        *("--hide-header", "--timeout", "60000"),
    )
    fields = printed.strip().splitlines()[-1].split(", ")
    if int(fields[4]) < records:
        raise ValueError(f"{fields[4]} of {records} records were read")
    return float(fields[7]) / 1e3


def end_to_end(bootstrap: str, topic: str, records: int) -> float:
    """Average seconds from the send of a record of 100 bytes, with acks=all, until a waiting consumer has it."""
    printed = _run("EndToEndLatency", bootstrap, topic, str(records), "all", "100")
    average = re.search(r"Avg latency: ([\d.]+) ms", printed)
    if average is None:
        raise ValueError(f"no latency: {printed}")
    return float(average[1]) / 1e3


def _run(tool: str, *arguments: str) -> str:
    command = [*kafka_jvm.jvm(*JVM_OPTIONS), f"{TOOLS}.{tool}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{tool}: {done.stderr or done.stdout}")
    return done.stdout
