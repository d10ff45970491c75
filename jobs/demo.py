"""``make demo``: writes the flights of 2013 to a topic with the job ``ingest.py``, reads them back and compares."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rich.console import Console

from pyspark_commitlog.pipeline.demo import flights
from pyspark_commitlog.pipeline.demo.steps import (
    JAVA_OPTIONS,
    NEXT,
    show_comparison,
    show_partitions,
    stderr_to,
    submit,
)
from pyspark_commitlog.pipeline.job.session import Settings, spark_session

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / "conf/local.toml"
INPUT = Path("data/flights")
SPARK_LOG = Path("data/demo-spark.log")


def main() -> int:
    console = Console(highlight=False, soft_wrap=True)
    settings = Settings.load(CONFIG)
    console.print("A topic is a log in partitions: rows are only added at the end, and each has an offset, its number.")
    console.print(f"\n[bold]1. Input[/]: 336,776 flights that left New York in 2013, one file per month, in {INPUT}")
    flights.split_by_month(INPUT)
    with SPARK_LOG.open("w") as errors:
        console.print(f"\n[bold]2. Write[/]: spark-submit jobs/ingest.py, into topic flights in {settings.log_dir}")
        code = submit([ROOT / "jobs/ingest.py", "--config", CONFIG], ROOT / "conf", errors)
        if code:
            console.print(f"The job ended with exit code {code}; see {SPARK_LOG}. The next make demo resumes here.")
            return code
        console.print('\n[bold]3. Read back[/]: spark.read.format("commitlog").option("subscribe", "flights")')
        os.environ["SPARK_CONF_DIR"] = str(ROOT / "conf")
        with stderr_to(errors):
            spark = spark_session("demo", settings={"spark.driver.extraJavaOptions": JAVA_OPTIONS})
        topic = spark.read.format("commitlog").option("subscribe", "flights").load(settings.log_dir)
        show_partitions(console, "flights", topic, settings.log_dir)
        found = flights.compare(flights.read(spark, INPUT), topic)
        show_comparison(console, found)
        spark.stop()
    console.print(f"\n{NEXT}", markup=False)
    return 0 if found.same else 1


if __name__ == "__main__":
    sys.exit(main())
