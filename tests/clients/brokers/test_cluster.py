"""Settings of clients of brokers: how large answers may be."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark_commitlog.clients.brokers import FETCH_BYTES, NO_EPOCH, Cluster, PartitionLeader
from pyspark_commitlog.clients.sources import sources_of
from pyspark_commitlog.storage import TopicPartition
from tests.clients.mirror.support import fill, place


def test_answers_may_be_as_large_as_what_is_asked_for(tmp_path: Path) -> None:
    for _ in range(5):
        fill(tmp_path / "source", "t", [(None, os.urandom(500_000))])
    with place(tmp_path / "source") as source:
        opened = sources_of({"bootstrap.servers": source.bootstrap}).open()
        answer = opened.fetch({TopicPartition("t", 0): 0})[TopicPartition("t", 0)]
        opened.close()
        with PartitionLeader(Cluster.parse(source.bootstrap, {}), "t", 0) as leader:
            fetched = leader.fetch(0, NO_EPOCH, FETCH_BYTES)
    assert answer is not None
    assert len(answer.data) > 1_000_000
    assert len(fetched.batches) > 2_500_000
