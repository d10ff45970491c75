"""Batches that decompress to much: they are checked aside, and what one request may cost is bounded."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.gateway.handlers import produce
from pyspark_commitlog.storage.format.constants import Codec
from tests.support.gateway import WireClient, create_topic, fetch_fields, produce_fields, serving
from tests.support.logs.building import batch

MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE = 10, 18
LARGE = 3 << 20


def large(codec: Codec) -> bytes:
    return batch(bytes(LARGE), codec=codec).tobytes()


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY])
def test_large_batches_are_appended_in_the_order_of_the_requests(client: WireClient, topic: str, codec: Codec) -> None:
    records = [large(codec), batch(b"small").tobytes(), large(codec)]
    sent = [client.send(0, 8, **produce_fields(topic, each)) for each in records]
    answers = [client.answer(0, 8, each).responses[0].partition_responses[0] for each in sent]
    assert [(int(each.error_code), each.base_offset) for each in answers] == [(0, 0), (0, 1), (0, 2)]


def test_others_are_answered_while_a_large_batch_is_checked(
    client: WireClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce, "QUICK_BYTES", 0)
    fields = produce_fields(topic, large(Codec.ZSTD))
    fields["topic_data"][0]["partition_data"].append({"index": 1, "records": batch(b"behind").tobytes()})
    answer = client.ask(0, 8, **fields).responses[0].partition_responses
    assert [(int(each.error_code), each.base_offset) for each in answer] == [(0, 0), (0, 0)]


def test_a_request_decompresses_to_no_more_than_it_may(tmp_path: Path) -> None:
    with serving(tmp_path, commitlog_produce_max_decompressed_bytes=LARGE) as gateway, WireClient(gateway) as client:
        create_topic(client, "t", 3)
        data = [{"index": index, "records": large(Codec.ZSTD)} for index in range(3)]
        fields = {"acks": -1, "timeout": 1000, "topic_data": [{"name": "t", "partition_data": data}]}
        answer = client.ask(0, 8, **fields).responses[0].partition_responses
        assert [int(each.error_code) for each in answer] == [0, RECORD_LIST_TOO_LARGE, RECORD_LIST_TOO_LARGE]
        answer = client.ask(0, 8, **produce_fields("t", large(Codec.ZSTD))).responses[0].partition_responses
        assert [int(each.error_code) for each in answer] == [0]


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_batch_that_is_too_large_is_not_converted_for_an_old_client(tmp_path: Path, version: int) -> None:
    with (
        serving(tmp_path, commitlog_rewritten_max_decompressed_bytes=1 << 20) as gateway,
        WireClient(gateway) as client,
    ):
        create_topic(client, "t")
        for records in (large(Codec.GZIP), batch(b"small", codec=Codec.GZIP).tobytes()):
            client.ask(0, 8, **produce_fields("t", records))
        found = [client.ask(1, version, **fetch_fields("t", offset)) for offset in (0, 1)]
        assert [each.responses[0].partitions[0].error_code for each in found] == [MESSAGE_TOO_LARGE, 0]
