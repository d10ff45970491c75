"""Produce: requests and answers for one partition are those of the general way; varints of any length."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.protocol import produce
from pyspark_commitlog.protocol.apis import APIS, ApiKey
from pyspark_commitlog.protocol.bodies import ErrorCode, read_answer, write_request
from pyspark_commitlog.protocol.produce import Produced, ProduceRequest, encode_produced, parse_produce
from pyspark_commitlog.protocol.reading import MalformedRequestError, RequestReader
from pyspark_commitlog.storage import unsigned_varint

INT64 = st.integers(-(2**63), 2**63 - 1)
ONE = st.builds(
    Produced,
    st.text(st.characters(codec="utf-8"), max_size=249),
    st.integers(0, 2**31 - 1),
    st.sampled_from(ErrorCode),
    INT64,
    INT64,
    INT64,
    record_errors=st.just(()),
    message=st.none(),
)
VERSIONS = st.integers(APIS[ApiKey.PRODUCE].lowest, APIS[ApiKey.PRODUCE].highest)


@given(ONE, VERSIONS)
def test_an_answer_for_one_partition_has_the_bytes_of_the_general_way(answer: Produced, version: int) -> None:
    assert encode_produced([answer], version) == produce._encode_all([answer], version)


@pytest.mark.parametrize("version", range(3, APIS[ApiKey.PRODUCE].highest + 1))
def test_an_answer_for_one_partition_is_read_by_kio(version: int) -> None:
    data = encode_produced([Produced("t" * 200, 3, base_offset=5, log_append_time_ms=7)], version)
    (topic,) = read_answer(ApiKey.PRODUCE, version, data, 0).responses
    assert (topic.name, [each.base_offset for each in topic.partition_responses]) == ("t" * 200, [5])


@pytest.mark.parametrize("refused", [{"record_errors": [(0, "why")]}, {"message": "why"}], ids=["records", "message"])
def test_a_refusal_with_its_reason_is_written_value_by_value(refused: dict[str, object]) -> None:
    answer = Produced("t", 0, ErrorCode.invalid_record)._replace(**refused)
    with mock.patch.object(produce, "_encode_one", side_effect=AssertionError):
        assert b"why" in encode_produced([answer], 9)


@given(st.integers(0, 2**32 - 1))
def test_a_varint_of_any_length_is_read(value: int) -> None:
    data = memoryview(unsigned_varint(value) + b"\1")
    reader = RequestReader(data, 0, is_flexible=True)
    assert reader._uvarint() == value
    assert reader.position == len(data) - 1


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x80\x80\x80\x80"])
def test_a_varint_that_ends_too_early_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedRequestError):
        RequestReader(memoryview(data), 0, is_flexible=True)._uvarint()


def test_a_text_is_no_longer_than_a_log_can_store() -> None:
    """Its length could say more in flexible versions, but no record of a group has room for that."""
    text = b"x" * 40_000
    assert RequestReader(memoryview(b"\x80\x80\x02" + text), 0, is_flexible=True).string() == "x" * 32_767
    for length in (b"\x81\x80\x02", b"\xff\xff\xff\xff\x07"):
        with pytest.raises(MalformedRequestError):
            RequestReader(memoryview(length + text), 0, is_flexible=True).string()


FLEXIBLE = APIS[ApiKey.PRODUCE].flexible_from
NAMES = st.text(st.characters(codec="utf-8"), max_size=249)
RECORDS = st.one_of(st.none(), st.binary(max_size=300), st.integers(2**14 - 3, 2**14 + 3).map(bytes))
TOPICS = st.lists(
    st.fixed_dictionaries(
        {
            "name": NAMES,
            "partition_data": st.lists(
                st.fixed_dictionaries({"index": st.integers(-(2**31), 2**31 - 1), "records": RECORDS}), max_size=2
            ),
        }
    ),
    max_size=2,
)
REQUESTS = st.fixed_dictionaries(
    {"transactional_id": st.none() | NAMES, "acks": st.integers(-2, 2), "topic_data": TOPICS}
)
ONE_PARTITION = {
    "acks": -1,
    "topic_data": [{"name": "tópico", "partition_data": [{"index": 3, "records": bytes(range(256)) * 64}]}],
}


def parsed(parse: Callable[[bytes, int, int], ProduceRequest], frame: bytes, version: int) -> object:
    """What a way to parse finds after three bytes of a header: plain values, or that the request is malformed."""
    try:
        found = parse(frame, 3, version)
    except MalformedRequestError:
        return "malformed"
    records = [None if each.records is None else bytes(each.records) for each in found.partitions]
    return found._replace(partitions=[each[:2] for each in found.partitions]), records


@given(REQUESTS, st.integers(3, APIS[ApiKey.PRODUCE].highest))
def test_a_request_is_parsed_as_by_the_general_way(fields: dict[str, object], version: int) -> None:
    frame = b"key" + write_request(ApiKey.PRODUCE, version, fields)
    assert parsed(parse_produce, frame, version) == parsed(produce._parse_all, frame, version)


def test_a_usual_request_needs_no_general_way() -> None:
    frame = b"key" + write_request(ApiKey.PRODUCE, FLEXIBLE, ONE_PARTITION)
    with mock.patch.object(produce, "_parse_all", side_effect=AssertionError):
        (partition,) = parse_produce(frame, 3, FLEXIBLE).partitions
    assert (partition.topic, partition.partition, len(partition.records or b"")) == ("tópico", 3, 2**14)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 255)), max_size=3), st.integers(0, 40), st.booleans())
def test_a_damaged_request_is_parsed_as_by_the_general_way(
    changes: list[tuple[int, int]], cut: int, is_cut: bool
) -> None:
    one = {**ONE_PARTITION, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": b"records"}]}]}
    frame = bytearray(b"key" + write_request(ApiKey.PRODUCE, FLEXIBLE, one))
    for at, byte in changes:
        frame[at % len(frame)] = byte
    damaged = bytes(frame[: cut if is_cut else None])
    assert parsed(parse_produce, damaged, FLEXIBLE) == parsed(produce._parse_all, damaged, FLEXIBLE)
