"""Kafka's own consumer reads a broker's directory and its tier from a gateway, as it read them from the broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.storage import Isolation as Level
from tests.gateway.clients.programs import printed
from tests.support.gateway import serving
from tests.support.kafka import kafka_jvm
from tests.support.kafka.clients import Isolation, java_consume
from tests.support.tiers import LAYOUTS, TOPICS, broker

TOOL = "org.apache.kafka.tools.GetOffsetShell"
pytestmark = [pytest.mark.slow, pytest.mark.only_all]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_java_consumer_reads_the_same_from_the_gateway_as_from_the_broker(tmp_path: Path, layout: str) -> None:
    of_broker = broker(layout, tmp_path)
    isolations: tuple[Isolation, ...] = ("read_committed", "read_uncommitted")
    with serving(of_broker.log, commitlog_tier_url=str(of_broker.tier)) as gateway:
        for topic in TOPICS:
            for isolation in isolations:
                found = java_consume(gateway.bootstrap_servers, topic, isolation)
                rows = [
                    (each.offset, each.timestamp_ms, each.timestamp_type, each.key, each.value, [*each.headers])
                    for each in found
                ]
                assert rows == of_broker.rows(topic, Level(isolation))


def test_the_offset_tool_of_kafka_finds_the_local_start_and_the_end_of_the_tier(tmp_path: Path) -> None:
    of_broker = broker("kafka", tmp_path)
    local = min(int(path.stem) for path in (of_broker.log / "t-plain-0").glob("*.log"))
    with serving(of_broker.log, commitlog_tier_url=str(of_broker.tier), remote_fetch_max_wait_ms=30_000) as gateway:
        wanted = {"earliest": 0, "earliest-local": local, "latest-tiered": local - 1, "latest": 630}
        for name, offset in wanted.items():
            asked = ["--bootstrap-server", gateway.bootstrap_servers, "--topic", "t-plain", "--time", name]
            assert printed([*kafka_jvm.jvm(), TOOL, *asked]).split() == [f"t-plain:0:{offset}"]
