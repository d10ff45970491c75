"""Open transactions that came with a log: those that no coordinator knows are logged, once, with the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.storage import LogManager
from tests.support.gateway import WireClient, fetch_fields, serving, set_config
from tests.support.logs.building import write_transactional
from tests.support.transactions import WireProducer


def test_a_transaction_of_nobody_is_logged_once_with_the_command_that_ends_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with LogManager.open(str(tmp_path), create=True) as manager:
        manager.create_topic("t", partitions=1)
        write_transactional(manager.open_log("t", 0), 777, 0, b"nobody's", epoch=2)
    with serving(tmp_path) as gateway, WireClient(gateway) as client:
        client.ask(1, 11, **fetch_fields("t", 0))
        set_config(client, "t", "retention.ms", "-1")  # which opens the partition again
        client.ask(1, 11, **fetch_fields("t", 0))
    (told,) = [each.message for each in caplog.records if "transactions" in each.message]
    assert told.startswith("t-0: open transaction from offset 0, producer 777, epoch 2")
    assert told.endswith(f"--log-dir {tmp_path} --abort --topic t --partition 0 --start-offset 0")


def test_a_transaction_of_a_client_that_is_open_at_a_restart_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(tmp_path) as gateway, WireClient(gateway) as client:
        client.ask(3, 4, topics=[{"name": "t"}], allow_auto_topic_creation=True)
        producer = WireProducer(client, "id")
        assert not producer.init().error
        assert producer.add("t") == producer.produce("t", b"open") == 0
    with serving(tmp_path) as gateway, WireClient(gateway) as client:
        client.ask(1, 11, **fetch_fields("t", 0))
    assert not [each for each in caplog.records if "--abort" in each.message]
