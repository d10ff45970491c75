"""Settings of clients of brokers: how large answers may be, and which errors may pass."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from pyspark_commitlog.mirror.brokers import connections
from pyspark_commitlog.mirror.brokers.cluster import Cluster, masking_errors
from pyspark_commitlog.mirror.brokers.kafka_python import KafkaError
from pyspark_commitlog.mirror.brokers.leader import FETCH_BYTES, PartitionLeader
from pyspark_commitlog.mirror.brokers.requests import NO_EPOCH
from pyspark_commitlog.mirror.errors import MirrorError, RetriableError
from pyspark_commitlog.mirror.settings import TargetSettings
from pyspark_commitlog.mirror.sources.settings import sources_of
from pyspark_commitlog.storage import TopicPartition
from tests.mirror.support import fill, place

NOBODY = "127.0.0.1:1"


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


def test_brokers_that_do_not_answer_may_later_and_leave_no_thread_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "TIMEOUT_MS", 100)
    with pytest.raises(RetriableError, match=f"Kafka at {NOBODY}"):
        TargetSettings.parse({"bootstrap.servers": NOBODY}).targets.open("g")
    assert not [name for name in threads() if name.startswith("kafka-io")]


def test_only_an_error_that_passes_may_be_different_later() -> None:
    for retriable, kind in ((True, RetriableError), (False, MirrorError)):

        def fail(retriable: bool = retriable) -> None:
            error = KafkaError("no")
            error.retriable = retriable
            raise error

        with pytest.raises(MirrorError) as raised:
            masking_errors(Cluster.parse(NOBODY, {}), fail)
        assert raised.type is kind


def threads() -> list[str]:
    return [each.name for each in threading.enumerate()]
