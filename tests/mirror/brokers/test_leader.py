"""PartitionLeader: a partition without a leader, and a leader that does not answer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.mirror.brokers import patience
from pyspark_commitlog.mirror.brokers.cluster import Cluster
from pyspark_commitlog.mirror.brokers.connections import Connections
from pyspark_commitlog.mirror.brokers.leader import PartitionLeader
from pyspark_commitlog.mirror.brokers.requests import NO_EPOCH
from pyspark_commitlog.mirror.errors import OutsideLogError, RetriableError
from tests.mirror.support import fill, numbered, place


def test_the_reason_of_the_brokers_is_raised_once_patience_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "PATIENCE_S", -1.0)
    fill(tmp_path / "source", "t", numbered(0, 3))
    with place(tmp_path / "source") as source:
        cluster = Cluster.parse(source.bootstrap, {})
        for topic, partition, reason in (("none", 0, "UNKNOWN_TOPIC_OR_PARTITION"), ("t", 7, "has no leader")):
            with (
                PartitionLeader(cluster, topic, partition) as leader,
                pytest.raises(RetriableError, match=f"{topic}-{partition} of Kafka at .*{reason}"),
            ):
                leader.bounds()
        with PartitionLeader(cluster, "t", 0) as leader, pytest.raises(OutsideLogError, match="t-0 of Kafka at"):
            leader.fetch(4, NO_EPOCH, 1000)


def test_after_a_request_that_may_succeed_later_the_leader_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "source", "t", numbered(0, 3))
    ask, find, found = Connections.ask, Connections._find, list[list[str]]()

    def fail_once(*_: object) -> None:
        monkeypatch.setattr(Connections, "ask", ask)
        raise RetriableError("the leader does not answer")

    def noted(connections: Connections, topics: Iterable[str]) -> list[Any]:
        found.append([*topics])
        return find(connections, found[-1])

    monkeypatch.setattr(Connections, "_find", noted)
    with place(tmp_path / "source") as source, PartitionLeader(Cluster.parse(source.bootstrap, {}), "t", 0) as leader:
        for _ in range(2):
            assert leader.bounds() == (0, 3)
        assert found == [["t"]]
        monkeypatch.setattr(Connections, "ask", fail_once)
        assert leader.bounds() == (0, 3)
    assert found == [["t"], ["t"]]
