"""The log on a real object store: writers side by side, and a server that is killed under them."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from threading import Thread

import numpy as np
import pytest

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.commits.commit import OpenChange
from pyspark_commitlog.storage.bucket.proposals import Claim, StagedWrite, commit_write, open_app
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.bucket.staging import StagedTopic, Stager
from pyspark_commitlog.storage.bucket.stores.patience import Attempts, Patience
from pyspark_commitlog.storage.bucket.topics import ensure_topic, find_topic
from pyspark_commitlog.storage.clock import SystemClock
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.verdicts import Finding
from tests.support.logs.building import records
from tests.support.stores.commits import hex_id
from tests.support.stores.seaweed import KEY, SECRET, SeaweedFS

WRITERS, BATCHES = 2, 4


def unchecked(_: str) -> Sequence[Finding]:
    return []


def attempts() -> Attempts:
    return Attempts(Patience(), SystemClock(), Random())


class Writer(Thread):
    """An exactly-once writer of one app, whose batches have one record for each of two partitions."""

    def __init__(self, url: str, number: int) -> None:
        super().__init__(daemon=True)
        self.url, self.number = url, number
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            self._write_all(open_root(self.url))
        except BaseException as error:
            self.failed = error

    def _write_all(self, log: CommitLog) -> None:
        log.commit(lambda state: ensure_topic(state, "t", 2))
        topic = find_topic(log.catch_up(), "t")
        opened = log.commit(lambda state: open_app(state, f"app {self.number}", "q", None))
        assert opened is not None
        assert isinstance(opened.change, OpenChange)
        for batch in range(BATCHES):
            write = hex_id(self.number * 1000 + batch)
            staged_topic = {"t": StagedTopic(topic.topic_id, 2, LogConfig())}
            with Stager(log.store, write, 0, 0, staged_topic, attempts) as stager:
                for partition in range(2):
                    batches = v2.encode_batches(
                        records([f"{self.number} {batch}".encode()]), v2.BatchFields(), batch_bytes_max=1 << 20
                    )
                    stager.append("t", partition, batches)
                staged = stager.finish()
            claim = Claim(f"app {self.number}", opened.change.epoch, "q", None)
            whole = StagedWrite(write, staged.objects, staged.slices, claim, batch)
            log.commit(lambda state, whole=whole: commit_write(state, whole))  # type: ignore[misc]


def values(log: CommitLog, partition: int) -> list[str]:
    """Returns the values of a partition; checks that offsets have no gap."""
    found: list[str] = []
    topic_id = find_topic(log.state, "t").topic_id
    for one in log.state.slices(topic_id, partition):
        assert one.base == len(found)
        buffer = np.frombuffer(log.store.get_range(one.key, one.position, one.size), np.uint8).copy()
        decoded = formats.decode(buffer, formats.scan(buffer).headers).records
        assert decoded.values is not None
        found += [(value or b"").decode() for value in decoded.values.to_list()]
    return found


@pytest.mark.only_all
@pytest.mark.slow
def test_writers_beside_each_other_and_a_killed_server_lose_and_double_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with SeaweedFS(tmp_path / "seaweed") as server:
        server.reach(monkeypatch)
        first = open_root(server.url, create=True, check=unchecked)
        writers = [Writer(server.url, number) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        while first.catch_up().number < WRITERS + 3:  # some batches are there
            time.sleep(0.05)
        server.kill()
        server.start()
        for writer in writers:
            writer.join()
            assert writer.failed is None
        log = open_root(server.url)
        for partition in range(2):
            found = values(log, partition)
            for number in range(WRITERS):
                own = [value for value in found if value.startswith(f"{number} ")]
                assert own == [f"{number} {batch}" for batch in range(BATCHES)]
            assert len(found) == WRITERS * BATCHES
    assert not any(secret in caplog.text for secret in (KEY, SECRET))
