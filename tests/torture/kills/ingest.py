"""jobs/ingest.py as it is submitted, to be killed: its processes, its progress, its input and what it made of it."""

from __future__ import annotations

import csv
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark_commitlog.pipeline.demo.flights import FIRST_MODIFIED_S, NAMES
from pyspark_commitlog.storage import Isolation, LogManager
from tests.support.logs.directories import directory_with_internal_topics
from tests.support.spark import spark_jvm

ROOT = Path(__file__).parents[3]
TOPIC = "flights"
PARTITIONS = 4
DONE = "Every file is in the topic."
# Enough of conf/spark-defaults.conf for the job, and no jar of Delta's, which takes seconds to find.
SPARK_DEFAULTS = """
spark.master                                      {master}
spark.driver.memory                               1g
spark.ui.enabled                                  false
spark.ui.showConsoleProgress                      false
spark.sql.session.timeZone                        UTC
spark.sql.shuffle.partitions                      2
spark.sql.files.openCostInBytes                   1
spark.sql.files.maxPartitionBytes                 64k
spark.python.authenticate.socketTimeout           120s
spark.python.daemon.module                        pyspark_commitlog.pipeline.workers.daemon
spark.python.unix.domain.socket.enabled           true
{jvms}"""
Row = tuple[object, ...]  # of a flight, but for its hour, which is told another way in each place


@dataclass(frozen=True)
class Work:
    """A directory with input and settings; a round has a log and checkpoints of its own."""

    path: Path
    round: int = 0

    @property
    def log(self) -> Path:
        return self.path / f"log-{self.round}"

    def prepare(self) -> Work:
        """Settings for this round; few internal partitions, since fifty of each take long to make."""
        directory_with_internal_topics(self.log, partitions=2)
        settings = (
            f'log_dir = "{self.log}"\ncheckpoints = "checkpoints-{self.round}"\n'
            f'[topics.{TOPIC}]\npartitions = {PARTITIONS}\n"retention.ms" = -1\n"segment.bytes" = 100000\n'
        )
        (self.path / "local.toml").write_text(settings)
        return self


def write_input(directory: Path, lines: Iterable[str], rows_a_file: int) -> None:
    """CSV files of so many rows, in the order of their modification; ``lines`` are rows without the header."""
    directory.mkdir(parents=True, exist_ok=True)
    header = ",".join(NAMES)
    kept: list[str] = []
    number = 0
    for line in [*lines, None]:
        if line is not None:
            kept.append(line)
        if kept and (line is None or len(kept) == rows_a_file):
            file = directory / f"{number:05}.csv"
            file.write_text("\n".join([header, *kept]) + "\n")
            os.utime(file, (FIRST_MODIFIED_S + number,) * 2)
            number, kept = number + 1, []


def input_rows(directory: Path) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for file in sorted(directory.glob("*.csv")):
        with file.open(newline="") as lines:
            found.update(row_of(row) for row in csv.DictReader(lines))
    return found


def topic_rows(log: Path) -> Counter[Row]:
    """What a reader of committed records sees."""
    return Counter(row_of(json.loads(value)) for value in committed_values(log))


def committed_values(log: Path) -> Iterator[bytes]:
    with LogManager.open(str(log)) as manager:
        for number in manager.topic(TOPIC).partitions:
            with manager.open_reader(TOPIC, number) as reader:
                end = reader.end_offset(Isolation.READ_COMMITTED)
                for records in reader.records(reader.log_start_offset, end, isolation=Isolation.READ_COMMITTED):
                    assert records.values is not None
                    yield from (value or b"" for value in records.values.to_list())


def row_of(fields: dict[str, object]) -> Row:
    """Text alike, whether from CSV or JSON, where what is missing was not written."""
    return tuple(
        None if fields.get(name) in (None, "NA", "") else str(fields[name]) for name in NAMES if name != "time_hour"
    )


class Job:
    """A program of ours while it runs under spark-submit, in a process group of its own, as a shell starts one.

    ``done`` is what it prints when all of its input is written; ``settings`` are lines for spark-defaults.conf.
    """

    def __init__(self, path: Path, master: str, name: str, *arguments: str, done: str, settings: str = "") -> None:
        conf = path / "conf"
        conf.mkdir(exist_ok=True)
        (conf / "spark-defaults.conf").write_text(
            SPARK_DEFAULTS.format(master=master, jvms=spark_jvm.DEFAULTS_LINES) + settings
        )
        (conf / "log4j2.properties").write_bytes((ROOT / "conf" / "log4j2.properties").read_bytes())
        command = [Path(sys.executable).with_name("spark-submit"), ROOT / "jobs" / name]
        self.errors = path / "stderr"
        self._done = done
        self.process = subprocess.Popen(
            [*command, *arguments],
            cwd=path,
            env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_CONF_DIR": str(conf)},
            stdout=subprocess.PIPE,
            stderr=self.errors.open("w"),
            text=True,
            start_new_session=True,
        )
        self.printed: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def next_line(self, timeout_s: float) -> bool:
        """Wait for a line of progress; False where it has ended, or none came in time."""
        try:
            line = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            return False
        if line is None:
            self._lines.put(None)
            return False
        self.printed.append(line)
        return True

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        while self.next_line(timeout_s=600):
            pass
        return self.process.wait()

    @property
    def finished(self) -> bool:
        """It ended and said that all of the input is written."""
        return self.wait() == 0 and any(self._done in line for line in self.printed)

    def kill_driver(self) -> None:
        """The JVM and the Python beside it; workers have a group of their own and may go on for a moment."""
        os.killpg(self.process.pid, signal.SIGKILL)

    def workers(self) -> list[int]:
        """Python processes that Spark started for tasks, the one that forks them first."""
        parents = {pid: (parent, command) for pid, parent, command in _processes()}
        return sorted(
            pid
            for pid, (_, command) in parents.items()
            if ".daemon " in command and _descends(pid, self.process.pid, parents)
        )


class Ingest(Job):
    """The ingest job."""

    def __init__(self, work: Work, master: str) -> None:
        arguments = ("--config", "local.toml", "--input", "input", "--topic", TOPIC)
        super().__init__(work.path, master, "ingest.py", *arguments, done=DONE)


def kill(processes: Iterable[int]) -> int:
    """SIGKILL; how many there were."""
    killed = 0
    for pid in processes:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        killed += 1
    return killed


def _processes() -> Iterator[tuple[int, int, str]]:
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            yield int(entry.name), parent, (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (OSError, IndexError):
            continue


def _descends(pid: int, ancestor: int, parents: dict[int, tuple[int, str]]) -> bool:
    while pid in parents and pid != ancestor:
        pid = parents[pid][0]
    return pid == ancestor
