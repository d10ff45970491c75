"""Read a topic from its tier on versitygw, compared with Spark's Kafka source at a broker that serves it from there.

The topic, uncompressed batches of 16 KiB, is published to the tier of a broker, which keeps no record of it elsewhere.
The tier is a directory: the broker, with Kafka's ``LocalTieredStorage``, reads it from there, which costs it nothing;
ours reads it by S3 from versitygw, which serves the same directory. Both are on this machine and share its cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.bucket_servers import BUCKET, reach
from benchmarks.compaction import WarmBroker
from benchmarks.comparison import Comparison, Setting
from benchmarks.floors import PARTITIONS
from benchmarks.reading import ROWS, SINKS, TOPIC, TUNED, write_topic
from benchmarks.sessions import closing_session, in_own_process
from benchmarks.timing import Timing, alternate_told, time_second_call
from pyspark_commitlog.mirror.brokers.cluster import Cluster
from pyspark_commitlog.mirror.tiers.publishing import publish_topic
from pyspark_commitlog.storage import LogManager, open_objects, prepare_directory
from tests.support.kafka import tiered
from tests.support.stores.versity import VersityGateway

FOLDER = "tier"
WARM_UP = 2
SEGMENT_BYTES = 64 << 20


def measure(setting: Setting) -> Iterator[Comparison]:
    """Yield each comparison as soon as it is measured."""
    rows = setting.sized(ROWS)
    found = in_own_process(_measured, setting, rows)
    for sink in SINKS:
        operation = f"read {rows:,} rows of {PARTITIONS} partitions from a tier into {sink}"
        for name, asked in (("defaults", 2), ("tuned fetch", None)):
            against = f"Spark's Kafka source at a broker with that tier, {name}"
            yield Comparison(operation, against, found[f"ours, {sink}"], found[f"{name}, {sink}"], asked)


def _measured(setting: Setting, rows: int) -> dict[str, Timing]:
    """Measure in a process that has no session yet."""
    source = setting.directory / "source"
    write_topic(source, rows, {"segment.bytes": str(SEGMENT_BYTES)})
    with VersityGateway(setting.directory / "store") as store:
        reach(store.port)
        tier = store.home / "buckets" / BUCKET / FOLDER
        with _served(setting.directory / "broker", source, tier) as bootstrap, closing_session() as spark:
            kafka = {"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC}
            loads = {
                "ours": partial(_from_tier, spark),
                "defaults": partial(_from_broker, spark, kafka),
                "tuned fetch": partial(_from_broker, spark, {**kafka, **TUNED}),
            }
            assert {load().count() for load in loads.values()} == {rows}
            runs = {
                f"{name}, {sink}": partial(time_second_call, lambda run=run, load=load: run(load()))
                for sink, run in SINKS.items()
                for name, load in loads.items()
            }
            return alternate_told(runs, setting.rounds, WARM_UP)


@contextmanager
def _served(home: Path, source: Path, tier: Path) -> Iterator[str]:
    """The address of a broker that serves the topic from its tier, and has nothing of it on its own disk."""
    with WarmBroker(home, more_jars=tiered.jars_of_tests()) as broker, LogManager.open(str(source)) as manager:
        rarely = {"remote.log.manager.task.interval.ms": "30000", "log.retention.check.interval.ms": "3600000"}
        broker.start(props={**tiered.properties(tier), **rarely})
        cluster = Cluster.parse(broker.bootstrap, {})
        publish_topic(manager, TOPIC, open_objects(str(tier)), cluster, {"local.retention.bytes": "1"})
        broker.stop()
        with LogManager.open(str(broker.log_dir)) as of_broker:
            list(prepare_directory(of_broker, [TOPIC]))
        broker.start()
        yield broker.bootstrap


def _from_tier(spark: SparkSession) -> DataFrame:
    reader = spark.read.format("commitlog").option("subscribe", TOPIC)
    return reader.option("tier", f"s3://{BUCKET}/{FOLDER}").load()


def _from_broker(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    return spark.read.format("kafka").options(**options).load()
