"""The daemon that conf/ sets for Spark: its forked workers are sound, and are replaced when they die."""

from __future__ import annotations

import gc
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from pyspark_commitlog.pipeline.datasource import CommitLogDataSource
from pyspark_commitlog.pipeline.job.session import DELTA_SETTINGS, SETTINGS
from pyspark_commitlog.pipeline.workers.daemon import PLAIN_DAEMON
from pyspark_commitlog.storage import LogManager, Records

CONF = Path(__file__).parents[3] / "conf"
OURS = "pyspark_commitlog.pipeline.workers.daemon"
WORKER = "pyspark.worker"

# What a task may use that keeps threads: Arrow's pool, NumPy's algebra, pandas, kernels; in each of many forks, while
# threads of the allocators work in the one that forks.
FORKS = """
import os, sys
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark_commitlog.pipeline.workers import daemon
from pyspark_commitlog.pipeline.workers.memory import freeze_imports
from pyspark_commitlog.storage import BinaryColumn, partitions_of

daemon.preload("pyspark.worker")
assert daemon.may_fork()
freeze_imports()

def work():
    numbers = pa.chunked_array([pa.array(np.arange(50_000))] * 8)
    table = pa.table({"group": pc.bit_wise_and(numbers, 7), "number": numbers})
    summed = table.group_by("group").aggregate([("number", "sum")]).to_pandas(use_threads=True)
    assert summed["number_sum"].sum() == 8 * sum(range(50_000))
    assert (np.eye(200) @ np.ones((200, 200))).sum() == 40_000
    keys = [b"%d" % number for number in range(100)]
    assert set(partitions_of(BinaryColumn.from_list(keys), 4)) == {0, 1, 2, 3}

def child():
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return pid

codes = []
for _ in range(20):
    codes += [os.waitpid(pid, 0)[1] for pid in [child(), child()]]
print(codes.count(0))
"""

WITH_A_THREAD = """
import sys, threading
from pyspark_commitlog.pipeline.workers import daemon
daemon.preload = lambda worker: threading.Thread(target=threading.Event().wait, daemon=True).start()
daemon.main()
"""


def commands_of_parents(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        command = Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\0")
        yield pa.RecordBatch.from_pydict(
            {"command": [" ".join(command)], "pid": [os.getpid()], "daemon": [os.getppid()]}
        )


def await_end(pid: int) -> None:
    """Waits until the process has ended: Spark takes a dying worker for a live one."""
    deadline = time.monotonic() + 60
    with suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.kill(pid, 0)
            time.sleep(0.01)


def as_spark(sockets: str) -> dict[str, str]:
    """The environment that Spark sets for a daemon that listens in the directory ``sockets``."""
    return os.environ | {
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": sockets,
        "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
    }


def paths_of_imports(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"path": sys.path})


class WatchedSource(CommitLogDataSource):
    """Writes to its directory how much a garbage collection would traverse in the process that plans a query."""

    @classmethod
    def name(cls) -> str:
        return "watched"

    def reader(self, schema: StructType) -> DataSourceReader:
        told = f"{len(gc.get_objects())} {'numba' in sys.modules}"
        Path(self.options["path"], "told").write_text(told)
        return super().reader(schema)


def of_workers(spark: SparkSession) -> DataFrame:
    return spark.range(1).mapInArrow(commands_of_parents, "command string, pid long, daemon long")


def test_spark_submit_and_programs_get_the_same_settings_and_the_same_jar(spark: SparkSession) -> None:
    told, of_delta = settings_in(CONF / "spark-defaults.conf"), settings_in(CONF / "delta/delta.conf")
    assert told.items() >= SETTINGS.items()
    assert of_delta.items() >= DELTA_SETTINGS.items()
    assert told["spark.python.daemon.module"] == OURS
    delta, version = of_delta["spark.jars.packages"].split(":")[1:]
    assert f"{delta}-{version}.jar" in spark.conf.get("spark.jars", "")  # which this session has
    assert not any("delta" in name + value for name, value in told.items())


def settings_in(path: Path) -> dict[str, str]:
    lines = [line.split(None, 1) for line in path.read_text(encoding="utf-8").splitlines()]
    return {words[0]: words[1].strip() for words in lines if words and not words[0].startswith("#")}


def test_jars_of_a_session_are_not_on_pythons_path(spark: SparkSession) -> None:
    assert ".jar" in spark.conf.get("spark.jars", "")
    of_worker = [row.path for row in spark.range(1).mapInArrow(paths_of_imports, "path string").collect()]
    assert [path for path in of_worker + sys.path if path.endswith(".jar") and "pyspark/jars" not in path] == []


def test_tasks_of_any_kind_run_in_workers_of_our_daemon(spark: SparkSession) -> None:
    [row] = of_workers(spark).collect()
    assert f"-m {OURS} {WORKER}" in row.command
    doubled = F.pandas_udf(lambda numbers: numbers * 2, "long")  # type: ignore[call-overload]
    found = spark.range(5).select(F.udf(lambda number: number + 1, "long")("id"), doubled("id")).collect()
    assert [tuple(row) for row in found] == [(number + 1, number * 2) for number in range(5)]


def test_a_worker_that_dies_is_replaced(spark: SparkSession) -> None:
    [before] = of_workers(spark).collect()
    os.kill(before.pid, signal.SIGKILL)
    await_end(before.pid)
    [after] = of_workers(spark).collect()
    assert after.pid != before.pid
    assert f"-m {OURS} {WORKER}" in after.command


def test_forks_work_with_libraries_that_keep_threads() -> None:
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # as the daemon has it
    command = [sys.executable, "-c", FORKS]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.strip() == "40", done.stderr[-4000:]


def test_a_worker_that_spark_disconnects_ends_silently() -> None:
    command = [sys.executable, "-m", OURS, WORKER]
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with tempfile.TemporaryDirectory() as sockets, subprocess.Popen(command, env=as_spark(sockets), **pipes) as daemon:
        length = int.from_bytes(daemon.stdout.read(4), "big")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(daemon.stdout.read(length))
            worker = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
        await_end(worker)
        _, told = daemon.communicate()
    assert told == b""


def test_imports_of_a_search_by_time_are_excluded_from_later_collections(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = str(tmp_path)
    with LogManager.open(log_dir, create=True) as manager:
        manager.create_topic("t", partitions=1)
        manager.open_log("t", 0).append_records(Records.to_append([b"k"] * 9, [b"v"] * 9, timestamp_ms=5))
    spark.dataSource.register(WatchedSource)
    for option, value in (("startingOffsets", "earliest"), ("startingTimestamp", "1"), ("startingOffsets", "earliest")):
        assert spark.read.format("watched").options(subscribe="t", **{option: value}).load(log_dir).count() == 9
    objects, has_numba = (tmp_path / "told").read_text().split()
    assert has_numba == "True"
    assert int(objects) < 20_000, "of 90,000 that came with it"


def faults_of_tables(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Returns the page faults of creating tables one after the other, each in a new thread as in tasks."""
    parts = pa.chunked_array([pa.array([bytes(1000)] * 1000)] * 10)
    for _ in batches:
        faults = []
        for _ in range(4):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            with ThreadPoolExecutor(1) as thread:
                thread.submit(parts.combine_chunks).result()
            time.sleep(0.05)  # in which Arrow's allocator gives memory back, if it may
            faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        yield pa.RecordBatch.from_pydict({"faults": [faults]})


def test_a_worker_reuses_memory_that_arrow_freed(spark: SparkSession) -> None:
    [[_, *later]] = spark.range(1).mapInArrow(faults_of_tables, "faults array<long>").collect()[0]
    assert max(later) < 100, "of 400, where 10 MB come from the system"


def test_sparks_own_daemon_takes_over_if_a_thread_may_hold_locks() -> None:
    command = [sys.executable, "-c", WITH_A_THREAD, WORKER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        port = int.from_bytes(daemon.stdout.read(4), "big")
        running = Path(f"/proc/{daemon.pid}/cmdline").read_text().split("\0")
        daemon.stdin.close()  # so Spark ends it
    assert 0 < port < 2**16
    assert running[1:4] == ["-m", PLAIN_DAEMON, WORKER]
