"""The settings of streams: names and defaults of Kafka 0.7 and 0.8, and what does not go together."""

from __future__ import annotations

import pytest

from pyspark_commitlog.classic.streams import ConsumerConfig
from pyspark_commitlog.storage import InvalidConfigError

OLD = {"zk.connect": "h:1", "groupid": "g"}
NEW = {"zookeeper.connect": "h:1", "group.id": "g"}
TODAY = {"bootstrap.servers": "h:1", "group.id": "g"}


def test_defaults_are_those_of_the_generation() -> None:
    old, new, today = (ConsumerConfig.from_mapping(each) for each in (OLD, NEW, TODAY))
    assert [each.auto_offset_reset for each in (old, new, today)] == ["smallest", "largest", "largest"]
    assert [each.auto_commit_interval_ms for each in (old, new, today)] == [10_000, 60_000, 60_000]
    assert [each.queued_chunks_max for each in (old, new, today)] == [10, 2, 2]
    assert [each.offsets_storage for each in (old, new, today)] == ["zookeeper", "zookeeper", "kafka"]
    assert [each.dual_commit for each in (old, new, today)] == [False, False, False]
    assert {each.rebalance_backoff_ms for each in (old, new, today)} == {2000}
    assert {each.client_id for each in (old, new, today)} == {"g"}
    assert ConsumerConfig.from_mapping({**NEW, "offsets.storage": "kafka"}).dual_commit
    assert ConsumerConfig.from_mapping({**OLD, "zk.synctime.ms": 5}).rebalance_backoff_ms == 5


def test_a_setting_has_both_names() -> None:
    one = ConsumerConfig.from_mapping({**OLD, "autocommit.enable": "false", "fetch.size": "7"})
    other = ConsumerConfig.from_mapping({**OLD, "auto.commit.enable": "false", "fetch.message.max.bytes": "7"})
    assert one == other
    assert (one.auto_commit, one.fetch_size) == (False, 7)


WRONG = [
    ({"zk.connect": "h:1"}, "groupid"),
    ({"groupid": "g"}, "needs one of zk.connect, zookeeper.connect, bootstrap.servers"),
    ({**OLD, "zookeeper.connect": "h:1"}, "both given"),
    ({**OLD, "offsets.storage": "kafka"}, "cannot be used with zk.connect"),
    ({**TODAY, "dual.commit.enabled": "true"}, "dual.commit.enabled needs zookeeper.connect"),
    ({**NEW, "sasl.username": "me"}, "sasl.username needs bootstrap.servers"),
    ({**NEW, "fetch.wait.max.ms": 31_000}, "longer than socket.timeout.ms"),
    ({**NEW, "group.idd": "g"}, "unknown setting of a consumer: group.idd .did you mean 'group.id'"),
    ({**NEW, "groupid": "g"}, "given twice"),
    ({**NEW, "fetch.size": 0}, "fetch.size"),
    ({**NEW, "partition.assignment.strategy": "sticky"}, "partition.assignment.strategy"),
]


@pytest.mark.parametrize(("given", "text"), WRONG)
def test_what_is_wrong_is_refused(given: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidConfigError, match=text):
        ConsumerConfig.from_mapping(given)
