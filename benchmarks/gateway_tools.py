"""Kafka's own performance tools as clients of the gateway's benchmark. Each call returns seconds.

It starts a JVM, unless its ``run`` is that of :class:`WarmTools`.
"""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self

from tests.support.kafka import kafka_jvm

Run = Callable[..., str]  # a tool and its arguments; returns what it printed

TOOLS = "org.apache.kafka.tools"
TIMEOUT_S = 300
TUNED = {"batch.size": "262144", "linger.ms": "20"}  # of a producer
# Those of the tools' start scripts, in place of the tests' quick start.
JVM_OPTIONS = ("-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=4")


def run_alone(tool: str, *arguments: str) -> str:
    """Run a tool in a JVM of its own, and return what it printed."""
    command = [*kafka_jvm.jvm(*JVM_OPTIONS), f"{TOOLS}.{tool}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{tool}: {done.stderr or done.stdout}")
    return done.stdout


class WarmTools:
    """A JVM that runs tools one after the other, with what it has compiled for those before. A context manager."""

    def __enter__(self) -> Self:
        command = [*kafka_jvm.jvm(*JVM_OPTIONS), str(Path(__file__).with_name("WarmTools.java"))]
        self._jvm = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *exc: object) -> None:
        with self._jvm:
            self._jvm.kill()

    def run(self, tool: str, *arguments: str) -> str:
        """Run a tool, and return what it printed."""
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        late = threading.Timer(TIMEOUT_S, self._jvm.kill)
        late.start()
        try:
            print(f"{TOOLS}.{tool}", *arguments, sep="\t", file=self._jvm.stdin, flush=True)
            return "".join(self._until_end(self._jvm.stdout))
        finally:
            late.cancel()

    @staticmethod
    def _until_end(lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            if line == "END\n":
                return
            yield line
        raise RuntimeError("a tool failed or took too long; its JVM has printed why")


def produce(
    bootstrap: str,
    topic: str,
    records: int,
    record_bytes: int,
    settings: Mapping[str, str] | None = None,
    config: Path | None = None,
    run: Run = run_alone,
) -> float:
    """Seconds that ``kafka-producer-perf-test`` takes, with acks=all, from its first record to its last answer.

    ``config`` is a file of more settings.
    """
    properties = {"bootstrap.servers": bootstrap, "acks": "all", **(settings or {})}
    printed = run(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", str(records), "--record-size", str(record_bytes), "--throughput", "-1"),
        *("--producer-props", *(f"{name}={value}" for name, value in properties.items())),
        *(("--producer.config", str(config)) if config else ()),
    )
    rate = re.search(rf"^{records} records sent, ([\d.]+) records/sec", printed, re.MULTILINE)
    if rate is None:
        raise ValueError(f"not all of {records} records were sent: {printed}")
    return records / float(rate[1])


def consume(bootstrap: str, topic: str, records: int, config: Path | None = None, run: Run = run_alone) -> float:
    """Seconds that ``kafka-consumer-perf-test`` takes, without the time until its group has begun."""
    printed = run(
        "ConsumerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--messages", str(records)),
        *("--hide-header", "--timeout", "60000"),
        *(("--consumer.config", str(config)) if config else ()),
    )
    fields = printed.strip().splitlines()[-1].split(", ")
    if int(fields[4]) < records:
        raise ValueError(f"{fields[4]} of {records} records were read")
    return float(fields[7]) / 1e3


def end_to_end(bootstrap: str, topic: str, records: int) -> float:
    """Average seconds from the send of a record of 100 bytes, with acks=all, until a waiting consumer has it."""
    printed = run_alone("EndToEndLatency", bootstrap, topic, str(records), "all", "100")
    average = re.search(r"Avg latency: ([\d.]+) ms", printed)
    if average is None:
        raise ValueError(f"no latency: {printed}")
    return float(average[1]) / 1e3
