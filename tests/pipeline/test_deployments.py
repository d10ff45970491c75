"""The source and the sink where Spark is not one process: executors of their own, and a server that is talked to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TOKEN = "of-these-tests"
# A program that prints one line of JSON at its end; what it is about lies in its working directory.
BEGIN = """
import json, sys
from pathlib import Path
"""


def environment(**more: str) -> dict[str, str]:
    """Ours, without what sets Spark up, and with the workers' Python."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    return kept | {"PYSPARK_PYTHON": sys.executable, **more}


def run(program: str, directory: Path, *arguments: str) -> Any:
    """What ``program``, run in ``directory``, tells as JSON in its last line."""
    command = [sys.executable, "-c", BEGIN + program, *arguments]
    done = subprocess.run(
        command, cwd=directory, env=environment(), capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return json.loads(done.stdout.splitlines()[-1])


ON_A_CLUSTER = """
from pyspark.sql import SparkSession
from pyspark_commitlog import commitlog_sink

spark = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false").getOrCreate()
numbers = spark.range(0, 1000, 1, 8).selectExpr("cast(id as string) as key", "cast(id as string) as value")
write = commitlog_sink(topic="numbers", log_dir="log", txnAppId="numbers", partitions=3)
written, again = write(numbers, 0), write(numbers, 0)
read = spark.read.format("commitlog").option("subscribe", "numbers").load("log")
found = [int(row.number) for row in read.selectExpr("cast(value as string) as number").collect()]
stream = spark.readStream.format("commitlog").option("subscribe", "numbers").option("startingOffsets", "earliest")
streamed = []
query = stream.load("log").writeStream.foreachBatch(lambda frame, _: streamed.append(frame.count()))
query.option("checkpointLocation", "checkpoint").trigger(availableNow=True).start().awaitTermination()
executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
spark.stop()
print(json.dumps({
    "found": sorted(found), "written": sum(each.records for each in written), "again": len(again),
    "streamed": sum(streamed), "executors": executors,
}))
"""


def test_executors_in_processes_of_their_own_write_to_one_log_and_read_it(tmp_path: Path) -> None:
    told = run(ON_A_CLUSTER, tmp_path)
    assert told["executors"] == 2
    assert (told["written"], told["again"], told["streamed"]) == (1000, 0, 1000)
    assert told["found"] == list(range(1000))


SERVER = """
from pyspark import SparkContext
from pyspark.sql import SparkSession

patient = "spark.python.authenticate.socketTimeout"  # 15 s are not enough where many tests run
spark = SparkSession.builder.remote("local[2]").config(patient, "120s").getOrCreate()
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
copy("copies", "second")
told["stream"] = read("copies")
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


def test_client_of_spark_connect_reads_and_writes_without_java_beside_it(connect: str, tmp_path: Path) -> None:
    told = run(CLIENT, tmp_path, connect)
    assert told["py4j"] == []
    assert told["batch"] == list(range(100))
    assert told["stream"] == list(range(100))
    assert "txnAppId must be given" in told["nameless"]
