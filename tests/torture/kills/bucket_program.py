"""A query from text files to a log on an object store, run under spark-submit to be killed.

Arguments: the URL, the folder of the input, that of the checkpoint, and whether foreachBatch or the format writes.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from pyspark_commitlog import commitlog_sink

TOPIC, PARTITIONS = "flights", 4
DONE = "Every file is in the topic."


def main(url: str, folder: str, checkpoint: str, how: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(folder).repartition(3)
    writer = lines.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    if how == "foreachBatch":
        sink = commitlog_sink(topic=TOPIC, log_dir=url, partitions=PARTITIONS)

        def write(frame: DataFrame, batch: int) -> None:
            sink(frame, batch)
            print(batch, flush=True)

        writer.foreachBatch(write).start().awaitTermination()
    else:
        options = {"path": url, "topic": TOPIC, "partitions": PARTITIONS}
        tell_progress(writer.format("commitlog").options(**options).start())
    print(DONE, flush=True)


def tell_progress(query: StreamingQuery) -> None:
    told = -1
    while not query.awaitTermination(0.2):
        progress = query.lastProgress
        if progress is not None and progress["batchId"] > told:
            told = progress["batchId"]
            print(told, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
