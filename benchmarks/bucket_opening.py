"""Open a log on an object store after 100,000 commits, with a checkpoint of all of them and without one.

Each commit has the records of two tasks for four partitions, and nothing was consolidated: 800,000 slices, as
micro-batches every ten seconds leave in twelve days without maintenance. versitygw serves the objects; they are written
as the files that it would make of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import numpy as np

from benchmarks.bucket_servers import BUCKET, reach
from benchmarks.comparison import Comparison, Ratio, Setting
from benchmarks.timing import Timing, alternate, time_call
from pyspark_commitlog.storage import CommitLog, LogManager
from pyspark_commitlog.storage.bucket.commits.applying import apply
from pyspark_commitlog.storage.bucket.commits.checkpoints import NEWEST, checkpoint_key, encode_checkpoint
from pyspark_commitlog.storage.bucket.commits.codec import encode_commit
from pyspark_commitlog.storage.bucket.commits.commit import (
    Change,
    Commit,
    DataChange,
    PartitionSlices,
    StagedObject,
    TopicChange,
    commit_key,
)
from pyspark_commitlog.storage.bucket.commits.state import State
from pyspark_commitlog.storage.bucket.files.filesystem import BucketFileSystem
from pyspark_commitlog.storage.bucket.root import open_root
from tests.support.stores.versity import VersityGateway

COMMITS, PARTITIONS, TASKS = 100_000, 4, 2
RECORDS, SLICE_BYTES = 125, 12_000  # of a slice
FIRST_MS, COMMIT_MS = 1_700_000_000_000, 10_000
LOG_ID, TOPIC_ID = f"{1:032x}", "t" * 22
TOPIC, URL = "bench", f"s3://{BUCKET}/log"

Keep = Callable[[str, bytes], None]


def measure(setting: Setting) -> Iterator[Comparison]:
    home, commits = setting.directory / "versitygw", setting.sized(COMMITS)
    with VersityGateway(home) as store:
        reach(store.port)
        kept, checkpoint = _write_log(home / "buckets" / BUCKET / "log", commits)
        without = Timing.of([time_call(_open)])
        kept(checkpoint_key(commits), checkpoint)
        kept(NEWEST, f'{{"n": {commits}}}'.encode())
        found = alternate({"open": _open, "reader": partial(_open_reader, commits)}, setting.rounds)
    second, operation = Timing.of([1.0]), f"{commits:,} commits on versitygw"
    yield Comparison(f"open with a checkpoint, {operation}", "a second", found["open"], second, 1, ratio=Ratio.SLOWER)
    yield Comparison(
        f"open with a checkpoint, and a reader of a partition, {operation}",
        "a second",
        found["reader"],
        second,
        ratio=Ratio.SLOWER,
    )
    yield Comparison(f"open without a checkpoint, {operation}", "with one", without, found["open"], ratio=Ratio.SLOWER)


def _open() -> CommitLog:
    return open_root(URL)


def _open_reader(commits: int) -> None:
    with LogManager.open(URL, filesystem=BucketFileSystem(_open())) as manager, manager.open_reader(TOPIC, 0) as reader:
        if reader.log_end_offset != (commits - 1) * TASKS * RECORDS:
            raise ValueError(f"the partition ends at {reader.log_end_offset}")


def _write_log(directory: Path, commits: int) -> tuple[Keep, bytes]:
    """Write the objects of a log. Returns what writes more of them, and the checkpoint of all commits."""

    def keep(key: str, data: bytes) -> None:
        file = directory / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    keep("commitlog.json", f'{{"format": 1, "logId": "{LOG_ID}", "createdMs": {FIRST_MS}}}'.encode())
    state, chance = State(LOG_ID), Random(7)
    for change in _changes(commits, chance):
        number = state.number + 1
        uid = f"{chance.getrandbits(128):032x}"
        commit = Commit(number, uid, state.uid, FIRST_MS + number * COMMIT_MS, "a benchmark", change)
        keep(commit_key(number), encode_commit(commit))
        apply(state, commit)
    return keep, encode_checkpoint(state)


def _changes(commits: int, chance: Random) -> Iterator[Change]:
    yield TopicChange("create", TOPIC, TOPIC_ID, PARTITIONS, {})
    for number in range(1, commits):
        parts, base = [], (number - 1) * TASKS * RECORDS
        for partition in range(PARTITIONS):
            at, newest = partition * SLICE_BYTES, FIRST_MS + number * COMMIT_MS
            slices = [(task, at, SLICE_BYTES, RECORDS, 1, newest) for task in range(TASKS)]
            parts.append(PartitionSlices(TOPIC_ID, partition, base, np.array(slices, np.int64)))
        objects = [
            StagedObject(task, TASKS * number + task, 0, PARTITIONS * SLICE_BYTES + 400) for task in range(TASKS)
        ]
        yield DataChange(f"{chance.getrandbits(128):032x}", objects, parts)
