"""The time to find the records with a key, by key filters and by a full scan of the same log.

1 GB in 1,000 closed segments of one partition: 16-byte keys, 100-byte values, no key twice but one, which is in three
segments. Everything is in the page cache. A search opens the directory, as the command does. The time to make the
filters is compared with that of a compaction that reads all segments and keeps every record.

A condition in SQL on JSON values is compared with duckdb over the same rows in Parquet, of the same codec, plus the
time in which we read the log: what the search may add to both is small.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
from pyarrow import parquet

from benchmarks.comparison import Comparison, Setting
from benchmarks.timing import Timing, alternate, time_call
from pyspark_commitlog import read_table
from pyspark_commitlog.arrow.sql import RecordQuery
from pyspark_commitlog.storage import (
    Condition,
    LogManager,
    MaintenanceRun,
    Records,
    Search,
    compact_partitions,
    filter_partitions,
    in_this_process,
    select_partitions,
)
from pyspark_commitlog.storage.format.tables import BinaryColumn

LOG_BYTES, SEGMENTS = 1_000_000_000, 1_000
KEY_BYTES, VALUE_BYTES = 16, 100
RECORD_BYTES = 128  # about what a record takes in a batch
THRICE, ABSENT = b"in three of them", b"in none of them."
ROWS = 1_000_000
DEST = "json->>'$.dest' = 'D7'"
IN_PARQUET = """
WITH records AS (SELECT *, TRY_CAST(TRY(decode(value)) AS JSON) AS json FROM read_parquet($file))
SELECT "offset", json->>'$.order' AS n FROM records WHERE {where}
"""
ON, OFF = {"keyfilter.enable": "true"}, {"keyfilter.enable": "false"}


def measure(setting: Setting) -> Iterator[Comparison]:
    directory = setting.directory / "log"
    write(directory, setting.sized(LOG_BYTES))
    filters = _making(directory, setting.rounds)
    for key, found, asked in ((THRICE, 3, 20), (ABSENT, 0, 50)):
        peers = {
            "ours": partial(search, directory, key, found, ON),
            "scan": partial(search, directory, key, found, OFF),
        }
        timings = alternate(peers, setting.rounds)
        what = f"find a key that is in {found} of {SEGMENTS:,} segments"
        yield Comparison(what, "a full scan", timings["ours"], timings["scan"], asked=asked)
    compaction = Timing.of([time_call(partial(compact, directory))])
    yield Comparison(f"make key filters of {SEGMENTS:,} segments", "a compaction", filters, compaction, asked=10)
    shutil.rmtree(directory)
    yield _by_sql(setting)


def write(directory: Path, log_bytes: int) -> None:
    count = log_bytes // RECORD_BYTES // SEGMENTS
    with LogManager.open(str(directory), create=True, overrides={}) as manager:
        manager.create_topic("t", partitions=1, configs={"cleanup.policy": "compact", **ON})
        log = manager.open_log("t", 0)
        for number in range(SEGMENTS):
            log.append_records(_records(number, count), sync=False)
            log.roll()


def _records(number: int, count: int) -> Records:
    keys = np.char.mod("%016d", np.arange(number * count, (number + 1) * count)).astype(f"S{KEY_BYTES}")
    if number in (SEGMENTS // 4, SEGMENTS // 2, SEGMENTS - 1):
        keys[count // 2] = THRICE
    values = np.random.default_rng(number).integers(0, 256, size=count * VALUE_BYTES, dtype=np.uint8)
    return Records(
        offsets=np.arange(count),
        timestamps=1_700_000_000_000 + np.arange(count),
        timestamp_types=np.zeros(count, dtype=np.int8),
        keys=BinaryColumn(keys.view(np.uint8), np.arange(count + 1, dtype=np.int32) * KEY_BYTES, None),
        values=BinaryColumn(values, np.arange(count + 1, dtype=np.int32) * VALUE_BYTES, None),
        headers=None,
    )


def search(directory: Path, key: bytes, expected: int, overrides: dict[str, str]) -> None:
    with LogManager.open(str(directory), overrides=overrides) as manager:
        with Search(manager, "t", Condition(key=key)) as found:
            count = sum(len(each.records) for each in found)
        if count != expected or found.unsearched:
            raise ValueError(f"{count} records found, not {expected}; {found.unsearched}")


def _by_sql(setting: Setting) -> Comparison:
    directory, file = setting.directory / "sql", setting.directory / "rows.parquet"
    rows = setting.sized(ROWS)
    write_json(directory, file, rows)
    peers = {
        "ours": partial(by_sql, directory, rows),
        "theirs": partial(in_parquet, directory, file, rows),
    }
    timings = alternate(peers, setting.rounds)
    what, against = "find --where on JSON values", "duckdb over Parquet, plus our read"
    return Comparison(what, against, timings["ours"], timings["theirs"], asked=0.7)


def write_json(directory: Path, file: Path, rows: int) -> None:
    """Writes the same rows to a topic and to a file of Parquet, both with zstd."""
    with LogManager.open(str(directory), create=True, overrides={}) as manager:
        manager.create_topic("t", partitions=1, configs={"compression.type": "zstd"})
        for first in range(0, rows, 10_000):
            numbers = range(first, min(first + 10_000, rows))
            values: list[bytes | None] = [
                b'{"order": %d, "dest": "D%d", "note": "%032x"}' % (n, n % 100, n) for n in numbers
            ]
            records = Records.to_append([b"%d" % n for n in numbers], values, 1_700_000_000_000)
            manager.open_log("t", 0).append_records(records, sync=False)
    parquet.write_table(read_table(str(directory), "t"), file, compression="zstd")


def by_sql(directory: Path, rows: int) -> None:
    with (
        LogManager.open(str(directory)) as manager,
        Search(manager, "t", Condition()) as search,
        RecordQuery(DEST, "\"offset\", json->>'$.order' AS n", named=("where", "select")) as query,
    ):
        _check_found(sum(len(query.table(found)) for found in search), rows)


def in_parquet(directory: Path, file: Path, rows: int) -> None:
    with duckdb.connect(config={"threads": 1}) as engine:
        found = engine.execute(IN_PARQUET.format(where=DEST), {"file": str(file)}).to_arrow_table()
    _check_found(len(found), rows)
    with LogManager.open(str(directory)) as manager, manager.open_reader("t", 0) as reader:
        count = sum(map(len, reader.records(0, reader.log_end_offset)))
    if count != rows:
        raise ValueError(f"{count} records read, not {rows}")


def _check_found(count: int, rows: int) -> None:
    if count != sum(1 for n in range(rows) if n % 100 == 7):
        raise ValueError(f"{count} of {rows} rows found")


def _making(directory: Path, rounds: int) -> Timing:
    """Times making all filters; the last round leaves them there."""

    def again() -> float:
        for path in directory.glob("t-0/*.keyfilter"):
            path.unlink()
        return time_call(partial(_maintain, directory, filter_partitions))

    return Timing.of([again() for _ in range(rounds + 1)][1:])


def compact(directory: Path) -> None:
    _maintain(directory, compact_partitions)


def _maintain(directory: Path, operation: object) -> None:
    run = MaintenanceRun(str(directory))
    with run.manager() as manager:
        selection = select_partitions(manager, ("t",), run.overrides)
    for outcome in operation(run, selection, in_this_process):  # type: ignore[operator]
        if outcome.status.value != "done":
            raise ValueError(str(outcome))
