"""The source and the sink if Spark is not one process: executors, one of which is lost, and a server."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.support.logs.directories import directory_with_internal_topics
from tests.support.spark import spark_jvm

pytestmark = pytest.mark.slow
TOKEN = "of-these-tests"
# A program that prints one line of JSON at its end; what it is about lies in its working directory.
BEGIN = """
import json, sys
from pathlib import Path
"""


def environment(**more: str) -> dict[str, str]:
    """Our environment without Spark's settings, except its JVM options, and with the workers' Python."""
    kept = {name: value for name, value in os.environ.items() if "SPARK" not in name}
    return kept | spark_jvm.ENVIRONMENT | {"PYSPARK_PYTHON": sys.executable, **more}


def run(program: str, directory: Path, *arguments: str) -> Any:
    """Runs ``program`` in ``directory``; returns the JSON in its last line."""
    command = [sys.executable, "-c", BEGIN + program, *arguments]
    done = subprocess.run(
        command, cwd=directory, env=environment(), capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return json.loads(done.stdout.splitlines()[-1])


# Plain writes and reads; then a task of a batch kills the JVM of its executor, once, when records lie in the log.
ON_A_CLUSTER = """
import os, signal
from pyspark.sql import SparkSession
from pyspark_commitlog import commitlog_sink
from pyspark_commitlog.pipeline.job.session import WORKER_SETTINGS

directory = os.getcwd()
quick = {"spark.ui.enabled": "false", **json.loads(sys.argv[1])}
builder = SparkSession.builder.master("local-cluster[2,1,1024]")
spark = builder.config(map=WORKER_SETTINGS | quick).getOrCreate()

def read(topic, isolation="read_committed"):
    frame = spark.read.format("commitlog").option("subscribe", topic).option("isolation.level", isolation).load("log")
    return sorted(int(row.number) for row in frame.selectExpr("cast(value as string) as number").collect())

def plain():
    numbers = spark.range(0, 1000, 1, 8).selectExpr("cast(id as string) as key", "cast(id as string) as value")
    write = commitlog_sink(topic="numbers", log_dir="log", txnAppId="numbers", partitions=3)
    written, again = write(numbers, 0), write(numbers, 0)
    source = spark.readStream.format("commitlog").option("subscribe", "numbers").option("startingOffsets", "earliest")
    streamed = []
    query = source.load("log").writeStream.foreachBatch(lambda frame, _: streamed.append(frame.count()))
    query.option("checkpointLocation", "checkpoint").trigger(availableNow=True).start().awaitTermination()
    return {
        "found": read("numbers"), "written": sum(each.records for each in written), "again": len(again),
        "streamed": sum(streamed), "executors": spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1,
    }

def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])

def lose_executor(batches):
    for batch in batches:
        yield batch
        if any(log.stat().st_size for log in Path(directory).glob("log/many-*/*.log")):
            try:
                os.close(os.open(f"{directory}/lost", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            os.kill(parent_of(os.getppid()), signal.SIGKILL)

def losing_an_executor():
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
    many = spark.range(0, 100_000, 1, 4).selectExpr("cast(id as string) as value")
    write = commitlog_sink(topic="many", log_dir="log", txnAppId="many", partitions=3)
    written = write(many.mapInArrow(lose_executor, many.schema), 0)
    found = read("many")
    return {
        "lost": os.path.exists("lost"), "written": sum(each.records for each in written), "found": len(found),
        "once": found == list(range(100_000)), "with_aborted": len(read("many", "read_uncommitted")),
    }

told = {"plain": plain(), "losing": losing_an_executor()}
spark.stop()
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def on_a_cluster(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The result of ON_A_CLUSTER."""
    directory = tmp_path_factory.mktemp("cluster")
    directory_with_internal_topics(directory / "log")
    return run(ON_A_CLUSTER, directory, json.dumps(spark_jvm.DEFAULTS))


@pytest.mark.only_all
def test_executors_in_separate_processes_write_and_read_one_log(on_a_cluster: Any) -> None:
    told = on_a_cluster["plain"]
    assert told["executors"] == 2
    assert (told["written"], told["again"], told["streamed"]) == (1000, 0, 1000)
    assert told["found"] == list(range(1000))


@pytest.mark.only_all
def test_executor_lost_during_a_write_costs_an_attempt_but_no_row(on_a_cluster: Any) -> None:
    told = on_a_cluster["losing"]
    assert told["lost"]
    assert (told["written"], told["found"], told["once"]) == (100_000, 100_000, True)
    assert told["with_aborted"] > 100_000


SUBMITTED = (
    BEGIN
    + """
from pyspark.sql import SparkSession
from pyspark_commitlog import commitlog_sink
from squares import with_squares

spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()

def where(batches):
    import numba, pyspark_commitlog, pyarrow, squares
    for batch in batches:
        modules = numba, pyspark_commitlog, pyarrow, squares
        places = [sys.executable, *(module.__file__ for module in modules)]
        yield pyarrow.RecordBatch.from_pydict({"place": places})

log = str(Path("log").absolute())
commitlog_sink(topic="squares", log_dir=log, txnAppId="squares", partitions=2)(with_squares(spark.range(100)), 0)
read = spark.read.format("commitlog").option("subscribe", "squares").load(log)
found = sorted(int(row.number) for row in read.selectExpr("cast(value as string) as number").collect())
places = {row.place for row in spark.range(0, 2, 1, 2).mapInArrow(where, "place string").collect()}
spark.stop()
Path("told.json").write_text(json.dumps({"found": found, "places": sorted(places)}))
"""
)
HELPER = """
def with_squares(frame):
    return frame.selectExpr("cast(id as string) as key", "cast(id * id as string) as value")
"""


def requirements_of(name: str, extra: str, left_out: Iterable[str]) -> set[str]:
    """Returns the distributions that ``name`` with ``extra`` needs, directly or not, except ``left_out``."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        needing = waiting.pop()
        for text in importlib.metadata.requires(needing) or []:
            needed = Requirement(text)
            is_needed = needed.marker is None or needed.marker.evaluate({"extra": extra if needing == name else ""})
            if not is_needed or needed.name in found or needed.name in left_out:
                continue
            found.add(needed.name)
            waiting.append(needed.name)
    return found


def pack_environment(archive: Path, wheel: Path) -> None:
    """Packs a virtual environment with ``wheel`` and all it needs, except Spark, which workers have.

    As a .zip, with Python as a file: from a .tar.gz, Spark drops execute permissions, and refuses links to the outside.
    """
    folder = archive.with_suffix("")
    venv.create(folder, with_pip=False, symlinks=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as built:  # what an installer does with a wheel of pure Python
        built.extractall(packages)
    with zipfile.ZipFile(archive, "w") as packed:
        for path in folder.rglob("*"):
            packed.write(path, path.relative_to(folder))
        for name in requirements_of("spark-commitlog", "spark", ["pyspark", "delta-spark"]):
            for file in importlib.metadata.files(name) or []:
                if file.suffix != ".pyc" and not {"..", "tests", "include"} & set(file.parts):  # ..: commands, in bin
                    packed.write(str(file.locate()), packages.relative_to(folder) / file)


@pytest.mark.only_all
def test_executors_without_installation_work_with_a_packed_environment(tmp_path: Path, wheel: Path) -> None:
    pack_environment(tmp_path / "environment.zip", wheel)
    (tmp_path / "squares.py").write_text(HELPER)
    (tmp_path / "program.py").write_text(SUBMITTED)
    submit = [Path(sys.executable).parent / "spark-submit", "--master", "local-cluster[1,2,1024]"]
    submit += spark_jvm.DEFAULTS_ARGUMENTS
    files = ["--archives", "environment.zip#environment", "--py-files", "squares.py"]
    env = environment(
        PYSPARK_PYTHON="./environment/bin/python",
        PYSPARK_DRIVER_PYTHON=sys.executable,
        SPARK_WORKER_DIR=str(tmp_path / "work"),
        NUMBA_DISABLE_JIT="1",  # in a new place all would be compiled again
    )
    done = subprocess.run(
        [*submit, *files, "program.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr[-6000:]
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["found"] == [n * n for n in range(100)]
    from_environment = [place for place in told["places"] if "/environment/" in place]
    assert {Path(place).name for place in {*told["places"]} - {*from_environment}} == {"squares.py"}
    assert len(from_environment) >= 4


SERVER = """
from pyspark import SparkContext
from pyspark.sql import SparkSession

settings = {
    "spark.python.authenticate.socketTimeout": "120s",  # 15 s are not enough where many tests run
    "spark.ui.enabled": "false",
}
spark = SparkSession.builder.remote("local[2]").config(map=settings).getOrCreate()
service = getattr(SparkContext._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
print("port", getattr(service, "MODULE$").localPort(), flush=True)
sys.stdin.read()
"""
# As where only the client of Spark Connect is installed: without Java's bridge, and without the part that needs it.
CLIENT = """
sys.modules["py4j"] = sys.modules["pyspark.core"] = None
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark_commitlog import commitlog_sink

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
log, told = str(Path("log").absolute()), {}

def read(topic):
    frame = spark.read.format("commitlog").option("subscribe", topic).load(log)
    return sorted(int(row.number) for row in frame.selectExpr("cast(value as string) as number").collect())

def copy(app_id, checkpoint):
    source = spark.readStream.format("commitlog").option("subscribe", "numbers")
    stream = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "60").load(log)
    writer = stream.writeStream.foreachBatch(commitlog_sink(topic="copies", log_dir=log, txnAppId=app_id, partitions=2))
    query = writer.option("checkpointLocation", str(Path(checkpoint).absolute())).trigger(availableNow=True).start()
    query.awaitTermination()

numbers = spark.range(100).selectExpr("cast(id as string) as key", "cast(id as string) as value")
commitlog_sink(topic="numbers", log_dir=log, txnAppId="numbers", partitions=2)(numbers, 0)
told["batch"] = read("numbers")
try:
    copy(None, "nameless")
except PySparkException as error:
    told["nameless"] = str(error)
copy("copies", "first")
Path("first/commits/1").unlink()  # as after a crash between the two commits
Path("first/commits/.1.crc").unlink()
copy("copies", "first")
told["stream"] = read("copies")
try:
    copy("copies", "second")
except PySparkException as error:
    told["second"] = str(error)
told["after"] = read("copies")
told["py4j"] = [name for name, module in sys.modules.items() if name.startswith("py4j") and module is not None]
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def connect() -> Iterator[str]:
    """The address of a Spark Connect server on loopback."""
    command = [sys.executable, "-c", BEGIN + SERVER]
    env = environment(SPARK_CONNECT_AUTHENTICATE_TOKEN=TOKEN, SPARK_TESTING="1")  # the latter takes a free port
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            port = next((line.split()[1] for line in server.stdout if line.startswith("port ")), None)
            assert port, "the server ended before it listened"
            yield f"sc://localhost:{port}/;token={TOKEN}"  # by this name a token is sent without TLS
        finally:
            server.communicate("")


@pytest.mark.only_all
def test_client_of_spark_connect_reads_and_writes_without_java(connect: str, tmp_path: Path) -> None:
    told = run(CLIENT, tmp_path, connect)
    assert told["py4j"] == []
    assert told["batch"] == list(range(100))
    assert told["stream"] == told["after"] == list(range(100))
    assert "a new checkpoint with an old txnAppId" in told["second"]
    assert "txnAppId must be given" in told["nameless"]
