"""A query of our sink that pauses for longer than a gateway keeps offsets."""

from __future__ import annotations

import time

import pytest

from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.storage import (
    SINK_PREFIX,
    CommittedOffset,
    GroupOffsets,
    LogManager,
    TopicPartition,
    expire_transactional_ids,
)
from tests.pipeline.inline_query import InlineQuery, rows_of
from tests.pipeline.inline_spark import PARTITIONS, TOPIC
from tests.support.groups import Bench
from tests.support.logs.directories import memory_disk_with_topics

APP = "app"  # the query's name, which is also its group
YEAR_MS = 365 * 86_400_000
EXPIRY = {"offsets_retention_minutes": 1, "offsets_retention_check_interval_ms": 86_400_000}
PROGRESS = TopicPartition(f"{SINK_PREFIX}{TOPIC}", 0)


@pytest.mark.parametrize("forgets_ids", [False, True])
def test_a_query_that_paused_for_longer_than_offsets_are_kept_goes_on_where_it_stopped(*, forgets_ids: bool) -> None:
    """The gateway runs all the time, expires what else its group committed, and refuses to delete the progress."""
    disk = memory_disk_with_topics("/log", TOPIC, PARTITIONS)
    query = InlineQuery(disk)
    query.run(range(2))
    bench = Bench(disk, directory="/log", now_ms=round(time.time() * 1000), **EXPIRY).started()
    bench.commit(5, group=APP, topic="other")
    bench.home.advance(YEAR_MS)
    assert bench.fetched(APP, "other") is None
    assert bench.fetched(APP, PROGRESS.topic) == progress(bench.manager)
    assert deleted(bench) is ErrorCode.non_empty_group
    if forgets_ids:  # as commitlog maintain does with ids that are idle for a week
        assert expire_transactional_ids(bench.manager) == [APP]
    before = progress(bench.manager)
    query.run(range(4))
    assert query.batches == 4
    assert query.driver.content() == rows_of(range(4))
    assert bench.fetched(APP, PROGRESS.topic) == progress(bench.manager) == before + 2
    bench.restarted(now_ms=bench.clock.now_ms(), directory="/log", **EXPIRY).home.advance(YEAR_MS)
    InlineQuery(disk).run(range(5))
    assert query.driver.content() == rows_of(range(5))


def progress(manager: LogManager) -> int:
    found: CommittedOffset = GroupOffsets(manager).fetch(APP)[PROGRESS]
    return found.offset


def deleted(bench: Bench) -> ErrorCode:
    answers: list[ErrorCode] = []
    bench.coordinator.delete(APP, answers.append)
    return answers[0]
