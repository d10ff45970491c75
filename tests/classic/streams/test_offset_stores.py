"""Where offsets of old groups are committed: by partition, also where a part of a commit is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pyspark_commitlog.classic.errors import BrokerError, ClientError
from pyspark_commitlog.classic.streams import DualOffsets, KafkaOffsets, ZooKeeperOffsets
from pyspark_commitlog.classic.wire import calls
from pyspark_commitlog.classic.zookeeper_groups.assignment import Partition
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.registry import kafka_nodes
from pyspark_commitlog.registry.files import FileRegistry
from pyspark_commitlog.registry.operations import put
from pyspark_commitlog.registry.port import Registry
from pyspark_commitlog.storage import TopicPartition

ONE, OTHER = Partition("t", 0), Partition("t", 1)


class Coordinator:
    """Answers commits with the codes of a script, then with none."""

    def __init__(self, *script: Mapping[int, int]) -> None:
        self.script, self.asked = list(script), list[list[int]]()

    def commit(
        self, broker: object, group: str, offsets: Mapping[TopicPartition, int], **_: object
    ) -> dict[TopicPartition, int]:
        codes = self.script.pop(0) if self.script else {}
        self.asked.append([each.partition for each in offsets])
        return {each: codes.get(each.partition, 0) for each in offsets}


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with FileRegistry(str(tmp_path)) as opened:
        yield opened


def kafka(monkeypatch: pytest.MonkeyPatch, coordinator: Coordinator) -> KafkaOffsets:
    monkeypatch.setattr(calls, "commit", coordinator.commit)
    monkeypatch.setattr(KafkaOffsets, "_connected", lambda _: None)
    return KafkaOffsets("g", lambda: (), timeout_ms=1000, backoff_ms=1, client_id="g")


def test_what_the_coordinator_took_is_committed_in_zookeeper_too_if_the_rest_is_refused(
    monkeypatch: pytest.MonkeyPatch, registry: Registry
) -> None:
    coordinator = Coordinator(*[{1: ErrorCode.not_coordinator}] * 2)
    store = DualOffsets(kafka(monkeypatch, coordinator), zookeeper := ZooKeeperOffsets(registry, "g"))
    done: dict[Partition, int] = {}
    with pytest.raises(BrokerError, match="not_coordinator"):
        store.commit({ONE: 5, OTHER: 7}, 1, done.update)
    assert coordinator.asked == [[0, 1], [1]]
    assert done == {ONE: 5}
    assert zookeeper.fetch([ONE, OTHER]) == {ONE: 5, OTHER: None}
    store.commit({OTHER: 7}, 0, done.update)
    assert zookeeper.fetch([ONE, OTHER]) == done == {ONE: 5, OTHER: 7}


def test_what_is_no_offset_is_an_error_that_names_the_node(registry: Registry) -> None:
    put(registry, kafka_nodes.offset_path("g", *ONE), b"five")
    with pytest.raises(ClientError, match=r"/consumers/g/offsets/t/0 has b'five', which is not an offset"):
        ZooKeeperOffsets(registry, "g").fetch([ONE])
