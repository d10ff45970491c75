"""No secret of an object store is in what a whole application of Spark leaves: searched for in all of it.

The output of the driver and of executors, errors with their traces, plans, pages and REST answers of the UI, the
event log, the checkpoints, and what the log says of its writers: each is searched.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyspark
import pytest

from pyspark_commitlog.storage.bucket.loading import read_commit
from pyspark_commitlog.storage.bucket.root import open_root
from tests.support.spark import spark_jvm
from tests.support.stores import telltale
from tests.support.stores.seaweed import KEY, SECRET, SeaweedFS
from tests.support.stores.telltale import Telltale

pytestmark = [pytest.mark.slow, pytest.mark.only_all]

PROGRAM = """
import os, re, sys, traceback, urllib.request
from contextlib import contextmanager
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark_commitlog import commitlog_sink
from pyspark_commitlog.pipeline.job.session import WORKER_SETTINGS

url, work, must_fail = sys.argv[1], os.getcwd(), sys.argv[2] == "fails"
settings = {
    "spark.ui.port": "0", "spark.eventLog.enabled": "true", "spark.eventLog.compress": "false",
    "spark.eventLog.dir": f"file://{work}/events", "spark.sql.shuffle.partitions": "2", "spark.task.maxFailures": "1",
    "spark.python.authenticate.socketTimeout": "120s",
}
builder = SparkSession.builder.master("local-cluster[1,2,1024]").config(map=WORKER_SETTINGS | settings)
spark = builder.getOrCreate()

@contextmanager
def doing(what):
    failed = False
    try:
        yield
    except Exception:
        failed = True
        traceback.print_exc()
    assert failed == must_fail, what

def query(writer, name):
    started = writer.option("checkpointLocation", f"{work}/checkpoint-{name}").trigger(availableNow=True).start()
    try:
        started.awaitTermination()
    finally:
        print(started.lastProgress, started.status, started.exception(), flush=True)

def source(begin):
    return begin.format("commitlog").option("subscribe", "t").option("startingOffsets", "earliest").load(url)

Path("input").mkdir()
Path("input", "1").write_text("a\\nb\\n")
lines = spark.readStream.text(f"{work}/input")
with doing("df.write"):
    rows = spark.range(10).selectExpr("cast(id as string) as value")
    rows.write.format("commitlog").mode("append").option("topic", "t").save(url)
with doing("foreachBatch"):
    query(lines.writeStream.foreachBatch(commitlog_sink(topic="t", log_dir=url, txnAppId="sink")), "sink")
with doing("writeStream.format"):
    query(lines.writeStream.format("commitlog").option("path", url).option("topic", "t"), "format")
with doing("read"):
    frame = source(spark.read)
    frame.createOrReplaceTempView("records")
    found = spark.sql("select partition, count(*) as records from records where value is not null group by partition")
    found.explain(extended=True)
    print(found.collect(), frame.schema.json(), frame.inputFiles())
with doing("readStream"):
    query(source(spark.readStream).writeStream.format("noop"), "noop")

def text_of(address):
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            return answer.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        return error.read().decode(errors="replace")

ui = spark.sparkContext.uiWebUrl
api = f"/api/v1/applications/{spark.sparkContext.applicationId}"
waiting = ["/jobs/", f"{api}/environment", f"{api}/sql?details=true&length=1000", f"{api}/stages?withSummaries=true"]
waiting += [f"{api}/jobs", f"{api}/executors", f"{api}/executors/driver/threads", "/metrics/json/"]
seen, UNWANTED = [], ("/static/", "kill", "Sort=", "sort=", "desc=")  # the same tables in other orders
Path("pages").mkdir()
while waiting and len(seen) < 200:
    path = waiting.pop(0)
    if path in seen:
        continue
    seen.append(path)
    page = text_of(ui + path)
    Path("pages", str(len(seen))).write_text(path + "\\n" + page)
    links = re.findall(r'href="(/[^"]*)"', page)
    waiting += [each.replace("&amp;", "&") for each in links if not any(part in each for part in UNWANTED)]
print("pages", len(seen), sorted({each.split("?")[0] for each in seen}), flush=True)
spark.stop()
"""
LOG4J = """
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c: %m%n%ex
logger.sql.name = org.apache.spark.sql
logger.sql.level = debug
logger.python.name = org.apache.spark.api.python
logger.python.level = debug
logger.deploy.name = org.apache.spark.deploy
logger.deploy.level = debug
logger.executor.name = org.apache.spark.executor
logger.executor.level = debug
"""
# Where each kind of text must be, so that a search of nothing does not pass for one that found nothing.
LEFT = ["output", "errors", "events/*", "spark/work/*/*/stderr", "pages/*", "checkpoint-*/offsets/0"]


def application(work: Path, url: str, environment: Mapping[str, str], expected: str) -> None:
    """Runs the program on a cluster of this machine, with all that it leaves in ``work``."""
    for folder in ("conf", "events", "spark"):
        (work / folder).mkdir(parents=True)
    for each in ("bin", "jars", "python"):  # workers write beside them, to spark/work
        (work / "spark" / each).symlink_to(Path(pyspark.__path__[0], each))
    (work / "conf" / "log4j2.properties").write_text(LOG4J)
    (work / "conf" / "spark-defaults.conf").write_text(spark_jvm.DEFAULTS_LINES)
    kept = {name: value for name, value in os.environ.items() if "SPARK" not in name and not name.startswith("AWS_")}
    own = {"PYSPARK_PYTHON": sys.executable, "SPARK_CONF_DIR": f"{work}/conf", "SPARK_HOME": f"{work}/spark"}
    with (work / "output").open("wb") as output, (work / "errors").open("wb") as errors:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, url, expected],
            cwd=work,
            env=kept | spark_jvm.ENVIRONMENT | own | dict(environment),
            stdout=output,
            stderr=errors,
            check=False,
            timeout=480,
        )
    assert done.returncode == 0, (work / "errors").read_text(errors="replace")[-6000:]


def check(work: Path, secrets: Iterable[str]) -> None:
    files = [path for path in work.rglob("*") if path.is_file()]  # it follows no links to folders
    for pattern in LEFT:
        assert [path for path in work.glob(pattern) if path.stat().st_size], pattern
    assert len(list((work / "pages").iterdir())) > 10  # how many the interface has depends on the tries of each task
    for path in files:
        text = path.read_bytes()
        for secret in secrets:
            at = text.find(secret.encode())
            assert at < 0, f"{path.relative_to(work)}: {text[max(0, at - 300) : at + 100]!r}"


def test_an_application_that_writes_and_reads_shows_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    with SeaweedFS(tmp_path / "seaweed") as server:
        server.reach(monkeypatch)
        log = open_root(server.url, create=True, check=lambda _: [])
        application(work, server.url, server.environment(), "succeeds")
        commits = [read_commit(log.patient_store, number) for number in range(1, log.catch_up().number + 1)]
    assert len(commits) > 5
    assert SECRET not in repr(commits)
    assert KEY not in repr(commits)
    check(work, (SECRET, KEY))


def test_an_application_that_its_store_refuses_shows_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Telltale(403, "InvalidAccessKeyId") as server:
        telltale.reach(monkeypatch, server.port)
        given = {name: value for name, value in os.environ.items() if name.startswith(("AWS_", "COMMITLOG_"))}
        application(tmp_path / "work", "s3://logs/test", given, "fails")
        assert server.requests >= 5
    assert "(InvalidAccessKeyId)" in (tmp_path / "work" / "errors").read_text()
    check(tmp_path / "work", telltale.SHOWN)
