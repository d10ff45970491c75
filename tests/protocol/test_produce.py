"""Answers to Produce that one struct writes are those that are written value by value; varints of any length."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.protocol import MalformedRequestError, produce
from pyspark_commitlog.protocol.apis import APIS, ApiKey
from pyspark_commitlog.protocol.bodies import ErrorCode, read_answer
from pyspark_commitlog.protocol.produce import Produced, encode_produced
from pyspark_commitlog.protocol.reading import RequestReader
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
