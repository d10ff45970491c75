"""Fetch of versions 0 to 3, whose clients know message sets only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Timer
from typing import Any

import numpy as np
import pytest

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import Codec, format as formats
from tests.storage.format.test_down_conversion import batch
from tests.support.gateway import WireClient, fetch_fields, produce_fields, serving, set_config
from tests.support.logs.building import open_files

VERSIONS = range(4)
MAGIC = {0: 0, 1: 0, 2: 1, 3: 1}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that stores old formats, as a broker of Kafka 2 does."""
    with serving(tmp_path_factory.mktemp("gateway") / "log", inter_broker_protocol_version="2.8") as started:
        yield started


def fetched(client: WireClient, topic: str, version: int, offset: int = 0, **more: Any) -> Any:
    """The answer for the one partition."""
    return client.ask(1, version, **fetch_fields(topic, offset, **more)).responses[0].partitions[0]


def values(data: bytes) -> list[tuple[int, int, bytes | None]]:
    """Magic, offset and value of each record."""
    buffer = np.frombuffer(data, dtype=np.uint8)
    headers = formats.scan(buffer).headers
    records = formats.decode(buffer, headers).records
    assert records.values is not None
    return [
        (int(headers.table["magic"][0]), *row)
        for row in zip(records.offsets.tolist(), records.values.to_list(), strict=True)
    ]


def produce(client: WireClient, topic: str, *contents: bytes, codec: Codec = Codec.NONE) -> None:
    answer = client.ask(0, 8, **produce_fields(topic, batch(*contents, codec=codec).tobytes()))
    assert not answer.responses[0].partition_responses[0].error_code


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
@pytest.mark.parametrize("version", VERSIONS)
def test_record_batches_become_messages_of_the_version(
    client: WireClient, topic: str, version: int, codec: Codec
) -> None:
    produce(client, topic, b"a", b"b", codec=codec)
    produce(client, topic, b"c")
    answer = fetched(client, topic, version)
    assert (answer.error_code, answer.high_watermark) == (0, 3)
    assert values(answer.records) == [(MAGIC[version], 0, b"a"), (MAGIC[version], 1, b"b"), (MAGIC[version], 2, b"c")]
    assert values(fetched(client, topic, version, 2).records) == [(MAGIC[version], 2, b"c")]
    assert fetched(client, topic, version, 3).records == b""


@pytest.mark.parametrize(("setting", "magic"), [("0.8.2", 0), ("0.10.2", 1)])
def test_a_topic_in_an_old_format_is_read_by_new_clients_too(
    client: WireClient, topic: str, setting: str, magic: int
) -> None:
    set_config(client, topic, "message.format.version", setting)
    produce(client, topic, b"a", b"b")
    for version in (*VERSIONS, 4, 11):
        expected = min(magic, MAGIC.get(version, 2))
        assert values(fetched(client, topic, version).records) == [(expected, 0, b"a"), (expected, 1, b"b")]


@pytest.mark.parametrize("stored_as", ["0.8.0", "3.0-IV1"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_message_that_does_not_fit_is_cut_off_or_whole(
    client: WireClient, topic: str, version: int, stored_as: str
) -> None:
    set_config(client, topic, "message.format.version", stored_as)
    produce(client, topic, b"x" * 500)
    records = fetched(client, topic, version, partition_max_bytes=100).records
    if version < 3:
        assert values(records) == []
        assert 12 <= len(records) <= 100, "the client sees that there is more"
        assert fetched(client, topic, version, partition_max_bytes=0).records == b""
    else:
        assert [value for _, _, value in values(records)] == [b"x" * 500]


def test_only_the_first_partition_of_version_3_gets_a_message_that_does_not_fit(client: WireClient, topic: str) -> None:
    for partition in (0, 1):
        records = batch(b"x" * 500).tobytes()
        client.ask(0, 8, **produce_fields(topic, records, partition=partition))
    partitions = [{"partition": each, "fetch_offset": 0, "partition_max_bytes": 100} for each in (0, 1)]
    fields = fetch_fields(topic, 0, max_bytes=100)
    answer = client.ask(1, 3, **{**fields, "topics": [{"topic": topic, "partitions": partitions}]})
    assert [len(values(each.records)) for each in answer.responses[0].partitions] == [1, 0]


def test_zstd_is_an_error_of_the_partition(client: WireClient, topic: str) -> None:
    produce(client, topic, b"z", codec=Codec.ZSTD)
    assert fetched(client, topic, 2).error_code == 76
    assert fetched(client, topic, 10).error_code == 0


def test_a_topic_may_refuse_the_work_of_conversion(client: WireClient, topic: str) -> None:
    set_config(client, topic, "message.downconversion.enable", "false")
    produce(client, topic, b"a")
    assert fetched(client, topic, 3).error_code == 35
    assert fetched(client, topic, 4).error_code == 0


def test_an_answer_that_cannot_be_converted_leaves_no_file_open(
    gateway: Gateway, log_dir: Path, client: WireClient, topic: str
) -> None:
    produce(client, topic, b"z", codec=Codec.ZSTD)
    assert fetched(client, topic, 2).error_code == 76
    closed = Event()
    gateway.context.partitions.close_topic(topic, closed.set)
    assert closed.wait(30)
    assert open_files(log_dir / f"{topic}-0") == 0


def test_partitions_are_answered_in_the_order_in_which_they_were_asked_for(client: WireClient, topic: str) -> None:
    one = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}]
    topics = [{"topic": name, "partitions": one} for name in (topic, "nowhere", topic)]
    for version in (0, 3, 11):
        answer = client.ask(1, version, **{**fetch_fields(topic, 0), "topics": topics})
        assert [each.topic for each in answer.responses] == [topic, "nowhere", topic]
        assert [each.partitions[0].error_code for each in answer.responses] == [0, 3, 0]


def test_a_waiting_fetch_is_woken_by_records(gateway: Gateway, client: WireClient, topic: str) -> None:
    with WireClient(gateway) as other:
        late = Timer(0.1, lambda: produce(other, topic, b"late"))
        late.start()
        answer = fetched(client, topic, 1, max_wait=20_000)
        late.join()
        assert values(answer.records) == [(0, 0, b"late")]
