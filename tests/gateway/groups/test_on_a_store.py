"""Groups whose offsets are on an object store."""

from __future__ import annotations

import pytest

from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.storage import BucketGroups, ClientTransactions, LogManager
from tests.support.groups import Bench
from tests.support.stores.filling import make_topic
from tests.support.stores.served import ServedStores

URL = "s3://memory/logs"
RETENTION_MS = 60_000


def test_offsets_of_a_group_that_is_empty_for_long_do_not_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    make_topic(ServedStores(monkeypatch).create(URL), "t", 1)
    bench = Bench(offsets_retention_minutes=1)
    with LogManager.open(URL, clock=bench.clock) as manager:
        assert manager.bucket is not None
        bench.disk_thread.opened = BucketGroups(manager, ClientTransactions(manager.bucket))  # type: ignore[assignment]
        bench.started()
        (member,) = bench.stable("a")
        assert bench.commit(7, member) is ErrorCode.none
        bench.leave(member)
        bench.clock.advance(RETENTION_MS)
        bench.coordinator.offsets.expire()
        assert bench.fetched() == 7
