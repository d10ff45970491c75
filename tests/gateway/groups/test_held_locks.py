"""Coordinators and administrators while another process holds the lock of a partition, perhaps since it is paused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.gateway import parts
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.storage import (
    APPEND_LOCK_FILE,
    GROUP_METADATA_TOPIC,
    ROOT_LOCK_FILE,
    TRANSACTION_STATE_TOPIC,
    LocalFileSystem,
    LogManager,
    positive_hash,
)
from tests.support.gateway import WireClient, create_topic, fetch_fields, produce_fields, serving
from tests.support.logs.building import batch, rows
from tests.support.waiting import soon

HELD, FREE = 0, 1  # partitions of an internal topic
NAMES = {number: next(f"n{i}" for i in range(100) if positive_hash(f"n{i}") % 2 == number) for number in (HELD, FREE)}


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WireClient]:
    for name in ("HELD_S", "COORDINATORS_HELD_S"):
        monkeypatch.setattr(parts, name, 0.05)
    settings = {"offsets_topic_num_partitions": 2, "transaction_state_log_num_partitions": 2}
    with serving(tmp_path / "log", **settings) as gateway, WireClient(gateway) as connected:
        create_topic(connected, "t")
        for number in (HELD, FREE):
            assert commit(connected, number) is ErrorCode.none
            assert init(connected, number) is ErrorCode.none
        yield connected


@contextmanager
def held(directory: Path, topic: str) -> Iterator[None]:
    """Another process holds the lock of a partition."""
    with held_file(directory / "log" / f"{topic}-{HELD}" / APPEND_LOCK_FILE):
        yield


@contextmanager
def held_file(path: Path) -> Iterator[None]:
    lock = LocalFileSystem().lock(str(path))
    assert lock is not None
    with lock:
        yield


def commit(client: WireClient, number: int) -> ErrorCode:
    """Commits an offset of a group in a partition of ``__consumer_offsets``."""
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    topics: list[Any] = [{"name": "t", "partitions": [partition]}]
    fields = {"group_id": NAMES[number], "generation_id": -1, "member_id": "", "topics": topics}
    return ErrorCode(client.ask(8, 5, **fields).topics[0].partitions[0].error_code)


def init(client: WireClient, number: int) -> ErrorCode:
    """Begins a producer with a transactional id in a partition of ``__transaction_state``."""
    return ErrorCode(client.ask(22, 1, transactional_id=NAMES[number], transaction_timeout=60_000).error_code)


@pytest.mark.parametrize(("topic", "use"), [(GROUP_METADATA_TOPIC, commit), (TRANSACTION_STATE_TOPIC, init)])
def test_what_a_held_lock_stops_is_refused_and_the_rest_goes_on(
    client: WireClient, tmp_path: Path, topic: str, use: Any
) -> None:
    with held(tmp_path, topic):
        for _ in range(3):
            assert use(client, HELD) is ErrorCode.coordinator_not_available
            assert use(client, FREE) is ErrorCode.none
    soon(lambda: use(client, HELD) is ErrorCode.none)


def test_a_topic_whose_deletion_a_held_lock_stops_is_there_again(client: WireClient, tmp_path: Path) -> None:
    def delete() -> ErrorCode:
        return ErrorCode(client.ask(20, 3, topic_names=["t"], timeout_ms=1000).responses[0].error_code)

    produced = client.ask(0, 8, **produce_fields("t", batch(b"a").tobytes()))
    assert not produced.responses[0].partition_responses[0].error_code
    with held(tmp_path, "t"):
        assert delete() is ErrorCode.request_timed_out
        create_topic(client, "other")  # by the same thread
    soon(lambda: client.ask(1, 11, **fetch_fields("t", 0)).responses[0].partitions[0].high_watermark == 1)
    assert delete() is ErrorCode.none


def test_while_the_lock_of_the_directory_is_held_segments_are_rolled_and_changes_of_topics_refused(
    client: WireClient, tmp_path: Path
) -> None:
    create_topic(client, "rolls", segment_bytes="200")
    values = [b"%d" % number * 100 for number in range(6)]

    def produce(value: bytes) -> int:
        answer = client.ask(0, 8, **produce_fields("rolls", batch(value).tobytes()))
        return int(answer.responses[0].partition_responses[0].error_code)

    with held_file(tmp_path / "log" / ROOT_LOCK_FILE):
        assert [produce(value) for value in values] == [0] * 6
        new = {"name": "new", "num_partitions": 1, "replication_factor": 1}
        (refused,) = client.ask(19, 4, topics=[new], timeout=1000).topics
        assert (refused.error_code, "is it paused?" in refused.error_message) == (7, True)
        cut = [{"name": "rolls", "partitions": [{"partition_index": 0, "offset": 2}]}]
        assert client.ask(21, 1, topics=cut, timeout=1000).topics[0].partitions[0].error_code == 7
    create_topic(client, "new")
    with LogManager.open(str(tmp_path / "log")) as manager, manager.open_reader("rolls", 0) as reader:
        assert rows(reader) == list(enumerate(values))
    assert client.ask(21, 1, topics=cut, timeout=1000).topics[0].partitions[0].low_watermark == 2
