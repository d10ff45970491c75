"""Read a topic with Spark, compared with its Kafka source, Delta Lake and the floor; and ten records by ``read_table``.

The topic is in the directory of a running broker, so that ``format("kafka")`` and ``format("commitlog")`` read the very
same bytes: uncompressed batches of 16 KiB, as Kafka's producer makes them. The broker has the JVM options of its start
script. The floor is a Python data source that yields prepared batches. A tuned fetch is compared with ours tuned, whose
schema declares that nothing is null (docs/tuning.md); everything else is compared with our defaults.

Each timed long read follows one of its own kind: Kafka's source leaves buffers of its fetches to the garbage collector,
which would slow whatever comes next. The same queries run over ten records first. For the comparison with the floor
they are timed in several sessions, without a broker.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pyspark.sql import DataFrame, DataFrameReader, SparkSession, functions as F

from benchmarks.compaction import WarmBroker
from benchmarks.comparison import Comparison, Ratio, Setting
from benchmarks.floors import PARTITIONS
from benchmarks.limits import FLOOR
from benchmarks.rows import records
from benchmarks.sessions import closing_session, in_sessions, run_stream
from benchmarks.timing import (
    Seconds,
    alternate,
    alternate_told,
    run_often,
    seconds_in_turn,
    time_second_call,
)
from pyspark_commitlog import read_table
from pyspark_commitlog.storage import LogManager
from tests.support.kafka.broker import mount

ROWS = 2_000_000
TOPIC = "reading"
FIRST_MS = 1_700_000_000_000
ROWS_A_MS = 10  # of a partition
CONFIGS = {"max.message.bytes": str(16 * 2**10), "retention.ms": "-1"}  # the records have old timestamps
MICRO_BATCHES = 8
WARM_UP = 4  # rounds of the long reads until the JVM has compiled their code
WARM_UP_QUERIES = 50  # over ten records, of each kind
LOOKUP_ROUNDS = 5  # times the rounds of the long reads, and as many again to warm up

# The consumer settings that help Spark's Kafka source most, alone and together: fetches that hold many batches, and a
# short wait. Otherwise a fetch at the log's end occupies the connection for half a second, and the first request of the
# next task waits for it. Larger socket buffers, and more or fewer tasks, changed nothing.
TUNED = {
    "kafka.max.partition.fetch.bytes": str(16 * 2**20),
    "kafka.fetch.max.bytes": str(64 * 2**20),
    "kafka.max.poll.records": "50000",
    "kafka.fetch.max.wait.ms": "5",
}

# Ours, tuned: every record of the topic has a key and a value.
NOT_NULL = """key binary not null, value binary not null, topic string not null, partition int not null,
              offset bigint not null, timestamp timestamp not null, timestampType int not null"""

Peers = dict[str, Callable[[], object]]
Options = Mapping[str, str]
Run = Callable[[DataFrame], None]


class Lookup(NamedTuple):
    """Ten records in the middle of partition 0, and none of the other partitions."""

    offset: int
    timestamp_ms: int

    def by_offset(self) -> dict[str, str]:
        return {"startingOffsets": _bounds(self.offset), "endingOffsets": _bounds(self.offset + ROWS_A_MS)}

    def by_timestamp(self) -> dict[str, str]:
        return {
            "startingOffsetsByTimestamp": _bounds(self.timestamp_ms, rest=self.timestamp_ms),
            "endingOffsetsByTimestamp": _bounds(self.timestamp_ms + 1, rest=self.timestamp_ms),
        }


def _bounds(of_the_first: int, rest: int = 0) -> str:
    numbers = {str(number): rest for number in range(1, PARTITIONS)}
    return json.dumps({TOPIC: {"0": of_the_first, **numbers}})


@dataclass(frozen=True)
class Prepared:
    """A session and the topic; perhaps also a running broker on its directory, and a Delta table with the same rows."""

    spark: SparkSession
    directory: Path
    log_dir: str
    rows: int
    bootstrap: str = ""

    @property
    def lookup(self) -> Lookup:
        offset = self.rows // PARTITIONS // 2 // ROWS_A_MS * ROWS_A_MS
        return Lookup(offset, FIRST_MS + offset // ROWS_A_MS)

    def commitlog(self, options: Options) -> DataFrame:
        return self._commitlog(self.spark.read, options)

    def tuned(self, options: Options) -> DataFrame:
        return self._commitlog(self.spark.read.schema(NOT_NULL), options)

    def _commitlog(self, reader: DataFrameReader, options: Options) -> DataFrame:
        return reader.format("commitlog").option("subscribe", TOPIC).options(**options).load(self.log_dir)

    def kafka(self, options: Options) -> DataFrame:
        return self.spark.read.format("kafka").options(**self._for_kafka(options)).load()

    def stream(self, name: str, options: Options) -> DataFrame:
        reader = self.spark.readStream.format(name).options(**self._for_kafka(options))
        return reader.load() if name == "kafka" else reader.load(self.log_dir)

    def ready(self, rows: int, schema: str | None = None) -> DataFrame:
        """The floor. A ``schema`` may select other columns than the source's, or declare columns not null."""
        reader = self.spark.read if schema is None else self.spark.read.schema(schema)
        return reader.format("ready").option("rows", rows // PARTITIONS).load()

    def ready_stream(self, rows_per_trigger: int) -> DataFrame:
        sizes = {"rows": self.rows // PARTITIONS, "rowsPerTrigger": rows_per_trigger // PARTITIONS}
        return self.spark.readStream.format("ready").options(**sizes).load()

    def delta(self) -> DataFrame:
        return self.spark.read.format("delta").load(str(self.directory / "delta"))

    def _for_kafka(self, options: Options) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap, "subscribe": TOPIC, **options}


def measure(setting: Setting) -> Iterator[Comparison]:
    """Yield each comparison as soon as it is measured.

    With the broker, lookups come first: their many short queries make the JVM compile the code that plans any query.
    """
    write_topic(setting.directory / "source", setting.sized(ROWS))
    yield from beside_floor(setting)
    with prepared(setting) as topic:
        for part in (lookups, full_reads, one_column, streams):
            yield from part(topic, setting.rounds)


@contextmanager
def prepared(setting: Setting) -> Iterator[Prepared]:
    """Prepare the topic that ``write_topic`` has written, with a broker and a Delta table."""
    with closing_session() as spark, WarmBroker(setting.directory / "broker") as broker:
        broker.start(props={"log.retention.check.interval.ms": "3600000"})
        mount(broker, setting.directory / "source", {TOPIC: CONFIGS})
        log_dir, rows = str(broker.log_dir), setting.sized(ROWS)
        topic = Prepared(spark, setting.directory, log_dir, rows, broker.bootstrap)
        topic.commitlog({}).select("key", "value", "timestamp").write.format("delta").save(
            str(topic.directory / "delta")
        )
        yield topic


def write_topic(directory: Path, rows: int, configs: Mapping[str, str] | None = None) -> None:
    """Write the topic, with more ``configs``, in batches of 16 KiB."""
    each = rows // PARTITIONS
    with LogManager.open(str(directory), create=True) as manager:
        manager.create_topic(TOPIC, partitions=PARTITIONS, configs={**CONFIGS, **(configs or {})})
        for number in range(PARTITIONS):
            numbers = np.arange(each, dtype=np.int64)
            manager.open_log(TOPIC, number).append_records(records(numbers, FIRST_MS, seed=number), sync=False)


def full_reads(topic: Prepared, rounds: int) -> Iterator[Comparison]:
    """Read all columns, into an aggregate and into noop."""
    ten = topic.lookup.by_offset()
    for sink, run in SINKS.items():
        few = [partial(load, ten) for load in (topic.commitlog, topic.tuned, topic.kafka)]
        _warm_up(run, [*few, partial(topic.ready, PARTITIONS * ROWS_A_MS)])
        peers: Peers = {
            "ours": lambda run=run: run(topic.commitlog({})),
            "defaults": lambda run=run: run(topic.kafka({})),
            "ours, tuned": lambda run=run: run(topic.tuned({})),
            "tuned": lambda run=run: run(topic.kafka(TUNED)),
            "floor": lambda run=run: run(topic.ready(topic.rows)),
            "floor, tuned": lambda run=run: run(topic.ready(topic.rows, NOT_NULL)),
        }
        found = alternate_told(_second_calls(peers), rounds, WARM_UP)
        operation, against = f"read all columns into {sink}", "Spark's Kafka source"
        for name, ours, kafka, floor, asked, aim in (
            ("defaults", "ours", "defaults", "floor", 3, 4),
            ("tuned fetch", "ours, tuned", "tuned", "floor, tuned", 2, 2.5),
        ):
            work = {FLOOR: found[floor].median}
            yield Comparison(operation, f"{against}, {name}", found[ours], found[kafka], asked, aim, work=work)


def beside_floor(setting: Setting) -> Iterator[Comparison]:
    """Read all columns with defaults, compared with prepared batches."""
    found = in_sessions(_beside_floor, setting)
    for sink in SINKS:
        operation, floor = f"read all columns into {sink}", "floor: Python source with ready batches"
        yield Comparison(operation, floor, found[f"ours, {sink}"], found[f"floor, {sink}"], 1.15, 1.05, Ratio.SLOWER)


def _beside_floor(setting: Setting) -> Seconds:
    """Measure in one session."""
    found: Seconds = {}
    with closing_session() as spark:
        topic = Prepared(spark, setting.directory, str(setting.directory / "source"), setting.sized(ROWS))
        ten = topic.lookup.by_offset()
        for sink, run in SINKS.items():
            _warm_up(run, [partial(topic.commitlog, ten), partial(topic.ready, PARTITIONS * ROWS_A_MS)])
            peers: Peers = {
                f"ours, {sink}": lambda run=run: run(topic.commitlog({})),
                f"floor, {sink}": lambda run=run: run(topic.ready(topic.rows)),
            }
            found |= seconds_in_turn(_second_calls(peers), setting.rounds, WARM_UP)
    return found


def _warm_up(run: Run, loads: Iterable[Callable[[], DataFrame]]) -> None:
    run_often([lambda load=load: run(load()) for load in loads], WARM_UP_QUERIES)


def _second_calls(peers: Peers) -> dict[str, Callable[[], float]]:
    return {name: partial(time_second_call, run) for name, run in peers.items()}


def one_column(topic: Prepared, rounds: int) -> Iterator[Comparison]:
    peers: Peers = {
        "ours": lambda: drain(topic.commitlog({"columns": "value"})),
        "delta": lambda: drain(topic.delta().select("value")),
        "floor": lambda: drain(topic.ready(topic.rows, "value binary")),
    }
    found = alternate(peers, rounds)
    work = {FLOOR: found["floor"].median}
    yield Comparison("read value only", "Delta, the same column", found["ours"], found["delta"], 0.5, 0.8, work=work)


def streams(topic: Prepared, rounds: int) -> Iterator[Comparison]:
    each, numbers = topic.rows // MICRO_BATCHES, count()
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(each)}
    loads: dict[str, Callable[[], DataFrame]] = {
        "ours": partial(topic.stream, "commitlog", options),
        "kafka": partial(topic.stream, "kafka", options),
        "floor": partial(topic.ready_stream, each),
    }
    peers: Peers = {name: partial(_drain_stream, topic, name, load, numbers) for name, load in loads.items()}
    found = alternate(peers, rounds)
    operation, work = f"streaming read, {MICRO_BATCHES} micro-batches of {each:,}", {FLOOR: found["floor"].median}
    yield Comparison(operation, "Spark's Kafka source", found["ours"], found["kafka"], 1.3, 2, work=work)


def _drain_stream(topic: Prepared, name: str, load: Callable[[], DataFrame], numbers: Iterator[int]) -> None:
    rows = run_stream(load().writeStream.format("noop"), topic.directory / f"checkpoint-{next(numbers)}")
    if sum(rows) != topic.rows or len(rows) != MICRO_BATCHES:
        raise ValueError(f"{name}: micro-batches of {rows} rows")


def lookups(topic: Prepared, rounds: int) -> Iterator[Comparison]:
    """Look up ten records by offset and by timestamp, all in turn: they are small beside the machine's noise."""
    lookup = topic.lookup
    ways = {
        "offset": _looking_up(topic, lookup.by_offset(), by="offset", start=lookup.offset, length=ROWS_A_MS),
        "timestamp": _looking_up(topic, lookup.by_timestamp(), by="timestamp", start=lookup.timestamp_ms, length=1),
    }
    peers = {f"{by}, {name}": run for by, named in ways.items() for name, run in named.items()}
    found = alternate(peers, rounds * LOOKUP_ROUNDS, warm_up=rounds * LOOKUP_ROUNDS)
    against = "Spark's Kafka source"
    for by, asked, aim in (("offset", 1, 1.1), ("timestamp", 1.5, 2)):
        ours, kafka, table = (found[f"{by}, {name}"] for name in ("ours", "kafka", "table"))
        yield Comparison(f"ten records by {by}, through Spark", against, ours, kafka, asked, aim)
        yield Comparison(f"ten records by {by}, read_table", against, table, kafka, 20, 50)


def _looking_up(topic: Prepared, options: Options, *, by: str, start: int, length: int) -> Peers:
    table = partial(read_table, topic.log_dir, TOPIC, start=start, end=start + length, by=by, partition=0)
    return {
        "ours": lambda: _ten(topic.commitlog(options)),
        "kafka": lambda: _ten(topic.kafka(options)),
        "table": lambda: _check_ten(table().num_rows),
    }


def _ten(frame: DataFrame) -> None:
    _check_ten(len(frame.collect()))


def _check_ten(found: int) -> None:
    if found != ROWS_A_MS:
        raise ValueError(f"a lookup found {found} records, not {ROWS_A_MS}")


def aggregate(frame: DataFrame) -> None:
    """Aggregate all columns. No ``max`` of a string: Spark sorts for that, which takes as long as reading."""
    lengths = [F.sum(F.length(name)) for name in ("key", "value", "topic")]
    largest = [F.max(name) for name in ("partition", "offset", "timestamp", "timestampType")]
    frame.agg(F.count("*"), *lengths, *largest).collect()


def drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


SINKS: dict[str, Run] = {"an aggregate": aggregate, "noop": drain}
