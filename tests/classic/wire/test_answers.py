"""Answers that real brokers sent, cut off or with other bytes: they are malformed, or an answer, and nothing else."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest

from pyspark_commitlog.classic.errors import BrokerError, ClientError, MalformedAnswerError
from pyspark_commitlog.classic.requests_0_7 import Fetch, Offsets
from pyspark_commitlog.classic.wire import calls
from pyspark_commitlog.classic.wire.broker import Broker
from pyspark_commitlog.classic.wire.calls import FetchFrom
from pyspark_commitlog.classic.wire.connection import Address
from pyspark_commitlog.classic.wire.kafka_0_7 import PositionBroker
from pyspark_commitlog.protocol.apis import ApiKey
from pyspark_commitlog.protocol.bodies import write_answer
from pyspark_commitlog.storage import (
    CorruptRecordError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    TopicPartition,
    UnknownTopicOrPartitionError,
)
from tests.support.recorded_wire import head_of, paired, recording, request_fields

OF_CODES = (
    BrokerError,
    OffsetOutOfRangeError,
    CorruptRecordError,
    UnknownTopicOrPartitionError,
    RecordTooLargeError,
)
RECORDINGS = ("0.8.2.2", "0.10.2.2")
OF_EACH = 2  # recorded answers of each version of a kind
BYTES_MAX = 600  # of an answer: all of its bytes are tried
ID_BYTES = 4

Ask = Callable[[Any], Any]


class Repeating:
    """In place of a connection: answers each request with the same bytes, behind its number."""

    address = Address("h", 1)

    def __init__(self, body: bytes, *, has_id: bool = True) -> None:
        self._body, self._has_id, self.is_ended = body, has_id, False

    def exchange(self, frame: bytes, *, again: bool = True) -> bytearray:
        return bytearray(frame[ID_BYTES : 2 * ID_BYTES] + self._body if self._has_id else self._body)

    def disconnect(self) -> None:
        self.is_ended = True


class Case(NamedTuple):
    """A call, and the body of the answer that a real broker gave to it."""

    ask: Ask
    body: bytes


def places(topics: Any, partitions: str = "partitions", topic: str = "name", partition: str = "partition_index") -> Any:
    return {TopicPartition(each[topic], part[partition]): part for each in topics for part in each[partitions]}


def _offsets_before(fields: Any, version: int) -> Ask:
    ((place, each),) = places(fields["topics"]).items()
    if version == 0:
        return lambda broker: calls.offsets_before(broker, place, each["timestamp"], each["max_num_offsets"])
    return lambda broker: calls.offset_at(broker, place, each["timestamp"], version=version)


def _fetch(fields: Any, version: int) -> Ask:
    asked = places(fields["topics"], topic="topic", partition="partition")
    froms = {place: FetchFrom(each["fetch_offset"], each["partition_max_bytes"]) for place, each in asked.items()}
    return lambda broker: calls.fetch(broker, froms, version=version)


def _produce(fields: Any, version: int) -> Ask:
    sets = places(fields["topic_data"], "partition_data", partition="index")
    data = {place: each["records"] for place, each in sets.items()}
    return lambda broker: calls.produce(broker, data, version=version)


def _commit(fields: Any, version: int) -> Ask:
    offsets = {place: each["committed_offset"] for place, each in places(fields["topics"]).items()}
    return lambda broker: calls.commit(broker, "g", offsets, version=version)


def _committed(fields: Any, version: int) -> Ask:
    wanted = [TopicPartition(each["name"], part) for each in fields["topics"] for part in each["partition_indexes"]]
    return lambda broker: calls.committed(broker, "g", wanted, version=version)


class Kind(NamedTuple):
    """A kind of call: makes it of the fields of a recorded request up to a version."""

    highest: int
    call_of: Callable[[Any, int], Ask]


KINDS = {
    ApiKey.PRODUCE: Kind(2, _produce),
    ApiKey.FETCH: Kind(11, _fetch),
    ApiKey.LIST_OFFSETS: Kind(5, _offsets_before),
    ApiKey.METADATA: Kind(0, lambda fields, _: calls.cluster),
    ApiKey.OFFSET_COMMIT: Kind(2, _commit),
    ApiKey.OFFSET_FETCH: Kind(1, _committed),
    ApiKey.FIND_COORDINATOR: Kind(0, lambda fields, _: lambda broker: calls.coordinator(broker, fields["key"])),
    ApiKey.API_VERSIONS: Kind(0, lambda fields, _: lambda broker: broker.version(ApiKey.FETCH, 11)),
}


@cache
def recorded() -> dict[ApiKey, list[Case]]:
    """Some answers of each version of each kind."""
    found: dict[tuple[int, int], list[Case]] = {}
    for name in RECORDINGS:
        events = recording(name)
        for asked, answer in paired(events):
            head, body = head_of(events[asked].frame), events[answer].frame[2 * ID_BYTES :]
            kind = KINDS.get(head.key)  # type: ignore[call-overload]
            cases = found.setdefault((head.key, head.version), [])
            if kind is None or head.version > kind.highest or len(body) > BYTES_MAX or len(cases) == OF_EACH:
                continue
            cases.append(Case(kind.call_of(request_fields(events[asked].frame, head), head.version), body))
    return {key: [case for at in found if at[0] == key for case in found[at]] for key in KINDS}


SET = bytes(range(40))
OLD = {
    "fetch": Case(lambda broker: broker.fetch(Fetch("t", 0, 7, 100)), b"\0\0" + SET),
    "multi-fetch": Case(
        lambda broker: broker.multi_fetch([Fetch("t", 0, 7, 100), Fetch("u", 1, 0, 9)]),
        b"\0\0" + struct.pack(">ih", 2 + len(SET), 0) + SET + struct.pack(">ih", 2, 1),
    ),
    "offsets": Case(
        lambda broker: broker.offsets_before(Offsets("t", 0, -1, 3)), struct.pack(">hi3q", 0, 3, 30, 20, 0)
    ),
}


def answered(case: Case, body: bytes, *, is_old: bool = False) -> Any:
    """What the call returns, or the error that it raises; any other error is a failure."""
    connection: Any = Repeating(body, has_id=not is_old)
    broker = PositionBroker(connection) if is_old else Broker(connection)
    try:
        return case.ask(broker)
    except MalformedAnswerError as error:
        assert connection.is_ended
        return error
    except ClientError as error:  # BrokerError, or no version that both sides have
        return error
    except OF_CODES as error:
        return error


def changed(body: bytes) -> Iterator[bytes]:
    for at, byte in enumerate(body):
        for other in {0x00, 0x7F, 0xFF, byte ^ 1, byte ^ 0x80} - {byte}:
            yield body[:at] + bytes([other]) + body[at + 1 :]
        yield body[:at] + body[at + 1 :]


def shape(answer: Any) -> Any:
    """The type of an answer, with those of its parts; lists may have any length."""
    if isinstance(answer, dict):
        return {key: shape(value) for key, value in answer.items()}
    return type(answer)


@pytest.mark.parametrize("key", KINDS)
def test_a_recorded_answer_with_other_bytes_is_malformed_or_an_answer(key: ApiKey) -> None:
    assert recorded()[key]
    for case in recorded()[key]:
        check_changed(case)


def check_changed(case: Case) -> None:
    whole = answered(case, case.body)
    assert not isinstance(whole, MalformedAnswerError)
    for cut in range(len(case.body)):
        assert isinstance(answered(case, case.body[:cut]), MalformedAnswerError)
    assert isinstance(answered(case, case.body + b"\0"), MalformedAnswerError)
    for body in changed(case.body):
        found = answered(case, body)
        if not isinstance(found, Exception | calls.Cluster) and not isinstance(whole, Exception):
            assert (
                shape(found).keys() <= shape(whole).keys() if isinstance(found, dict) else shape(found) == shape(whole)
            )


@pytest.mark.parametrize("key", KINDS)
def test_numbers_in_an_answer_take_no_memory_for_what_is_not_there(key: ApiKey) -> None:
    case = recorded()[key][0]
    answered(case, case.body)  # makes the decoder
    tracemalloc.start()
    try:
        for at in range(len(case.body) - 3):
            for number in (b"\x7f\xff\xff\xff", b"\x00\xff\xff\xff"):
                answered(case, case.body[:at] + number + case.body[at + 4 :])
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", OLD)
def test_an_answer_of_0_7_with_other_bytes_is_malformed_or_an_answer(name: str) -> None:
    case = OLD[name]
    whole = answered(case, case.body, is_old=True)
    assert not isinstance(whole, Exception)
    for cut in range(2 if name == "fetch" else len(case.body)):  # a set may be cut off
        assert isinstance(answered(case, case.body[:cut], is_old=True), MalformedAnswerError)
    for body in changed(case.body):
        found = answered(case, body, is_old=True)
        assert isinstance(found, Exception) or type(found) is type(whole)


def test_a_code_that_a_newer_kafka_has_is_an_error_with_its_number() -> None:
    with pytest.raises(BrokerError, match=r"t-0: the broker answered a code that this client does not know \(999\)"):
        calls.check(999, "t-0")


def test_a_coordinator_that_does_not_know_a_partition_does_not_say_that_it_has_no_offset() -> None:
    """Kafka 0.8.2 answers so. In version 0, which reads ZooKeeper, it is the answer where there is no offset."""
    place = TopicPartition("t", 5)
    part = {"partition_index": 5, "committed_offset": -1, "metadata": "", "error_code": 3}
    body = {"topics": [{"name": "t", "partitions": [part]}]}
    for version, wanted in ((0, dict), (1, UnknownTopicOrPartitionError)):
        asked = [{"name": "t", "partition_indexes": [5]}]
        case = Case(_committed({"topics": asked}, version), write_answer(ApiKey.OFFSET_FETCH, version, body))
        found = answered(case, case.body)
        assert isinstance(found, wanted)
        assert version or found == {place: None}
