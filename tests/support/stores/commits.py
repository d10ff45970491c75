"""Commits and states for tests of the log on an object store."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

import numpy as np

from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.commits.applying import apply
from pyspark_commitlog.storage.bucket.commits.commit import (
    Change,
    Commit,
    DataChange,
    PartitionSlices,
    Segment,
    StagedObject,
    TopicChange,
)
from pyspark_commitlog.storage.bucket.commits.state import State
from pyspark_commitlog.storage.bucket.loading import FORMAT, IDENTITY
from pyspark_commitlog.storage.bucket.stores.patience import Patience
from pyspark_commitlog.storage.bucket.stores.port import ObjectStore
from tests.support.clock import ManualClock

LOG_ID = "0" * 31 + "f"
TOPIC_ID = "t" * 22


def hex_id(number: int) -> str:
    return f"{number:032x}"


def create_topic(name: str = "t", partitions: int = 2, topic_id: str = TOPIC_ID) -> TopicChange:
    return TopicChange("create", name, topic_id, partitions, {"retention.ms": "-1"})


def data(
    write: int, *records: int, base: int = 0, partition: int = 0, topic_id: str = TOPIC_ID, **fields: object
) -> DataChange:
    """A write of one object with slices of so many records each, 100 bytes a record."""
    ends = np.cumsum(records) * 100
    slices = [
        (0, end - count * 100, count * 100, count, 1, 1000 + count) for end, count in zip(ends, records, strict=True)
    ]
    objects = [StagedObject(partition, 7, 0, int(ends[-1]) + 50)]
    part = PartitionSlices(topic_id, partition, base, np.array(slices, np.int64))
    return DataChange(hex_id(write), objects, [part], **fields)  # type: ignore[arg-type]


def segment(base: int, end: int, number: int = 1) -> Segment:
    """A segment whose id says its offsets; ``number`` tells two with the same ones apart."""
    return Segment(base, end, f"5e{number:06x}{base:012x}{end:012x}", 100 * (end - base), end - base, 1000, "a" * 64)


def follow(state: State, change: Change) -> Commit:
    """Returns a commit that the state can be followed by, in its place; its uid is its number."""
    return Commit(state.number + 1, hex_id(state.number + 1), state.uid, 1_700_000_000_000, "a test", change)


def state_of(*changes: Change) -> State:
    state = State(LOG_ID)
    for change in changes:
        apply(state, follow(state, change))
    return state


def commit_log(
    store: ObjectStore, seed: int = 0, kind: type[CommitLog] = CommitLog, deadline_ms: int = 120_000
) -> CommitLog:
    """Returns the log in a store; names it if nothing does, without a request."""
    inner = getattr(store, "inner", store)
    inner.objects.setdefault(IDENTITY, json.dumps({"format": FORMAT, "logId": LOG_ID, "createdMs": 1}).encode())
    return kind(
        store,
        LOG_ID,
        clock=ManualClock(),
        random=Random(seed),
        patience=Patience(deadline_ms),
        background=_at_once,
    )


def _at_once(task: Callable[[], None]) -> None:
    task()
