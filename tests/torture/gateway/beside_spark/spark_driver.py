"""Spark's part: a query that writes to the topic, and two that read it, one at each isolation level.

``python -m tests.torture.gateway.beside_spark.spark_driver LOG HOME``: the log directory, and one for checkpoints and
for what was read, a file a micro-batch. Prints a line whenever the writing query has done something: how many numbers
are in the topic. After a line on its standard input it ends that query, reads the topic to its end, and ends.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from pyspark_commitlog import commitlog_sink
from pyspark_commitlog.storage import Isolation
from tests.support.spark import spark_jvm
from tests.torture.gateway.beside_spark.histories import COUNTED_EVERY, COUNTERS

TOPIC = "shared"
ROWS_A_BATCH = 40
TRIGGER = "1 second"
READ_AT_ONCE = 5000


class EndingError(Exception):
    """The query is to end, before the next micro-batch has begun to write."""


def write(spark: SparkSession, log: str, home: Path, ending: threading.Event) -> Any:
    """The query that writes numbers from 0 on, in one partition of Spark, so that they have an order."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS_A_BATCH).option("numPartitions", 1)
    numbers = source.load().selectExpr("value as n", "cast(value as string) as value")
    own = "concat('spark own ', value)"
    keys = f"if(n % {COUNTED_EVERY} = 0, array({own}, concat('spark counter ', n % {COUNTERS})), array({own}))"
    rows = numbers.selectExpr("explode(" + keys + ") as key", "value")
    sink = commitlog_sink(topic=TOPIC, log_dir=log, txnAppId="spark")

    def put(frame: DataFrame, batch_id: int) -> None:
        if ending.is_set():
            raise EndingError
        sink(frame, batch_id)

    writer = rows.writeStream.foreachBatch(put).option("checkpointLocation", str(home / "write"))
    return writer.trigger(processingTime=TRIGGER).start()


def read(spark: SparkSession, log: str, home: Path, isolation: Isolation) -> Any:
    """A query that keeps what it reads in files, each of which a repeated micro-batch writes again."""
    own = {"subscribe": TOPIC, "startingOffsets": "earliest", "isolation.level": isolation.value}
    own |= {"kafka.group.id": f"spark {isolation.value}", "maxOffsetsPerTrigger": str(READ_AT_ONCE)}
    stream = spark.readStream.format("commitlog").options(**own).load(log)
    rows = stream.selectExpr("partition", "offset", "cast(key as string) key", "cast(value as string) value")
    writer = rows.writeStream.foreachBatch(partial(keep, home / isolation.value))
    return (
        writer.option("checkpointLocation", str(home / f"read {isolation.value}"))
        .trigger(processingTime=TRIGGER)
        .start()
    )


def keep(directory: Path, frame: DataFrame, batch_id: int) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    found = sorted([row.partition, row.offset, row.key, row.value] for row in frame.collect())
    file = directory / f"{batch_id:09}"
    file.with_suffix(".tmp").write_text(json.dumps(found))
    file.with_suffix(".tmp").replace(file)


def tell(query: Any, ending: threading.Event) -> None:
    """Prints how many numbers are written, until the query has ended as it was told to."""
    told = -1
    while query.isActive:
        progress = query.lastProgress
        if progress is not None and progress["batchId"] != told and progress["sources"][0]["endOffset"]:
            told = progress["batchId"]
            print(json.loads(progress["sources"][0]["endOffset"])["offset"], flush=True)
        time.sleep(0.1)
    try:
        query.awaitTermination()
    except StreamingQueryException:
        if not ending.is_set():
            raise


def main(log: str, home: Path) -> None:
    own = spark_jvm.SMALL | {"spark.sql.warehouse.dir": str(home / "warehouse")}
    spark = SparkSession.builder.master("local[2]").config(map=own).getOrCreate()
    ending = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), ending.set()), daemon=True).start()
    readers = [read(spark, log, home, isolation) for isolation in Isolation]
    tell(write(spark, log, home, ending), ending)
    for reader in readers:
        reader.processAllAvailable()
        reader.stop()
    print("done", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
