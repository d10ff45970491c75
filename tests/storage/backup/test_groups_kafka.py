"""A Java consumer group goes on where it was when the backup was taken, on a broker over the restored directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.storage.backup.cuts import find_cut
from pyspark_commitlog.storage.backup.restoring import restore_backup
from tests.storage.backup.logs import back_up, folder
from tests.support.kafka import kafka_jvm
from tests.support.kafka.admin import committed_offsets
from tests.support.kafka.broker import Broker, ProducerRecord, Topic, create_topics, java_produce
from tests.support.kafka.clients import console_consume

pytestmark = [pytest.mark.slow, pytest.mark.only_all]

VALUES = [b"%02d" % n for n in range(10)]


def read_as_group(broker: Broker, count: int) -> list[bytes]:
    """The next records for the group."""
    return console_consume(broker.bootstrap, "work", "readers", count)


@pytest.mark.parametrize("release", [kafka_jvm.KAFKA_VERSION, kafka_jvm.KAFKA_4])
def test_a_group_goes_on_in_a_restored_directory(release: str, tmp_path: Path) -> None:
    place = folder(tmp_path / "backup")
    with Broker(tmp_path / "broker", release) as broker:
        broker.start()
        create_topics(broker.bootstrap, {"work": Topic(1, {})})
        java_produce(broker.bootstrap, "work", [ProducerRecord(value, b"k") for value in VALUES])
        assert read_as_group(broker, 6) == VALUES[:6]
        broker.stop()
        back_up(broker.log_dir, place)
        broker.start()
        assert read_as_group(broker, 3) == VALUES[6:9]
        broker.stop()

        restore_backup(place, find_cut(place), str(tmp_path / "restored"))
        broker.start(log_dir=tmp_path / "restored")
        assert committed_offsets(broker.bootstrap, "readers")["work", 0][0] == 6
        assert read_as_group(broker, 4) == VALUES[6:]
        assert broker.problems() == []
