"""What other processes do to partitions that the gateway has open."""

from __future__ import annotations

import errno
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from pyspark_commitlog.gateway.partitions.appender import Appender
from pyspark_commitlog.gateway.partitions.file_partition import FilePartition
from pyspark_commitlog.gateway.partitions.follower import Follower, LogStarts
from pyspark_commitlog.gateway.partitions.led_partition import Waits
from pyspark_commitlog.gateway.partitions.open_partitions import Partitions
from pyspark_commitlog.gateway.partitions.topics import Topics
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import LogManager
from tests.support.gateway import WireClient, fetch_fields, produce_fields
from tests.support.logs.building import batch
from tests.support.waiting import soon

OUT_OF_RANGE = 1


def first_offset(client: WireClient, topic: str, partition: int) -> int:
    asked = [{"name": topic, "partitions": [{"partition_index": partition, "timestamp": -2}]}]
    return int(client.ask(2, 1, replica_id=-1, topics=asked).topics[0].partitions[0].offset)


def test_records_that_a_command_deletes_are_gone_though_no_segment_is_removed(
    gateway: Gateway, client: WireClient, topic: str
) -> None:
    for partition in (0, 1):
        client.ask(0, 8, **produce_fields(topic, batch(b"a", b"b", b"c").tobytes(), partition=partition))
    with LogManager.open(gateway.context.log_dir) as manager:
        for before in (1, 2):
            manager.open_log(topic, 0).delete_records(before)
            soon(lambda before=before: first_offset(client, topic, 0) == before)  # type: ignore[misc]
    answer: Any = client.ask(1, 11, **fetch_fields(topic, 0))
    assert answer.responses[0].partitions[0].error_code == OUT_OF_RANGE
    assert first_offset(client, topic, 1) == 0


def test_the_checkpoint_of_log_starts_is_read_only_after_it_was_written(tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path), create=True) as manager:
        manager.create_topic("t", partitions=1)
        manager.open_log("t", 0).append(batch(b"a", b"b"))
        starts = LogStarts(LogManager.open(str(tmp_path)))
        assert starts.all() is starts.all()
        manager.open_log("t", 0).delete_records(1)
        assert starts.all() == {("t", 0): 1}
        assert starts.all() is starts.all()
        starts.close()


def test_a_log_start_that_is_raised_while_a_partition_is_opened_is_found(tmp_path: Path) -> None:
    """The log was read before the deletion, and is among the open partitions only after the checkpoint was read."""
    with LogManager.open(str(tmp_path), create=True) as other:
        other.create_topic("t", partitions=1)
        other.open_log("t", 0).append(batch(b"a", b"b"))
        with LogManager.open(str(tmp_path)) as own, closing(Topics(LogManager.open(str(tmp_path)))) as topics:
            partitions, appender = Mock(spec=Partitions, waits=Waits()), Mock(spec=Appender)
            appender.change = lambda led, change, _: led.change([change])
            follower = Follower(partitions, topics, appender, LogStarts(LogManager.open(str(tmp_path))))
            led = FilePartition("t", 0, own.open_log("t", 0))
            other.open_log("t", 0).delete_records(1)
            for opened in ([], [led]):
                partitions.all.return_value = opened
                follower._look_at_directories()
            assert led.log_start_offset == 1
            follower._starts.close()


def test_a_checkpoint_that_could_not_be_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LogManager.open(str(tmp_path), create=True) as manager:
        manager.create_topic("t", partitions=1)
        manager.open_log("t", 0).append(batch(b"a", b"b"))
        starts = LogStarts(LogManager.open(str(tmp_path)))
        manager.open_log("t", 0).delete_records(1)
        with monkeypatch.context() as patched:
            patched.setattr(LogManager, "offsets", Mock(side_effect=OSError(errno.EMFILE, "too many open files")))
            with pytest.raises(OSError, match="too many"):
                starts.all()
        assert starts.all() == {("t", 0): 1}
        starts.close()
