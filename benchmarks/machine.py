"""The machine on which figures were measured, and the versions of the software."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import subprocess
import time
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

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


class OthersWork:
    """The CPU time that programs other than this one's descendants use, and that the host gives to its other guests.

    Spark's Java and its Python workers outlive the process that started them. As this process is their subreaper, they
    become its children then, so that it can wait for them and knows what they used (prctl(2)).
    """

    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._began_s, self._at_first_s = time.monotonic(), self._total_s()

    def cores(self) -> float:
        """The cores that others used on average since this object was made. Waits for descendants that are ending."""
        took_s = time.monotonic() - self._began_s
        _reap()
        return max(0.0, self._total_s() - self._at_first_s) / took_s

    @staticmethod
    def _total_s() -> float:
        own = os.times()
        all_s = _busy_ticks() / os.sysconf("SC_CLK_TCK")
        return all_s - own.user - own.system - own.children_user - own.children_system


def _reap() -> None:
    """Collect children until none ends for a second; the resource tracker of multiprocessing never does."""
    last_end = time.monotonic()
    while time.monotonic() < last_end + 1:
        try:
            pid, _status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid:
            last_end = time.monotonic()
        else:
            time.sleep(0.05)


def _busy_ticks() -> int:
    """Ticks of all processors that were not idle, since Linux booted (proc(5), /proc/stat)."""
    first_line = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, first_line.split()[1:9])
    return user + nice + system + irq + softirq + steal


def describe_machine() -> dict[str, str]:
    """Processor, cores, memory and kernel, as Linux reports them."""
    processor = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": processor[1] if processor else platform.processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{memory_bytes / 2**30:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
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
