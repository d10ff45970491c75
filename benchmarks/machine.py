"""The machine on which figures were measured, and the versions of the software."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

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
_KERNEL_THREADS = 2  # kthreadd, the parent of all threads of the kernel


class OthersWork:
    """The CPU time that programs other than this one and its descendants use, and that the host gives to other guests.

    Spark's Java and its Python workers outlive the process that started them. As this process is their subreaper, they
    become its children then, not those of another program (prctl(2)). The kernel's own threads do not count: what they
    do is mostly to write what a part has written.
    """

    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._began_s, self._stolen, self._at_first = time.monotonic(), _stolen_ticks(), _others_ticks()

    def cores(self) -> float:
        """The cores that others used on average since this object was made. Waits for descendants that are ending."""
        took_s = time.monotonic() - self._began_s
        used = sum(max(0, ticks - self._at_first.get(pid, 0)) for pid, ticks in _others_ticks().items())
        stolen = _stolen_ticks() - self._stolen
        _reap()
        return (used + stolen) / os.sysconf("SC_CLK_TCK") / took_s


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


class _Process(NamedTuple):
    parent: int
    ticks: int  # of the process, and of its children that have ended


def _others_ticks() -> dict[int, int]:
    """Ticks of the processes of other programs by id. Those of one that has ended are its parent's, if that waited."""
    processes = dict(_processes())
    return {pid: each.ticks for pid, each in processes.items() if _is_of_another(pid, processes)}


def _is_of_another(pid: int, processes: Mapping[int, _Process]) -> bool:
    """Whether a process is neither this one, nor a descendant of it, nor a thread of the kernel."""
    while pid in processes:
        if pid in (os.getpid(), _KERNEL_THREADS):
            return False
        pid = processes[pid].parent
    return True


def _processes() -> Iterator[tuple[int, _Process]]:
    """Yields all processes by their ids (proc(5), /proc/[pid]/stat)."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            _name, _, rest = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")
            fields = rest.split()  # from the third one on
            yield int(folder.name), _Process(int(fields[1]), sum(map(int, fields[11:15])))


def _stolen_ticks() -> int:
    """Ticks in which the host ran other guests (proc(5), /proc/stat)."""
    first_line = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    return int(first_line.split()[8])


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
