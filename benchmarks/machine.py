"""The machine on which figures were measured, and the versions of the software."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path

from tests.support.kafka import kafka_jvm

PACKAGES = (
    "pyspark",
    "delta-spark",
    "pyarrow",
    "numpy",
    "numba",
    "lz4",
    "zstandard",
    "cramjam",
    "crc32c",
    "fastcrc",
    "aiokafka",
    "confluent-kafka",
    "kafka-python",
)


def describe_machine() -> dict[str, str]:
    """Processor, cores, memory, kernel and the load of the last 15 minutes, as Linux reports them."""
    processor = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": processor[1] if processor else platform.processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{memory_bytes / 2**30:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "load": f"{os.getloadavg()[2]:.0f}",
    }


def describe_versions() -> dict[str, str]:
    """Versions of Python, Java, Kafka and the packages that are used, and the measured commit."""
    return {
        "spark-commitlog": _told(["git", "rev-parse", "--short", "HEAD"]),
        "python": platform.python_version(),
        "java": _told(["java", "-version"]).splitlines()[0],
        "kafka": kafka_jvm.KAFKA_VERSION,
        **{name: metadata.version(name) for name in PACKAGES},
    }


def _told(command: list[str]) -> str:
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    return (done.stdout or done.stderr).strip()
