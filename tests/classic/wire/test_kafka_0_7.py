"""The client of 0.7 against our gateway of 0.7 over a recorded log: the answers that a real client got."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyspark_commitlog.classic.errors import BrokerError, BrokerUnreachableError
from pyspark_commitlog.classic.gateway_0_7.config import PositionGatewayConfig
from pyspark_commitlog.classic.gateway_0_7.server import PositionGateway
from pyspark_commitlog.classic.log_0_7.entries import encode
from pyspark_commitlog.classic.requests_0_7 import Code, Fetch, Offsets, Produce
from pyspark_commitlog.classic.wire.connection import Address, Connection
from pyspark_commitlog.classic.wire.kafka_0_7 import PositionBroker, PositionSet
from pyspark_commitlog.storage import CorruptRecordError, OffsetOutOfRangeError
from tests.support.classic.kafka_0_7 import (
    RECORDED_AT_MS,
    consumed,
    consumed_as_recorded,
    recorded,
    settings_of,
    unpacked,
)
from tests.support.clock import ManualClock


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PositionBroker]:
    log_dir = unpacked("main", tmp_path_factory.mktemp("main")) / "log"
    config = PositionGatewayConfig(port=0, threads=2, logs=settings_of("main"))
    with (
        PositionGateway(str(log_dir), config, clock=ManualClock(RECORDED_AT_MS)) as server,
        Connection(Address(*server.address)) as connection,
    ):
        yield PositionBroker(connection)


def test_every_recorded_fetch_gives_the_recorded_messages(broker: PositionBroker) -> None:
    answers = [one for one in recorded("main/fetch.json.xz") if "errorCode" in one]
    assert len(answers) > 850
    for one in answers:
        found = broker.fetch(Fetch(one["topic"], one["partition"], one["offset"], one["size"]))
        assert (found.code, len(found.message_set) + 2) == (one["errorCode"], one["sizeInBytes"])
        if found.code == Code.NONE:
            assert consumed(found.message_set, one["offset"]) == consumed_as_recorded(one)


def test_a_multi_fetch_is_answered_in_the_order_in_which_it_was_asked(broker: PositionBroker) -> None:
    asked = [Fetch("alpha", 0, 0, 1000), Fetch("nobody", 0, 0, 1000), Fetch("alpha", 0, 10**9, 10)]
    found = broker.multi_fetch(asked)
    assert [each.asked for each in found] == asked
    assert [each.code for each in found] == [0, 0, 1]
    assert [len(each.message_set) for each in found] == [1000, 0, 0]
    assert broker.fetch(asked[0]) == found[0]
    assert broker.multi_fetch([]) == []


def test_every_recorded_multi_fetch_gives_the_recorded_sets(broker: PositionBroker) -> None:
    for one in recorded("main/multifetch.json.xz"):
        found = broker.multi_fetch([Fetch(*each) for each in one["requests"]])
        for each, wanted in zip(found, one["sets"], strict=True):
            assert (each.code, len(each.message_set)) == (wanted["errorCode"], wanted["sizeInBytes"])
            if each.code == Code.NONE:
                assert consumed(each.message_set, each.asked.position) == consumed_as_recorded(wanted)


def test_positions_before_a_time_are_those_that_were_recorded(broker: PositionBroker) -> None:
    answers = recorded("main/offsets.json.xz")["asked"]
    assert answers
    for one in answers:
        asked = Offsets(one["topic"], one["partition"], one["time"], one["max"])
        if "offsets" in one:
            assert broker.offsets_before(asked) == one["offsets"]
        else:  # a partition that the topic does not have: the broker closed the connection
            with pytest.raises(BrokerUnreachableError):
                broker.offsets_before(asked)


def test_a_produced_set_is_fetched(broker: PositionBroker) -> None:
    one, two = encode(b"one"), encode(b"two")
    broker.produce([Produce("new", 0, one)])
    broker.produce([Produce("new", 0, two), Produce("other", 0, memoryview(one))])
    found = broker.multi_fetch([Fetch("new", 0, 0, 100), Fetch("other", 0, 0, 100)])
    assert [bytes(each.message_set) for each in found] == [one + two, one]


ERRORS = [
    (Code.OFFSET_OUT_OF_RANGE, OffsetOutOfRangeError, "t, partition 0, position 7"),
    (Code.INVALID_MESSAGE, CorruptRecordError, "damaged"),
    (Code.WRONG_PARTITION, BrokerError, "WRONG_PARTITION"),
    (99, BrokerError, "an unknown error code of Kafka 0.7 (99)"),
]


@pytest.mark.parametrize(("code", "kind", "text"), ERRORS)
def test_a_code_is_the_error_that_it_stands_for(code: int, kind: type[Exception], text: str) -> None:
    asked = Fetch("t", 0, 7, 10)
    error = PositionSet(asked, code, memoryview(b"")).error
    assert isinstance(error, kind)
    assert text in str(error)
    assert PositionSet(asked, Code.NONE, memoryview(b"")).error is None


def test_a_request_that_the_broker_closes_the_connection_for_fails(broker: PositionBroker) -> None:
    with pytest.raises(BrokerUnreachableError, match="closed the connection"):
        broker.offsets_before(Offsets("not/a/topic" * 30, 0, -1, 1))
    assert broker.multi_fetch([]) == []
