"""A partition whose log is damaged: what is sound is served, nothing is appended or cut off, and the place is named."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import kafka
import kafka.errors
import numpy as np
import pytest

from pyspark_commitlog.gateway.metrics import GatewayMetrics
from pyspark_commitlog.gateway.partitions import file_reading
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.verify.findings import Kind
from pyspark_commitlog.storage.verify.log import verify_log
from tests.support.gateway import WireClient, fetch_fields, produce_fields, serving
from tests.support.logs.building import append, batch, now_ms

COUNT, SOUND = 5, 4  # batches of one record each
CORRUPT_MESSAGE = 2


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A directory with topic ``t``, closed cleanly; the last batch of its one segment is damaged."""
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("t", partitions=1)
        for number in range(COUNT):
            append(manager.open_log("t", 0), b"%d" % number * 200, timestamps=now_ms())
    flip(tmp_path / "log", -20)
    (tmp_path / "log" / "t-0" / f"{0:020}.index").unlink()  # so that the segment is recovered
    return tmp_path / "log"


def file_of(log: Path) -> Path:
    return log / "t-0" / f"{0:020}.log"


def flip(log: Path, at: int) -> None:
    data = bytearray(file_of(log).read_bytes())
    data[at] ^= 1
    file_of(log).write_bytes(data)


@pytest.fixture
def gateway(log: Path) -> Iterator[Gateway]:
    with serving(log) as started:
        yield started


@pytest.fixture
def client(gateway: Gateway) -> Iterator[WireClient]:
    with WireClient(gateway) as connected:
        yield connected


def fetched(client: WireClient, offset: int, version: int = 11, **more: Any) -> tuple[int, list[int]]:
    """The error, and the offsets of the records."""
    answer = client.ask(1, version, **fetch_fields("t", offset, **more)).responses[0].partitions[0]
    buffer = np.frombuffer(answer.records or b"", dtype=np.uint8)
    headers = formats.scan(buffer).headers
    offsets = formats.decode(buffer, headers).records.offsets.tolist() if len(headers) else []
    return int(answer.error_code), offsets


def listed(client: WireClient, time_ms: int, version: int = 1) -> tuple[int, int]:
    asked = {"partition_index": 0, "timestamp": time_ms}
    answer = client.ask(2, version, replica_id=-1, isolation_level=0, topics=[{"name": "t", "partitions": [asked]}])
    return int(answer.topics[0].partitions[0].error_code), answer.topics[0].partitions[0].offset


def produced(client: WireClient) -> int:
    answer = client.ask(0, 8, **produce_fields("t", batch(b"more", timestamps=now_ms()).tobytes()))
    return int(answer.responses[0].partition_responses[0].error_code)


@pytest.mark.parametrize("version", [0, 2, 3, 4, 11])
def test_the_records_before_the_damage_are_served_and_then_the_error(client: WireClient, version: int) -> None:
    assert fetched(client, 0, version) == (0, list(range(SOUND)))
    assert fetched(client, 2, version)[1][-1] == SOUND - 1
    assert fetched(client, SOUND, version) == (CORRUPT_MESSAGE, [])


@pytest.mark.parametrize("isolation", [0, 1])
def test_readers_of_both_levels_get_them(client: WireClient, isolation: int) -> None:
    assert fetched(client, 0, isolation_level=isolation) == (0, list(range(SOUND)))


def test_the_offsets_of_the_log_are_listed(client: WireClient) -> None:
    assert listed(client, -2) == (0, 0)
    assert listed(client, -1) == (0, COUNT)
    assert listed(client, 0) == (0, 0)
    assert listed(client, now_ms() + 60_000)[0] == CORRUPT_MESSAGE, "the damaged batch may be the one"


def test_nothing_is_appended_and_nothing_is_cut_off(log: Path, client: WireClient) -> None:
    before = file_of(log).read_bytes()
    assert fetched(client, 0)[0] == 0
    assert produced(client) == CORRUPT_MESSAGE
    asked = {"name": "t", "partitions": [{"partition_index": 0, "offset": 1}]}
    answer = client.ask(21, 1, topics=[asked], timeout=1000)
    assert answer.topics[0].partitions[0].error_code == CORRUPT_MESSAGE
    assert file_of(log).read_bytes() == before


def test_the_place_is_logged_and_in_the_metrics_once(
    log: Path, gateway: Gateway, client: WireClient, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_reading, "LOOK_S", 0.0)
    with caplog.at_level(logging.ERROR):
        for offset in (0, SOUND, SOUND, 0):
            fetched(client, offset)
            file_of(log).touch()  # the log is opened again
        produced(client)
    position = file_of(log).stat().st_size // COUNT * SOUND
    said = [each for each in caplog.messages if f"{file_of(log)}, position {position}" in each]
    assert len(said) == 1
    (damage,) = (each for each in GatewayMetrics(gateway.figures).collect() if each.name == "commitlog_gateway_damage")
    assert [each.labels for each in damage.samples] == [{"file": str(file_of(log)), "position": str(position)}]


def test_a_repaired_log_is_written_again(log: Path, client: WireClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_reading, "LOOK_S", 0.0)
    assert produced(client) == CORRUPT_MESSAGE
    flip(log, -20)
    assert produced(client) == 0
    assert fetched(client, 0) == (0, list(range(COUNT + 1)))


@pytest.fixture
def rolled(tmp_path: Path) -> tuple[Path, int]:
    """A directory with topic ``t``, whose first segment is closed, and the size of each of its batches."""
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("t", partitions=1)
        opened = manager.open_log("t", 0)
        for number in range(COUNT):
            append(opened, b"%d" % number * 200, timestamps=now_ms())
        opened.roll()
        append(opened, b"last", timestamps=now_ms())
    return tmp_path / "log", file_of(tmp_path / "log").stat().st_size // COUNT


def test_damage_in_a_log_that_is_written_is_logged_when_a_client_gets_there(
    rolled: tuple[Path, int], caplog: pytest.LogCaptureFixture
) -> None:
    log, size = rolled
    flip(log, size * 2 + 16)  # the magic of the third batch
    with serving(log) as gateway, WireClient(gateway) as client, caplog.at_level(logging.ERROR):
        assert produced(client) == 0
        assert [fetched(client, 2)[0] for _ in range(3)] == [CORRUPT_MESSAGE] * 3
    assert len([each for each in caplog.messages if str(file_of(log)) in each]) == 1


def consume_all(gateway: Gateway, read: list[int]) -> None:
    """Adds the offsets to ``read`` that a consumer gets, from the first one on."""
    partition = kafka.TopicPartition("t", 0)
    with closing(kafka.KafkaConsumer(bootstrap_servers=str(gateway.address), max_poll_records=1)) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 0)
        while len(read) < COUNT:
            read += [each.offset for each in consumer.poll(10_000)[partition]]


def test_a_wrong_byte_in_a_closed_segment_is_found_by_the_client_and_by_verify(
    rolled: tuple[Path, int], caplog: pytest.LogCaptureFixture
) -> None:
    """The gateway sends batches that follow the first one unread, as a broker does: the client compares checksums."""
    log, size = rolled
    flip(log, size * 2 + 100)  # in the records of the third batch
    with serving(log) as gateway, WireClient(gateway) as client:
        read = list[int]()
        with pytest.raises(kafka.errors.CorruptRecordError, match=r"partition=0\) at offset 2 failed crc check"):
            consume_all(gateway, read)
        assert (read, [each for each in caplog.messages if str(file_of(log)) in each]) == ([0, 1], [])
        assert fetched(client, 2) == (CORRUPT_MESSAGE, [])  # the batch at which a fetch begins is read
        assert len([each for each in caplog.messages if f"{file_of(log)}, position {size * 2}" in each]) == 1
    with LogManager.open(str(log)) as manager, manager.open_reader("t", 0) as reader:
        [found] = verify_log(reader.context).findings
    assert (found.kind, found.path, found.lost) == (Kind.BAD_CHECKSUM, str(file_of(log)), (2, 2))
    flip(log, size * 2 + 100)  # as a copy has it
    with serving(log) as gateway, WireClient(gateway) as client:
        assert fetched(client, 2)[1][0] == 2
