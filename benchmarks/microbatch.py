"""The fixed cost of a micro-batch: through the sink, which commits four partitions, compared with the floor.

One query runs both in turn: its ``foreachBatch`` function passes a micro-batch to the sink, and the next one to a
``mapInArrow`` that only counts. Only that function is timed; the rest is the same for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, functions as F

from benchmarks.comparison import Comparison, Ratio, Setting
from benchmarks.floors import PARTITIONS, count_rows
from benchmarks.limits import FLOOR
from benchmarks.timing import Timing, time_call
from pyspark_commitlog import commitlog_sink, spark_session

ROWS = 1_000  # of a micro-batch
MICRO_BATCHES = 40  # of each kind per requested round: a shared machine is slow for seconds, then fast again
WARM_UP = 20  # micro-batches of each kind that do not count

Write = Callable[[DataFrame, int], object]


def measure(setting: Setting) -> Iterator[Comparison]:
    spark = spark_session("microbatch", master="local[2]", settings={"spark.ui.enabled": "false"})
    try:
        sink = commitlog_sink(topic="bench", log_dir=str(setting.directory / "log"), partitions=PARTITIONS)
        found = in_turn(spark, setting.directory, {"ours": sink, "floor": count_rows}, setting.rounds * MICRO_BATCHES)
    finally:
        spark.stop()
    yield Comparison(
        f"micro-batch of {ROWS:,} rows, committed in {PARTITIONS} partitions",
        "floor: foreachBatch with a mapInArrow that counts",
        found["ours"],
        found["floor"],
        60,
        20,
        ratio=Ratio.EXTRA_MS,
        work={FLOOR: found["floor"].median},
    )


def in_turn(
    spark: SparkSession, directory: Path, writers: Mapping[str, Write], rounds: int, warm_up: int = WARM_UP
) -> dict[str, Timing]:
    """The timing of each writer; the micro-batches of one query go to the writers in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in writers}
    names = list(writers)

    def write(frame: DataFrame, batch_id: int) -> None:
        name = names[batch_id % len(names)]
        seconds[name].append(time_call(partial(writers[name], frame, batch_id)))

    query = (
        _rows(spark)
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    while query.isActive and min(map(len, seconds.values())) < warm_up + rounds:
        query.awaitTermination(1)
    query.stop()
    return {name: Timing.of(each[warm_up : warm_up + rounds]) for name, each in seconds.items()}


def _rows(spark: SparkSession) -> DataFrame:
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load()
    number = F.col("value").cast("string")
    return rows.select(F.lpad(number, 16, "0").alias("key"), F.rpad(number, 100, ".").alias("value"))
