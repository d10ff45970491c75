"""Kill the job that exports, in both directions, and look that the topic it ends in is the topic it began with.

Topic to Delta table to topic: drivers and workers are killed at random, and the job is started again until it is done.
Then each partition must hold the same keys, values, times and headers in the same order, each record once. Kills come
at random times, so the same seed chooses the same kinds of kills, not the same instants.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from pyspark_commitlog.storage import BinaryColumn, HeadersColumn, Isolation, LogManager, Records
from tests.support.logs.building import NOW_MS
from tests.support.logs.directories import directory_with_internal_topics
from tests.support.spark.delta_jars import delta_settings
from tests.torture.kills.ingest import Job
from tests.torture.kills.spark import MASTERS, Tally, harass
from tests.torture.suite import Run, Suite

SOURCE = "source"
PARTITIONS = 3
RECORDS = 3000
MICRO_BATCH = 300  # records to the table; back, files of three such batches make one
DONE = "was copied."  # all, or all that is new
Row = tuple[int, bytes | None, bytes | None, tuple[tuple[bytes | None, bytes | None], ...]]


@dataclass(frozen=True)
class Trip:
    """A topic, the table that it becomes, and the topic that this becomes."""

    path: Path
    round: int = 0

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def target(self) -> str:
        return f"target-{self.round}"

    def arguments(self, direction: str) -> list[str]:
        common = [direction, "--log-dir", "log", "--table", f"table-{self.round}"]
        common += ["--checkpoint", f"{direction}-{self.round}"]
        if direction == "to-table":
            return [*common, "--topic", SOURCE, "--max-offsets-per-trigger", str(MICRO_BATCH)]
        return [
            *(*common, "--topic", self.target, "--partitions", str(PARTITIONS), "--keep-partitions"),
            *("--starting-version", "0", "--max-files-per-trigger", str(3 * PARTITIONS)),
        ]


def write_source(trip: Trip, count: int) -> None:
    """Some records have no key, some no value, some headers."""
    directory_with_internal_topics(trip.log, partitions=2)
    with LogManager.open(str(trip.log)) as manager:
        manager.create_topic(SOURCE, partitions=PARTITIONS, configs={"retention.ms": "-1"})
        for number in range(PARTITIONS):
            for first in range(0, count, PARTITIONS * 100):
                manager.open_log(SOURCE, number).append_records(
                    _records(range(first + number, first + 300, PARTITIONS))
                )


def _records(numbers: range) -> Records:
    count = len(numbers)
    traced = [b"%d" % n for n in numbers if n % 4 == 0]
    return Records(
        offsets=np.arange(count, dtype=np.int64),
        timestamps=np.array([NOW_MS + n for n in numbers], dtype=np.int64),
        timestamp_types=np.zeros(count, dtype=np.int8),
        keys=BinaryColumn.from_list([None if n % 11 == 0 else b"key %d" % (n % 50) for n in numbers]),
        values=BinaryColumn.from_list([None if n % 7 == 0 else b"value %d" % n for n in numbers]),
        headers=HeadersColumn(
            np.cumsum([0, *(n % 4 == 0 for n in numbers)]).astype(np.int32),
            BinaryColumn.from_list([b"trace"] * len(traced)),
            BinaryColumn.from_list(list(traced)),
        ),
    )


def rows(trip: Trip, topic: str) -> list[list[Row]]:
    """What a reader of committed records sees, by partition."""
    with LogManager.open(str(trip.log)) as manager:
        return [list(_partition(manager, topic, number)) for number in manager.topic(topic).partitions]


def _partition(manager: LogManager, topic: str, number: int) -> Iterator[Row]:
    reader = manager.open_reader(topic, number)
    end = reader.end_offset(Isolation.READ_COMMITTED)
    for piece in reader.records(reader.log_start_offset, end):
        assert piece.keys is not None
        assert piece.values is not None
        headers = [()] * len(piece) if piece.headers is None else list(_headers(piece.headers))
        yield from zip(piece.timestamps.tolist(), piece.keys.to_list(), piece.values.to_list(), headers, strict=True)


def _headers(column: HeadersColumn) -> Iterator[tuple[tuple[bytes | None, bytes | None], ...]]:
    pairs = list(zip(column.keys.to_list(), column.values.to_list(), strict=True))
    for first, last in pairwise(column.offsets.tolist()):
        yield tuple(pairs[first:last])


def torture(
    path: Path,
    kills: int,
    seed: int,
    *,
    records: int = RECORDS,
    tell: Callable[[str], None] = print,
    ends_s: float = float("inf"),
) -> Tally:
    """Kill ``kills`` times, or until ``time.monotonic()`` is ``ends_s``; a trip that was begun is ended and compared.

    Raises AssertionError where the topics differ, or a query failed that nobody touched.
    """
    chance, tally, trip = random.Random(seed), Tally(), Trip(path)
    write_source(trip, records)
    expected = rows(trip, SOURCE)
    while tally.rounds == 0 or (tally.total < kills and time.monotonic() < ends_s):
        for direction in ("to-table", "to-topic"):
            _run(trip, direction, chance, tally, kills if time.monotonic() < ends_s else 0)
            tell(f"{tally.total} kills, {tally.runs} runs, {tally.rounds} rounds: {tally.kills}")
        found = rows(trip, trip.target)
        assert found == expected, f"round {trip.round}: {_differences(found, expected)}"
        tally.rounds += 1
        tally.rows += sum(map(len, found))
        tell(f"round {trip.round}, {tally.total} kills: {tally.rows:,} records went there and back, each once")
        trip = Trip(path, trip.round + 1)
    return tally


def _run(trip: Trip, direction: str, chance: random.Random, tally: Tally, kills: int) -> None:
    """One direction to its end, however often it is started."""
    while True:
        settings = delta_settings()
        master = chance.choice(MASTERS)
        job = Job(trip.path, master, "export.py", *trip.arguments(direction), done=DONE, settings=settings)
        tally.runs += 1
        before = tally.total
        if tally.total < kills:
            harass(job, chance, tally, kills)
        if job.finished:
            return
        if job.process.returncode > 0:
            assert tally.total > before, f"a query failed that nobody touched:\n{job.errors.read_text()[-8000:]}"
            tally.failed += 1


def _differences(found: list[list[Row]], expected: list[list[Row]]) -> str:
    """How many records each partition has, and the first of it that differ."""
    pairs = zip(found, expected, strict=True)
    firsts = [next((two for two in zip(a, b, strict=False) if two[0] != two[1]), None) for a, b in pairs]
    return f"{[*map(len, found)]} records for {[*map(len, expected)]}; the first that differ: {firsts}"


def run(run: Run) -> None:
    with run.watching(run.case(run.first)):
        ends_s = run.started_s + 60 * run.minutes
        tally = torture(run.directory, run.count, run.seed, tell=run.tell, ends_s=ends_s)
        run.passed(tally.total)
        run.note("rounds", tally.rounds)
        run.note("records", tally.rows)


SUITE = Suite("kills", 20, run)
