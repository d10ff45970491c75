"""Fetch of versions 0 to 3 where the log has nothing for their clients: markers, and batches that compaction emptied.

Such clients know only the offsets of messages: after an answer without any they would ask for the same offset for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyspark_commitlog.gateway.handlers.old import skipping
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.format import checksums
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.files.file_names import TopicPartition
from pyspark_commitlog.storage.format.tables import Bytes
from pyspark_commitlog.storage.recovery.producer_state import Origin
from pyspark_commitlog.storage.transfer.to_bucket import copy_to_bucket
from pyspark_commitlog.storage.writing.log import Log
from tests.storage.format.test_down_conversion import batch as batch_of
from tests.support.gateway import WireClient, fetch_fields, serving
from tests.support.kafka import broker_dirs
from tests.support.logs.building import append, end_transaction, replicated, rows, write_transactional
from tests.support.stores.served import ServedStores

VERSIONS = range(4)
MEDIA = ["directory", "object store"]
URL = "s3://memory/logs"
SMALL = {"segment.bytes": "400", "segment.index.bytes": "100"}
HAS_ZSTD = {"c-zstd", "txn-codec"}  # which old formats do not know
LAST_OFFSET_DELTA_AT, CRC_AT, CHECKED_FROM = 23, 17, 21

Row = tuple[int, bytes | None]


def emptied(*values: bytes, first: int, last: int, codec: Codec = Codec.NONE) -> Bytes:
    """A batch as compaction leaves it: its offsets reach up to ``last``, its records do not."""
    data = batch_of(*values, first=first, codec=codec).copy()
    data[LAST_OFFSET_DELTA_AT : LAST_OFFSET_DELTA_AT + 4] = np.frombuffer((last - first).to_bytes(4, "big"), np.uint8)
    checksum = checksums.crc32c(data[CHECKED_FROM:].tobytes())
    data[CRC_AT : CRC_AT + 4] = np.frombuffer(checksum.to_bytes(4, "big"), np.uint8)
    return data


def marker_at_the_end_of_each_segment(log: Log) -> None:
    for number in range(3):
        write_transactional(log, 7, number, b"%d" % number * 250)
        end_transaction(log, 7, commit=number != 1)


def segments_of_markers_only(log: Log) -> None:
    append(log, b"before")
    for _ in range(40):
        end_transaction(log, 7, commit=True)
    append(log, b"after" * 60)


def emptied_tail(log: Log, codec: Codec = Codec.NONE) -> None:
    for first, value in ((0, b"x" * 200), (9, b"y" * 200)):
        log.append(emptied(value, first=first, last=first + 8, codec=codec), origin=Origin.REPLICATION)
        log.roll()


def emptied_compressed_tail(log: Log) -> None:
    emptied_tail(log, Codec.GZIP)


def emptied_tail_before_a_batch(log: Log) -> None:
    log.append(emptied(b"x", first=0, last=8, codec=Codec.GZIP), origin=Origin.REPLICATION)
    log.append(replicated(b"y", base_offset=9), origin=Origin.REPLICATION)


def a_batch_above_the_limit_after_a_marker(log: Log) -> None:
    write_transactional(log, 7, 0, b"0" * 250)
    end_transaction(log, 7, commit=True)
    append(log, b"x" * 320)


CASES = [
    marker_at_the_end_of_each_segment,
    segments_of_markers_only,
    emptied_tail,
    emptied_compressed_tail,
    emptied_tail_before_a_batch,
    a_batch_above_the_limit_after_a_marker,
]


@pytest.fixture
def directory(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A log directory with topic ``t``, whose one partition is filled by the parameter."""
    configs = {**SMALL, "cleanup.policy": "compact"} if "emptied" in request.param.__name__ else SMALL
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("t", partitions=1, configs=configs)
        request.param(manager.open_log("t", 0))
    return tmp_path / "log"


@pytest.fixture
def expected(directory: Path) -> list[Row]:
    with LogManager.open(str(directory)) as manager:
        return rows(manager.open_reader("t", 0))


@pytest.fixture(params=MEDIA)
def gateway(
    directory: Path, expected: list[Row], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Gateway]:
    at = str(directory)
    if request.param == "object store":
        at, log = URL, ServedStores(monkeypatch).create(URL)
        copied(directory, log)
    with serving(at) as started:
        yield started


def copied(directory: Path, log: CommitLog) -> None:
    with LogManager.open(str(directory)) as source:
        list(copy_to_bucket(source, log, limit=400))


def whole_rows(data: bytes, offset: int) -> list[Row]:
    """The records from ``offset`` on in an answer, as an old client takes them from it."""
    buffer = np.frombuffer(data, dtype=np.uint8)
    records = formats.decode(buffer, formats.scan(buffer).headers).records
    assert records.values is not None
    found = zip(records.offsets.tolist(), records.values.to_list(), strict=True)
    return [row for row in found if row[0] >= offset]


def read_all(
    client: WireClient, version: int, topic: str = "t", partition: int = 0, start: int = 0, **more: Any
) -> list[Row]:
    """What a client gets that goes on after the last message of each answer, and ends at one without any."""
    found: list[Row] = []
    while True:
        offset = found[-1][0] + 1 if found else start
        fields = fetch_fields(topic, offset, **more)
        fields["topics"][0]["partitions"][0]["partition"] = partition
        answer = client.ask(1, version, **fields).responses[0].partitions[0]
        assert not answer.error_code
        part = whole_rows(answer.records or b"", offset)
        if not part:
            assert not answer.records
            return found
        found += part


@pytest.mark.parametrize("directory", CASES, indirect=True)
def test_an_old_client_gets_every_record(gateway: Gateway, expected: list[Row]) -> None:
    assert expected
    with WireClient(gateway) as client:
        for version in VERSIONS:
            assert read_all(client, version) == expected, version
            assert read_all(client, version, partition_max_bytes=450) == expected, version


@pytest.mark.parametrize("directory", [a_batch_above_the_limit_after_a_marker], indirect=True)
def test_a_message_after_a_marker_that_does_not_fit_is_cut_off_or_whole(gateway: Gateway) -> None:
    with WireClient(gateway) as client:
        for version in VERSIONS:
            fields = fetch_fields("t", 1, partition_max_bytes=100)
            records = client.ask(1, version, **fields).responses[0].partitions[0].records
            if version < 3:
                assert 12 <= len(records) <= 100, "the client sees that there is more"
                assert not whole_rows(records, 0)
            else:
                assert whole_rows(records, 1) == [(2, b"x" * 320)]


@pytest.mark.parametrize("directory", [segments_of_markers_only], indirect=True)
def test_a_search_beyond_the_work_of_one_request_goes_on_with_the_next(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skipping, "SEARCH_BYTES", 3 * skipping.READ_COST)
    with WireClient(gateway) as client:
        answers = [client.ask(1, 2, **fetch_fields("t", 1)).responses[0].partitions[0] for _ in range(10)]
        sizes = [len(each.records or b"") for each in answers]
        assert not any(each.error_code for each in answers)
        assert sizes[0] == 0
        assert sizes[-1] > 0
        assert whole_rows(answers[-1].records, 1) == [(41, b"after" * 60)]


@pytest.mark.parametrize(
    "stage", ["transactions/final", pytest.param("compaction/after-2", marks=pytest.mark.only_all)]
)
def test_an_old_client_gets_every_record_of_a_log_of_kafka(stage: str, tmp_path: Path) -> None:
    directory = broker_dirs.copy_to(tmp_path / "log", stage)
    with LogManager.open(str(directory)) as manager:
        logs = {
            TopicPartition(topic, partition): manager.open_reader(topic, partition)
            for topic, found in manager.topics().items()
            for partition in found.partitions
            if topic not in HAS_ZSTD and not topic.startswith("__")
        }
        expected = {name: rows(log) for name, log in logs.items()}
        starts = {name: log.log_start_offset for name, log in logs.items()}
    with serving(directory) as gateway, WireClient(gateway) as client:
        found = {name: read_all(client, 2, *name, start=start) for name, start in starts.items()}
    assert found == expected


@pytest.mark.parametrize("directory", CASES, indirect=True)
@pytest.mark.parametrize("isolation", [0, 1])
def test_a_newer_client_gets_every_batch(gateway: Gateway, directory: Path, isolation: int) -> None:
    with LogManager.open(str(directory)) as manager:
        end = manager.open_reader("t", 0).log_end_offset
    with WireClient(gateway) as client:
        offset = 0
        while offset < end:
            fields = fetch_fields("t", offset, partition_max_bytes=450, isolation_level=isolation)
            answer = client.ask(1, 11, **fields).responses[0].partitions[0]
            reached = formats.scan(np.frombuffer(answer.records, dtype=np.uint8)).headers.next_offset
            assert reached > offset
            offset = reached
