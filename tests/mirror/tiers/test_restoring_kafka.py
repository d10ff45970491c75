"""A cluster with tiered storage loses its disks; a new one, with the same tier, has its topics and groups again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.in_process import Done, commitlog
from tests.support.kafka import tiered
from tests.support.kafka.admin import committed_offsets
from tests.support.kafka.broker import Broker, ProducerRecord, Step, Topic, create_topics, java_produce
from tests.support.kafka.clients import console_consume, java_consume
from tests.support.waiting import soon

pytestmark = [pytest.mark.slow, pytest.mark.only_all]

TOPIC = "work"
CONFIGS = {"remote.storage.enable": "true", "local.retention.bytes": "1", "segment.bytes": "2048", "retention.ms": "-1"}
VALUES = [b"%04d" % n + b"x" * 500 for n in range(40)]


def tier_end(tier: Path) -> int:
    """Where the tier ends, by its own listing."""
    done = commitlog("offsets", "--tier", tier, "--topic", TOPIC, "--time", "latest")
    return int(done.stdout.rpartition(":")[2]) if done.code == 0 else 0


def lose_a_cluster(home: Path, tier: Path) -> Path:
    """A cluster in which groups have read, and whose disks are deleted; returns what is left: groups' partitions."""
    with tiered.tiered_broker(home).start(props=tiered.properties(tier)) as broker:
        create_topics(broker.bootstrap, {TOPIC: Topic(1, CONFIGS)})
        steps = [step for value in VALUES for step in (ProducerRecord(value), Step.FLUSH)]
        java_produce(broker.bootstrap, TOPIC, steps)
        for group, count in {"readers": 6, "fast": len(VALUES)}.items():
            assert console_consume(broker.bootstrap, TOPIC, group, count) == VALUES[:count]
        soon(lambda: tier_end(tier) >= len(VALUES) - 4)
        broker.stop()
        left = home.with_name("left")
        for path in broker.log_dir.glob("__consumer_offsets-*"):
            shutil.copytree(path, left / path.name)
    shutil.rmtree(home)
    return left


def restore(broker: Broker, tier: Path, left: Path, *more: str) -> Done:
    place = ["--tier", tier, "--backup", left, "--bootstrap-server", broker.bootstrap]
    return commitlog("tier", "restore", *place, *more)


def test_topics_and_groups_stand_where_they_stood(tmp_path: Path) -> None:
    tier = tmp_path / "tier"
    left = lose_a_cluster(tmp_path / "lost", tier)
    end = tier_end(tier)
    assert 6 < end < len(VALUES)
    with tiered.tiered_broker(tmp_path / "new").start(props=tiered.properties(tier)) as broker:
        logs = len([*tier.rglob("*.log")])
        dry = restore(broker, tier, left, "--dry-run")
        assert (dry.code, "would commit 1 offset of group readers" in dry.stdout) == (0, True), dry.stderr
        assert len([*tier.rglob("*.log")]) == logs
        config = ["--config", "local.retention.bytes=1"]
        for _ in range(2):  # the second run finds what the first one has done
            done = restore(broker, tier, left, *config)
            assert done.code == 0, done.stderr
            assert f"group fast was at offset {len(VALUES)} of {TOPIC}-0" in done.stdout
        broker.stop()
        done = commitlog("tier", "publish", "--topic", TOPIC, "--broker-log-dir", broker.log_dir, "--json")
        assert json.loads(done.stdout.splitlines()[0])["tier_end_offset"] == end
        broker.start()
        assert [each.value for each in java_consume(broker.bootstrap, TOPIC)] == VALUES[:end]
        offsets = {group: committed_offsets(broker.bootstrap, group)[TOPIC, 0][0] for group in ("readers", "fast")}
        assert offsets == {"readers": 6, "fast": end}
        java_produce(broker.bootstrap, TOPIC, [ProducerRecord(b"new"), Step.FLUSH])
        assert console_consume(broker.bootstrap, TOPIC, "readers", end - 5) == [*VALUES[6:end], b"new"]
        assert console_consume(broker.bootstrap, TOPIC, "fast", 1) == [b"new"]
