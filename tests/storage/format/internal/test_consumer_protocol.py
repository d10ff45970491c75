"""The consumers' own protocol, in the versions of Kafka's clients."""

from __future__ import annotations

import pytest

from pyspark_commitlog.storage import InvalidRecordError
from pyspark_commitlog.storage.format.internal.consumer_protocol import (
    Assignment,
    Subscription,
    consumer_protocol_version,
    decode_assignment,
    decode_subscription,
    decode_whole_assignment,
    decode_whole_subscription,
    encode_assignment,
)
from pyspark_commitlog.storage.format.internal.internal_topics import TopicPartitions

TOPICS = bytes.fromhex("00000002 0001 61 0002 6262")
NO_DATA = bytes.fromhex("ffffffff")
OWNED = bytes.fromhex("00000001 0001 61 00000002 00000000 00000003")
VERSION_0 = b"\0\0" + TOPICS + NO_DATA
VERSION_3 = b"\0\3" + TOPICS + NO_DATA + OWNED + bytes.fromhex("00000007 0001 72")
A = (TopicPartitions("a", (0, 3)),)


def test_topics_are_read_from_every_version_of_a_subscription() -> None:
    newer = b"\x7f\xff" + VERSION_3[2:] + b"more"
    assert [decode_subscription(data).topics for data in (VERSION_0, VERSION_3, newer)] == [("a", "bb")] * 3


def test_a_whole_subscription_has_the_fields_of_its_version() -> None:
    assert decode_whole_subscription(VERSION_0) == Subscription(("a", "bb"))
    assert decode_whole_subscription(VERSION_3) == Subscription(("a", "bb"), None, A, 7, "r")
    assert decode_whole_subscription(b"\0\1" + TOPICS + NO_DATA + OWNED) == Subscription(("a", "bb"), None, A)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0" + TOPICS, VERSION_3[:-1]])
def test_a_whole_subscription_that_ends_too_early_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecordError):
        decode_whole_subscription(data)


def test_an_assignment_is_written_in_the_version_of_its_reader() -> None:
    for version in (0, 1, 2, 3):
        data = encode_assignment(version, Assignment(A))
        assert data == version.to_bytes(2) + OWNED + NO_DATA
        assert (decode_assignment(data), decode_whole_assignment(data)) == (Assignment(A), Assignment(A))
    assert consumer_protocol_version(encode_assignment(9, Assignment(A))) == 3


def test_the_data_of_an_assignor_is_read_with_a_whole_assignment() -> None:
    data = b"\0\0" + OWNED + bytes.fromhex("00000002 abcd")
    assert decode_whole_assignment(data).user_data == b"\xab\xcd"
    assert decode_whole_assignment(b"") == Assignment()
