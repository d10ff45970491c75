"""Write a topic with Spark, compared with its Kafka sink, Delta Lake and the floor.

The rows come from Parquet, with a key of 16 bytes and a value of 100 bytes of words. When a write of ours returns, the
rows are in the topic exactly once, synced and committed; the Kafka sink's are there at least once, acknowledged by a
broker that syncs nothing. The floor is a ``mapInArrow`` over the same columns that only counts. Tuned is compared with
tuned, and defaults with defaults; for ours, and for the floor, tuning is about how Spark passes small rows to Python
(docs/tuning.md). For the comparison with the floor they are timed in several sessions, without a broker.

Before each write the system's own writing is awaited, so that no peer pays for another's, and written files leave the
page cache: all peers together write as much as the machine has memory, and later ones would pay for freeing it. Then
the memory for the pages of new files is claimed back from the host: a virtual machine returns unused memory, and here
getting such a page costs twelve times as much as writing to it. The same writes first run many times with a few rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

from benchmarks.compaction import WarmBroker
from benchmarks.comparison import Comparison, Ratio, Setting
from benchmarks.floors import PARTITIONS, binary_array, count_rows
from benchmarks.limits import FLOOR
from benchmarks.logs import log_bytes
from benchmarks.rows import records
from benchmarks.sessions import closing_session, in_sessions, run_stream
from benchmarks.timing import Seconds, Timing, alternate_told, run_often, seconds_in_turn, time_call
from pyspark_commitlog import commitlog_sink
from tests.support.kafka.broker import Topic, create_topics
from tests.support.spark.settings import settings

FILES, ROWS_A_FILE = 8, 250_000
FEW_ROWS_A_FILE = 10
OPERATION = f"write {FILES * ROWS_A_FILE:,} rows into {PARTITIONS} partitions"
WARM_UP_WRITES = 50  # of a few rows, for each kind
NEW_FILES_BYTES = 512 * 2**20  # the most that one timed write creates
ZEROS = bytes(2**20)
CODECS = ("none", "lz4")
TUNED = {"kafka.batch.size": "1000000", "kafka.linger.ms": "20"}  # about the largest that a topic accepts, as ours are
DEFAULTS: dict[str, str] = {}
FLOOR_AS_IT_COMES = "floor: mapInArrow that counts, as it comes"
FLOOR_TUNED = "floor: mapInArrow that counts, tuned"
FLOOR_OF = {"ours as it comes, none": FLOOR_AS_IT_COMES, "ours, none": FLOOR_TUNED}
SMALL_ROWS = {  # Spark does not compute sizes; docs/tuning.md
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "8192",
}
# Files per micro-batch, and how many times the input is given.
STREAMS = {"8 micro-batches of 250,000": (1, 1), "4 micro-batches of 1,000,000": (4, 2)}
ASKED_OF_STREAMS = {
    "8 micro-batches of 250,000": (0.95, 1.2),
    "4 micro-batches of 1,000,000": (1.1, 1.4),
}  # and the aim

Peers = dict[str, Callable[[], object]]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A session and the rows to write."""

    spark: SparkSession
    directory: Path
    log: str  # the directory of topics
    numbers: Iterator[int]  # for everything that needs a name of its own
    source: str = "input"  # the folder of the rows

    @property
    def rows(self) -> DataFrame:
        return self.spark.read.parquet(str(self.directory / self.source))

    def tuned(self) -> AbstractContextManager[None]:
        """Pass rows to Python as docs/tuning.md advises for small ones."""
        return settings(self.spark, SMALL_ROWS)


@dataclass(frozen=True, kw_only=True)
class Prepared(Rows):
    """Also with a running broker."""

    broker: WarmBroker

    def stream(self, files: int, times: int) -> DataFrame:
        """A stream with this many files per micro-batch."""
        source = self.directory / f"input-{times}"
        return (
            self.spark.readStream.schema("key binary, value binary")
            .option("maxFilesPerTrigger", files)
            .parquet(str(source))
        )

    def kafka_options(self, codec: str, settings: dict[str, str]) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.broker.bootstrap,
            "kafka.acks": "all",
            "kafka.compression.type": codec,
            "topic": codec,
            **settings,
        }


def measure(setting: Setting) -> Iterator[Comparison]:
    """Yield each comparison as soon as it is measured."""
    write_input(setting.directory, setting.sized(ROWS_A_FILE))
    write_files(setting.directory / "input-few", FEW_ROWS_A_FILE)
    floors = in_sessions(_beside_floor, setting)
    yield from beside_floor(floors)
    with prepared(setting) as to_write:
        yield from batches(to_write, setting.rounds, {FLOOR: floors[FLOOR_TUNED].median})
        yield from sizes(to_write)
        yield from streams(to_write, setting.rounds)


@contextmanager
def prepared(setting: Setting) -> Iterator[Prepared]:
    with closing_session() as spark, WarmBroker(setting.directory / "broker") as broker:
        broker.start(props={"log.retention.check.interval.ms": "3600000"})
        create_topics(broker.bootstrap, {codec: Topic(PARTITIONS) for codec in CODECS})
        log = str(setting.directory / "log")
        yield Prepared(spark=spark, directory=setting.directory, log=log, numbers=count(), broker=broker)


def write_input(directory: Path, rows: int) -> None:
    """Write ``input``, and link the same files once (``input-1``) and twice (``input-2``) for streams."""
    files = write_files(directory / "input", rows)
    for name in ("input-1", "input-2"):
        (directory / name).mkdir()
    for file in files:
        for link in (f"input-1/{file.stem}", f"input-2/{file.stem}", f"input-2/{file.stem}-again"):
            os.link(file, directory / f"{link}.parquet")


def write_files(directory: Path, rows: int) -> list[Path]:
    """Write ``FILES`` new files of this many rows each."""
    directory.mkdir()
    files = [directory / f"{number}.parquet" for number in range(FILES)]
    for number, file in enumerate(files):
        table = records(np.arange(number * rows, (number + 1) * rows), seed=number)
        pq.write_table(
            pa.table({"key": binary_array(table.keys), "value": binary_array(table.values)}),
            file,
            compression="none",
            use_dictionary=False,
        )
    return files


# Batch


def beside_floor(found: dict[str, Timing]) -> Iterator[Comparison]:
    for ours, floor in FLOOR_OF.items():
        yield Comparison(OPERATION, floor, found[ours], found[floor], 1.3, 1.15, ratio=Ratio.SLOWER)


def _beside_floor(setting: Setting) -> Seconds:
    """Measure in one session, with a separate directory for topics.

    Each write takes turns with its own floor only: the time of a write depends on what ran before it, and with four in
    turn, the same one would always follow the other's floor.
    """
    found: Seconds = {}
    with closing_session() as spark, TemporaryDirectory(dir=setting.directory) as log:
        to_write = Rows(spark=spark, directory=setting.directory, log=log, numbers=count())
        run_often(_near(replace(to_write, source="input-few")).values(), WARM_UP_WRITES)
        timed = timed_writes(to_write, _near(to_write))
        for pair in FLOOR_OF.items():
            found |= seconds_in_turn({name: timed[name] for name in pair}, setting.rounds)
    return found


def _near(to_write: Rows) -> Peers:
    return {
        "ours as it comes, none": partial(_write_ours_as_it_comes, to_write, "none"),
        FLOOR_AS_IT_COMES: partial(_count_as_it_comes, to_write),
        "ours, none": partial(_write_ours, to_write, "none"),
        FLOOR_TUNED: partial(_count, to_write),
    }


def batches(to_write: Prepared, rounds: int, work: Mapping[str, float]) -> Iterator[Comparison]:
    """Compare single writes of all rows."""
    run_often(_peers(replace(to_write, source="input-few")).values(), WARM_UP_WRITES)
    found = _alternate(to_write, _peers(to_write), rounds)
    yield Comparison(OPERATION, "Delta, append", found["ours as it comes, none"], found["delta"], 1.3, 2, work=work)
    for codec in CODECS:
        told, tuned, defaults = f"{OPERATION}, {codec}", found[f"tuned, {codec}"], found[f"defaults, {codec}"]
        ours, as_it_comes = found[f"ours, {codec}"], found[f"ours as it comes, {codec}"]
        yield Comparison(told, "Spark's Kafka sink, tuned", ours, tuned, 1.1, 1.5, work=work)
        yield Comparison(told, "Spark's Kafka sink, defaults", as_it_comes, defaults, 1.4, 2, work=work)


def _peers(to_write: Prepared) -> Peers:
    peers: Peers = {"delta": partial(_write_delta, to_write)}
    for codec in CODECS:
        peers[f"ours, {codec}"] = partial(_write_ours, to_write, codec)
        peers[f"ours as it comes, {codec}"] = partial(_write_ours_as_it_comes, to_write, codec)
        peers[f"tuned, {codec}"] = partial(_write_kafka, to_write, codec, TUNED)
        peers[f"defaults, {codec}"] = partial(_write_kafka, to_write, codec, DEFAULTS)
    return peers


def _count(to_write: Rows) -> None:
    with to_write.tuned():
        _count_as_it_comes(to_write)


def _count_as_it_comes(to_write: Rows) -> None:
    count_rows(to_write.rows)


def _write_ours(to_write: Rows, codec: str) -> None:
    with to_write.tuned():
        _write_ours_as_it_comes(to_write, codec)


def _write_ours_as_it_comes(to_write: Rows, codec: str) -> None:
    commitlog_sink(
        topic=codec,
        log_dir=to_write.log,
        txnAppId=codec,
        partitions=PARTITIONS,
        producer={"compression.type": codec},
    )(to_write.rows, next(to_write.numbers))


def _write_kafka(to_write: Prepared, codec: str, settings: dict[str, str]) -> None:
    to_write.rows.write.format("kafka").options(**to_write.kafka_options(codec, settings)).save()


def _write_delta(to_write: Prepared) -> None:
    to_write.rows.write.format("delta").mode("append").save(str(to_write.directory / "delta"))


# Bytes


def sizes(to_write: Prepared) -> Iterator[Comparison]:
    """Compare the bytes that one write adds to the logs: ours, and the Kafka sink's with batches as large."""
    for codec in CODECS:
        ours = _grown(Path(to_write.log), codec, partial(_write_ours, to_write, codec))
        theirs = _grown(to_write.broker.log_dir, codec, partial(_write_kafka, to_write, codec, TUNED))
        yield Comparison(
            f"bytes of {FILES * ROWS_A_FILE:,} rows, {codec}",
            "Spark's Kafka sink, tuned",
            Timing.of([ours]),
            Timing.of([theirs]),
            1.02,
            ratio=Ratio.SLOWER,
            unit="bytes",
        )


def _grown(directory: Path, topic: str, write: Callable[[], object]) -> int:
    before = _topic_bytes(directory, topic)
    write()
    return _topic_bytes(directory, topic) - before


def _topic_bytes(directory: Path, topic: str) -> int:
    return sum(map(log_bytes, directory.glob(f"{topic}-[0-9]*")))


# Streams


def streams(to_write: Prepared, rounds: int) -> Iterator[Comparison]:
    for told, (files, times) in STREAMS.items():
        peers: Peers = {
            "ours": partial(_stream_ours, to_write, files, times),
            "kafka": partial(_stream_kafka, to_write, files, times),
            "floor": partial(_stream_floor, to_write, files, times),
        }
        found = _alternate(to_write, peers, rounds)
        work = {FLOOR: found["floor"].median}
        asked, aim = ASKED_OF_STREAMS[told]
        operation, against = f"streaming write, {told}", "Spark's Kafka sink, tuned"
        yield Comparison(operation, against, found["ours"], found["kafka"], asked, aim, work=work)


def _stream_ours(to_write: Prepared, files: int, times: int) -> None:
    _for_each_batch(to_write, files, times, commitlog_sink(topic="stream", log_dir=to_write.log, partitions=PARTITIONS))


def _stream_floor(to_write: Prepared, files: int, times: int) -> None:
    _for_each_batch(to_write, files, times, count_rows)


def _for_each_batch(to_write: Prepared, files: int, times: int, write: Callable[[DataFrame, int], object]) -> None:
    with to_write.tuned():
        _finish(to_write, to_write.stream(files, times).writeStream.foreachBatch(write), FILES * times // files)


def _stream_kafka(to_write: Prepared, files: int, times: int) -> None:
    options = to_write.kafka_options("none", TUNED)
    writer = to_write.stream(files, times).writeStream.format("kafka").options(**options)
    _finish(to_write, writer, FILES * times // files)


def _finish(to_write: Prepared, writer: DataStreamWriter, micro_batches: int) -> None:
    rows = run_stream(writer, to_write.directory / f"checkpoint-{next(to_write.numbers)}")
    if len(rows) != micro_batches:
        raise ValueError(f"got micro-batches of {rows} rows, expected {micro_batches}")


def _alternate(to_write: Prepared, peers: Peers, rounds: int) -> dict[str, Timing]:
    return alternate_told(timed_writes(to_write, peers), rounds)


def timed_writes(to_write: Rows, peers: Peers) -> dict[str, Callable[[], float]]:
    """Peers that write, as calls that return their seconds; what the machine writes beside them is awaited first."""
    return {name: partial(_time_write, to_write.directory, run) for name, run in peers.items()}


def _time_write(directory: Path, run: Callable[[], object]) -> float:
    os.sync()
    _leave_page_cache(directory)
    scratch = directory / "scratch"
    with scratch.open("wb") as file:
        for _ in range(NEW_FILES_BYTES // len(ZEROS)):
            file.write(ZEROS)
    scratch.unlink()
    return time_call(run)


def _leave_page_cache(directory: Path) -> None:
    """Drop all written and synced files from the page cache, but keep the input."""
    for folder, _, files in os.walk(directory):
        if not Path(folder).name.startswith("input"):
            for name in files:
                with suppress(FileNotFoundError), Path(folder, name).open("rb") as file:  # a broker removes files
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
