"""The order in which the records of a group of Kafka 4 are deleted: Kafka loads no group of a partition otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.storage import GROUP_METADATA_TOPIC, TOMBSTONE_ORDER, GroupRecordKey, LocalFileSystem
from pyspark_commitlog.storage.format.internal.state_records import read_group_key
from tests.support.groups import Bench
from tests.support.kafka.admin import committed_offsets
from tests.support.kafka.broker import Broker, mount
from tests.support.kafka.kafka_jvm import KAFKA_4
from tests.support.kafka.members import assigned, subscription

RETENTION_MS = 60_000
OTHER = "other"
PROTOCOLS = (("range", subscription(["t"])),)


def replaced_by_a_classic_group(bench: Bench) -> None:
    bench.enter("a", "t", regex="u.*")
    bench.beat("a", -1)
    bench.stable("c", assignment=assigned({"t": [0]}), protocols=PROTOCOLS)


def expired(bench: Bench) -> None:
    bench.enter("a", "t")
    bench.beat("a", -1)
    bench.clock.advance(RETENTION_MS)
    bench.coordinator.offsets.expire()


def downgraded(bench: Bench) -> None:
    bench.enter("a", "t", regex="u.*")
    joined = bench.join("c", protocols=PROTOCOLS)
    assert joined is not None
    assert joined.error is ErrorCode.none
    bench.beat("a", -1)


WAYS = [replaced_by_a_classic_group, expired, downgraded]


def made(bench: Bench, way: Callable[[Bench], None]) -> Bench:
    bench.topics(t=4, u=1).started()
    way(bench)
    bench.commit(7, group=OTHER)
    assert not any(isinstance(key, GroupRecordKey) for key in bench.records())
    return bench


SETTINGS = {"group_consumer_migration_policy": "bidirectional", "offsets_retention_minutes": 1}


def tombstones(bench: Bench) -> list[GroupRecordKey]:
    """The keys of the deleted records of groups of Kafka 4, by their offsets; of each the last one."""
    reader = bench.manager.open_reader(GROUP_METADATA_TOPIC, 0)
    found: dict[GroupRecordKey, int] = {}
    offset = 0
    while (data := reader.read(offset)) is not None:
        records = data.segment.decode(data.window, np.flatnonzero(data.visible), ("key", "value")).records
        assert records.keys is not None
        assert records.values is not None
        rows = zip(records.offsets.tolist(), records.keys.to_list(), records.values.to_list(), strict=True)
        for place, key, value in rows:
            known = read_group_key(key)
            if isinstance(known, GroupRecordKey) and value is None:
                found[known] = place
        offset = data.next_offset
    return sorted(found, key=found.__getitem__)


@pytest.mark.parametrize("way", WAYS)
def test_a_record_is_deleted_before_the_one_that_it_depends_on(way: Callable[[Bench], None]) -> None:
    deleted = tombstones(made(Bench(**SETTINGS), way))
    kinds = [each.kind for each in deleted if each.name is None]
    assert {*kinds} == {3, 6}
    assert kinds == sorted(kinds, key=TOMBSTONE_ORDER.index)
    assert deleted[-1].kind == 3
    for name in {each.name for each in deleted if each.kind == 5}:
        of_member = [each for each in deleted if each.name == name]
        assert [each.kind for each in of_member] == [8, 7, 5]


@pytest.mark.slow
@pytest.mark.only_all
@pytest.mark.parametrize("way", WAYS)
def test_kafka_loads_the_other_groups_of_the_partition(way: Callable[[Bench], None], tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    bench = made(Bench(LocalFileSystem(), directory=str(ours), **SETTINGS), way)
    bench.manager.close()
    with Broker(tmp_path / "broker", KAFKA_4) as broker:
        broker.start(props={"offsets.topic.num.partitions": "1"})
        mount(broker, ours, {GROUP_METADATA_TOPIC: {"cleanup.policy": "compact"}})
        assert committed_offsets(broker.bootstrap, OTHER)["t", 0][0] == 7
        assert "Failed to load metadata" not in broker.log_text()
