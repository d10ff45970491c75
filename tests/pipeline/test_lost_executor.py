"""An executor that is lost while a batch is written."""

from __future__ import annotations

from pathlib import Path

from tests.pipeline.test_deployments import run
from tests.support.log_directories import directory_with_internal_topics

# One task in a batch kills the JVM of its executor, once, when records of the batch lie in the log.
LOSING_AN_EXECUTOR = """
import os, signal, time
from pyspark.sql import SparkSession
from pyspark_commitlog import commitlog_sink
from pyspark_commitlog.pipeline.session import WORKER_SETTINGS

def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])

def lose_executor(batches):
    for batch in batches:
        yield batch
        if any(log.stat().st_size for log in Path(directory).glob("log/numbers-*/*.log")):
            try:
                os.close(os.open(f"{directory}/lost", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            os.kill(parent_of(os.getppid()), signal.SIGKILL)

directory = os.getcwd()
settings = WORKER_SETTINGS | {"spark.ui.enabled": "false", "spark.sql.execution.arrow.maxRecordsPerBatch": "500"}
spark = SparkSession.builder.master("local-cluster[2,1,1024]").config(map=settings).getOrCreate()
numbers = spark.range(0, 100_000, 1, 4).selectExpr("cast(id as string) as value")
write = commitlog_sink(topic="numbers", log_dir="log", txnAppId="numbers", partitions=3)
written = write(numbers.mapInArrow(lose_executor, numbers.schema), 0)

def read(isolation):
    frame = spark.read.format("commitlog").option("subscribe", "numbers").option("isolation.level", isolation)
    return sorted(int(bytes(row.value)) for row in frame.load("log").select("value").collect())

found = read("read_committed")
told = {
    "lost": os.path.exists("lost"), "written": sum(each.records for each in written),
    "once": found == list(range(100_000)), "found": len(found), "with_aborted": len(read("read_uncommitted")),
}
spark.stop()
print(json.dumps(told))
"""


def test_executor_lost_while_a_batch_is_written_costs_an_attempt_and_no_row(tmp_path: Path) -> None:
    directory_with_internal_topics(tmp_path / "log")
    told = run(LOSING_AN_EXECUTOR, tmp_path)
    assert told["lost"]
    assert (told["written"], told["found"], told["once"]) == (100_000, 100_000, True)
    assert told["with_aborted"] > 100_000
