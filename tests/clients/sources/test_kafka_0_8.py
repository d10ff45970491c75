"""Clusters of Kafka 0.8 as sources, by their requests to one of our gateways."""

from __future__ import annotations

from pathlib import Path

from pyspark_commitlog.clients.brokers import EARLIEST, LATEST
from pyspark_commitlog.clients.sources.kafka_0_8 import ZooKeeperSource, ZooKeeperSources, _Known
from pyspark_commitlog.clients.wire import Address, Broker, Connection
from pyspark_commitlog.storage import TopicPartition
from tests.clients.mirror.support import delete_before, fill, numbered, place

FLIGHTS = TopicPartition("flights", 0)


def test_a_time_before_all_files_stands_for_the_earliest_offset(tmp_path: Path) -> None:
    for first in (0, 6):
        fill(tmp_path / "log", "flights", numbered(first, first + 6))
    with place(tmp_path / "log") as served:
        delete_before(served, "flights", 0, 6)
        source = ZooKeeperSource(ZooKeeperSources("nowhere:1"))
        source._known = _Known({7: Broker(Connection(Address.parse(served.bootstrap)))}, {FLIGHTS: 7})
        found = [source.offsets([FLIGHTS], at)[FLIGHTS] for at in (EARLIEST, 1_000, LATEST)]
        source.close()
    assert found == [6, 6, 12]
