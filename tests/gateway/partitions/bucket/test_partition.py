"""Reads of a partition on an object store while others commit, between any two steps of a read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import pytest

from pyspark_commitlog.gateway.partitions.bucket.partition import open_bucket_partition
from pyspark_commitlog.gateway.partitions.led_partition import LedPartition
from pyspark_commitlog.storage import CommitLog, Isolation, LogManager, TopicPartition, format as formats
from pyspark_commitlog.storage.bucket.collecting import CollectLimits, collect
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.bucket.upkeep import raise_log_start
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.maintenance.bucket.consolidate import consolidate
from tests.support.clock import ManualClock
from tests.support.stores.filled import place_of
from tests.support.stores.filling import make_topic
from tests.support.stores.memory_store import MemoryStore
from tests.support.stores.served import ServedStores
from tests.support.stores.transactional import PRODUCER, Client

URL = "s3://memory/logs"
START = 2  # where readers begin; retention goes up to there
VALUES = [b"kept 0", b"kept 1", b"kept 2", b"lost 3", b"kept 4", b"kept 5", b"lost 6", b"kept 7", b"kept 8", b"kept 9"]
COMMITTED, UNCOMMITTED = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED
Objects = dict[str, bytes]


class Life(NamedTuple):
    """The life of a log: the objects of its store after each change."""

    changes: list[str]
    objects: list[Objects]


@pytest.fixture(scope="module")
def life() -> Life:
    """Two transactions are begun, of which one is aborted and one committed; then maintenance runs."""
    store = MemoryStore()
    store.url = URL
    log = open_root(URL, create=True, store=store, check=lambda _: [], clock=ManualClock())
    make_topic(log, "t", 2)
    kept, lost = Client(log), Client(log, "lost", PRODUCER + 1)
    for value in VALUES[:3]:
        kept.append(value)
    kept.end(commit=True)
    key = log.state.topic_ids["t"], 0
    changes: dict[str, Callable[[], object]] = {
        "begin": lambda: lost.append(VALUES[3]),
        "begin another": lambda: kept.append(VALUES[4], VALUES[5]),
        "abort": lambda: lost.end(commit=False),
        "begin again": lambda: lost.append(VALUES[6]),
        "commit": lambda: kept.end(commit=True),
        "consolidate": lambda: consolidate(place_of(log), LogConfig(segment_ms=1), ManualClock(), 10**15),
        "append": lambda: kept.append(VALUES[7]),
        "abort again": lambda: lost.end(commit=False),
        "retain": lambda: log.commit(lambda state: raise_log_start(state, *key, START)),
        "commit again": lambda: kept.end(commit=True),
        "consolidate again": lambda: consolidate(place_of(log), LogConfig(segment_ms=1), ManualClock(), 10**15),
        "append again": lambda: [kept.append(each) for each in VALUES[8:]],
        "collect": lambda: collect(log, CollectLimits(-1, -1)),
    }
    found = Life([], [])
    for name, change in changes.items():
        change()
        found.changes.append(name)
        found.objects.append(dict(store.objects))
    return found


class Steps:
    """Lets others act before one of the steps of a process: a look at the commits' state, or a read of the store."""

    def __init__(self, log: CommitLog, at: int, act: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken, self._is_alone, self._at, self._act = 0, False, at, act
        monkeypatch.setattr(log, "reading", self._before(log.reading))
        monkeypatch.setattr(log, "catch_up", self._before(self._within(log.catch_up)))
        for name in ("get", "get_range", "head"):
            monkeypatch.setattr(log.store, name, self._before(getattr(log.store, name)))

    def _before(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def taken(*given: Any, **more: Any) -> Any:
            if not self._is_alone:
                self.taken += 1
                if self.taken == self._at:
                    self._within(self._act)()
            return step(*given, **more)

        return taken

    def _within(self, step: Callable[[], Any]) -> Callable[[], Any]:
        """Returns a step during which nobody else applies commits."""

        def alone() -> Any:
            before, self._is_alone = self._is_alone, True
            try:
                return step()
            finally:
                self._is_alone = before

        return alone


def rows(led: LedPartition, isolation: Isolation) -> Iterator[tuple[int, bytes]]:
    """What a client gets that fetches little at once, up to the end that the answers have."""
    offset = START
    while True:
        found = led.slice(offset, 1, isolation, min_one_batch=True)
        if not found.records:
            assert offset == (found.last_stable_offset if isolation is COMMITTED else found.high_watermark)
            return
        assert isinstance(found.records, bytes)
        buffer = np.frombuffer(found.records, np.uint8).copy()
        headers = formats.scan(buffer).headers
        formats.verify(buffer, headers)
        assert headers.table["base_offset"][0] == offset
        table = formats.decode(buffer, headers).records
        assert table.values is not None or not len(table)
        values = [] if table.values is None else table.values.to_list()
        yield from zip(table.offsets.tolist(), [value or b"" for value in values], strict=True)
        offset = headers.next_offset


@pytest.mark.parametrize("change", ["abort", "retain"])
def test_a_reader_of_committed_records_meets_no_damage_whenever_others_commit(
    life: Life, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = life.changes.index(change)
    check_at_all_steps(life, first, first + 1, COMMITTED, monkeypatch)


@pytest.mark.slow
@pytest.mark.only_all
@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("further", [1, 2, None], ids=["one change", "two changes", "all changes"])
def test_no_reader_meets_damage_whatever_others_do_at_a_step(
    life: Life, further: int | None, isolation: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = len(life.changes) - 1
    for first in range(1, end):
        last = end if further is None else min(first + further, end)
        check_at_all_steps(life, first, last, isolation, monkeypatch)


def check_at_all_steps(
    life: Life, first: int, last: int, isolation: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in count(1):
        with monkeypatch.context() as here:
            steps, found = meet(life, first, last, at, isolation, here)
        assert found == sorted(set(found))
        assert set(found) <= set(enumerate(VALUES))
        assert isolation is UNCOMMITTED or not any(value.startswith(b"lost") for _, value in found)
        assert (START, VALUES[START]) in found
        if steps.taken < at:
            assert at > 5  # it met steps at all
            return


def meet(
    life: Life, first: int, last: int, at: int, isolation: Isolation, monkeypatch: pytest.MonkeyPatch
) -> tuple[Steps, list[tuple[int, bytes]]]:
    """Reads all after the change ``first``; the others, up to ``last``, come before the step ``at``."""
    store = ServedStores(monkeypatch)._open(URL, 0)
    store.objects = dict(life.objects[first - 1])
    with LogManager.open(URL) as manager:
        log = manager.bucket
        assert log is not None
        led = open_bucket_partition(manager, TopicPartition("t", 0))

        def change(to: int) -> None:
            store.objects = dict(life.objects[to])
            log.catch_up()  # as the thread does that appends, or looks for what others commit

        change(first)
        steps = Steps(log, at, lambda: change(last), monkeypatch)
        return steps, list(rows(led, isolation))
