"""Fetch requests and answers that structs read and write at once are those that are read and written one by one."""

from __future__ import annotations

from typing import Any
from unittest import mock
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.protocol import fetch
from pyspark_commitlog.protocol.apis import APIS, ApiKey
from pyspark_commitlog.protocol.bodies import ErrorCode, read_request
from pyspark_commitlog.protocol.fetch import Fetched, encode_fetched, parse_fetch
from pyspark_commitlog.protocol.reading import MalformedRequestError
from tests.support.gateway import request_body

INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
VERSIONS = range(APIS[ApiKey.FETCH].lowest, APIS[ApiKey.FETCH].highest + 1)
BY_ID = st.integers(fetch._BY_ID_FROM, VERSIONS[-1])
ONE = st.builds(
    Fetched,
    st.uuids(),
    st.integers(0, 2**31 - 1),
    st.sampled_from(ErrorCode),
    INT64,
    INT64,
    INT64,
    st.sampled_from([None, ()]),
    st.none() | st.binary(max_size=300),
)
NUMBERS = {"max_wait": INT32, "min_bytes": INT32, "max_bytes": INT32, "session_id": INT32, "session_epoch": INT32}
PARTITION = st.fixed_dictionaries(
    {
        "partition": INT32,
        "current_leader_epoch": INT32,
        "fetch_offset": INT64,
        "last_fetched_epoch": INT32,
        "log_start_offset": INT64,
        "partition_max_bytes": INT32,
    }
)
ASKED = st.fixed_dictionaries(
    {
        **NUMBERS,
        "replica_id": st.just(-1),
        "isolation_level": st.integers(0, 1),
        "topics": st.lists(
            st.fixed_dictionaries(
                {"topic": st.just("t"), "topic_id": st.uuids(), "partitions": st.lists(PARTITION, max_size=3)}
            ),
            max_size=2,
        ),
    }
)


@given(ASKED, st.sampled_from([each for each in VERSIONS if each >= fetch.COMMITTED_FROM]))
def test_a_request_has_the_fields_that_kio_reads(asked: dict[str, Any], version: int) -> None:
    frame = bytearray(request_body(ApiKey.FETCH, version, asked))
    found, theirs = parse_fetch(frame, 0, version), read_request(ApiKey.FETCH, version, frame, 0)
    assert (found.max_wait_ms, found.min_bytes, found.max_bytes) == (
        asked["max_wait"],
        asked["min_bytes"],
        theirs.max_bytes,
    )
    assert found.is_committed_only == (theirs.isolation_level == 1)
    assert (found.session_id, found.session_epoch) == (
        getattr(theirs, "session_id", 0),
        getattr(theirs, "session_epoch", -1),
    )
    assert [tuple(each) for each in found.partitions] == [
        (
            topic.topic_id if version >= fetch._BY_ID_FROM else topic.topic,
            each.partition,
            getattr(each, "current_leader_epoch", -1),
            each.fetch_offset,
            each.partition_max_bytes,
        )
        for topic in theirs.topics
        for each in topic.partitions
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_that_ends_too_early_is_malformed(version: int) -> None:
    with pytest.raises(MalformedRequestError):
        parse_fetch(bytearray(7), 0, version)


@given(ONE, BY_ID)
def test_an_answer_for_one_partition_has_the_bytes_of_the_general_way(answer: Fetched[bytes], version: int) -> None:
    with mock.patch.object(fetch, "_encode_all", side_effect=AssertionError):
        written = b"".join(encode_fetched([answer], version))
    assert written == b"".join(fetch._encode_all([answer], version, ErrorCode.none))


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ([Fetched(UUID(int=1), 0, aborted=[(1, 2)])], ErrorCode.none),
        ([Fetched(UUID(int=1), 0)], ErrorCode.fetch_session_id_not_found),
        ([Fetched(UUID(int=1), 0), Fetched(UUID(int=1), 1)], ErrorCode.none),
    ],
    ids=["an aborted transaction", "an error of the whole", "two partitions"],
)
def test_any_other_answer_is_written_value_by_value(answers: list[Fetched[bytes]], error: ErrorCode) -> None:
    with mock.patch.object(fetch, "_encode_one", side_effect=AssertionError):
        assert encode_fetched(answers, 17, error)
