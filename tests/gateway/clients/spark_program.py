"""Spark's ``format("kafka")`` against a server of Kafka's protocol: ADDRESS DIRECTORY LOG. The topics are there.

Batch and stream, to and from, with options that ask for offsets by time, a group's name and committed records. Then our
sink writes to the server's ``LOG`` beside it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from pyspark_commitlog import commitlog_sink
from tests.support.spark import spark_jvm
from tests.support.spark.connector import connector_jars

COUNT = 100


def main(servers: str, directory: Path, log: str) -> None:
    own = spark_jvm.SMALL | {"spark.jars": connector_jars(), "spark.sql.warehouse.dir": str(directory / "warehouse")}
    spark = SparkSession.builder.master("local[2]").config(map=own).getOrCreate()
    sink = {"kafka.bootstrap.servers": servers, "kafka.request.timeout.ms": "60000"}
    numbers = spark.range(COUNT).selectExpr("cast(id as string) as key", "cast(id as string) as value")
    numbers.write.format("kafka").options(**sink).option("topic", "in").save()
    source = {"kafka.bootstrap.servers": servers, "kafka.isolation.level": "read_committed"}

    def read(**options: str) -> DataFrame:
        return spark.read.format("kafka").options(**source, **options).load()

    check(read(subscribe="in"))
    check(read(subscribePattern="i.", startingOffsetsByTimestamp=json.dumps({"in": {"0": 1, "1": 1}})))

    def copy(name: str) -> None:
        stream = spark.readStream.format("kafka").options(**source).option("subscribe", "in")
        stream = stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "40")
        writer = stream.option("groupIdPrefix", "copy").load().writeStream.format("kafka").options(**sink)
        writer = writer.option("topic", "out").option("checkpointLocation", str(directory / name))
        writer.trigger(availableNow=True).start().awaitTermination()

    copy("checkpoint")
    check(read(subscribe="out"))
    copy("checkpoint")  # has nothing to do
    check(read(subscribe="out"))

    def copy_beside() -> None:
        stream = spark.readStream.format("kafka").options(**source).option("subscribe", "in")
        stream = stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "40").load()
        sink = commitlog_sink(topic="kept", log_dir=log, txnAppId="beside")
        writer = stream.select("key", "value").writeStream.foreachBatch(sink)
        writer = writer.option("checkpointLocation", str(directory / "beside"))
        writer.trigger(availableNow=True).start().awaitTermination()

    copy_beside()
    copy_beside()
    check(read(subscribe="kept"))
    spark.stop()
    print("done")


def check(frame: DataFrame) -> None:
    found = sorted(int(row.value) for row in frame.selectExpr("cast(value as string)").collect())
    assert found == list(range(COUNT)), found


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
