"""Brokers of Kafka 0.7 as sources: against the bytes of a real 0.7.2, and our gateway over its log."""

from __future__ import annotations

import base64
import socketserver
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pyspark_commitlog.classic.gateway_0_7.config import PositionGatewayConfig
from pyspark_commitlog.classic.gateway_0_7.server import PositionGateway
from pyspark_commitlog.classic.log_0_7.entries import encode, encode_set
from pyspark_commitlog.classic.log_0_7.settings import PositionLogSettings
from pyspark_commitlog.classic.upgrade.forwarding import PositionAnswer, forwarded_messages
from pyspark_commitlog.classic.wire.connection import Address
from pyspark_commitlog.mirror.brokers.connections import ListedTopic
from pyspark_commitlog.mirror.brokers.requests import EARLIEST, LATEST
from pyspark_commitlog.mirror.errors import MirrorError, RetriableError
from pyspark_commitlog.mirror.sources.kafka_0_7 import BrokerSource, BrokerSources, Listed, registered
from pyspark_commitlog.mirror.sources.port import BrokerPartition
from pyspark_commitlog.registry import kafka_nodes
from pyspark_commitlog.registry.files import FileRegistry
from pyspark_commitlog.registry.kafka_nodes import RegisteredBroker
from pyspark_commitlog.registry.operations import put
from pyspark_commitlog.storage import CorruptRecordError, Records
from tests.support.classic.kafka_0_7 import (
    consumed,
    consumed_as_recorded,
    recorded,
    settings_of,
    unpacked,
    write_segments,
)
from tests.support.waiting import soon

SIZE = struct.Struct(">i")


@contextmanager
def source_over(log_dir: Path, topics: str, fetch_bytes: int = 1000, **settings: int) -> Iterator[BrokerSource]:
    """A source of one broker over a directory; ``settings``: fields of PositionLogSettings."""
    logs = PositionLogSettings(**settings) if settings else settings_of("main")
    with PositionGateway(str(log_dir), PositionGatewayConfig(port=0, threads=2, logs=logs)) as server:
        finder = Listed({7: Address(*server.address)}, tuple(topics.split(",")))
        source = BrokerSources(finder, fetch_bytes=fetch_bytes, pause_ms=1).open()
        yield source
        source.close()


def at_7(topic: str, partition: int = 0) -> BrokerPartition:
    return BrokerPartition(topic, partition, 7)


def payloads(source: BrokerSource, partition: BrokerPartition) -> list[bytes]:
    """The messages of a partition, as they come from one fetch after the other."""
    found: list[bytes] = []
    position, end = (source.offsets([partition], at)[partition] for at in (EARLIEST, LATEST))
    while position < end:
        answer = source.fetch({partition: position}).get(partition)
        if answer is None:  # a larger message
            continue
        position = _taken(answer, found)
    return found


def _taken(answer: PositionAnswer, payloads: list[bytes]) -> int:
    """Adds the messages of an answer, and returns the next position."""

    def placing(records: Records) -> npt.NDArray[np.int32]:
        assert records.values is not None
        payloads.extend(records.values.to_list())
        return np.zeros(len(records), dtype=np.int32)

    forwarded = forwarded_messages(placing, answer, count=1, batch_size_max=1 << 20)
    assert forwarded.next_offset > answer.position
    return forwarded.next_offset


class _Replaying(socketserver.BaseRequestHandler):
    """Answers the requests of a recorded client with the bytes of the recorded broker."""

    def handle(self) -> None:
        while len(head := self.request.recv(4, 0x100)) == 4:
            frame = head + self.request.recv(SIZE.unpack(head)[0], 0x100)  # MSG_WAITALL
            self.request.sendall(self.server.answers[frame])  # type: ignore[attr-defined]


@contextmanager
def real_broker() -> Iterator[Address]:
    """A server that knows what a real 0.7.2 was asked, and what it answered."""
    asked: dict[int, bytes] = {}
    answers: dict[bytes, bytes] = {}
    for one in recorded("main/wire.json.xz"):
        if one["kind"] == "request":
            asked[one["connection"]] = base64.b64decode(one["frame"])
        elif one["kind"] == "response":
            answers[asked[one["connection"]]] = base64.b64decode(one["frame"])
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Replaying) as server:
        server.daemon_threads = True
        server.answers = answers  # type: ignore[attr-defined]
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield Address(*server.server_address)  # type: ignore[misc]
        server.shutdown()
        thread.join()


def test_requests_are_those_of_a_real_client_and_a_real_brokers_answers_are_understood() -> None:
    compared = 0
    with real_broker() as address:
        source = BrokerSources(Listed({7: address}, ()), pause_ms=1).open()
        for one in recorded("main/offsets.json.xz")["asked"]:
            if one["max"] == 1 and one["time"] in (EARLIEST, LATEST) and "offsets" in one:
                partition = at_7(one["topic"], one["partition"])
                assert source.offsets([partition], one["time"]) == {partition: one["offsets"][0]}
                compared += 1
        for one in recorded("main/multifetch.json.xz"):
            places = [at_7(topic, partition) for topic, partition, _, _ in one["requests"]]
            if len({*places}) == len(places) and {each["errorCode"] for each in one["sets"]} == {0}:
                _compare(source, places, one)
                compared += 1
        source.close()
    assert compared > 10


def _compare(source: BrokerSource, places: list[BrokerPartition], one: dict[str, Any]) -> None:
    positions = [position for _, _, position, _ in one["requests"]]
    source._sizes = {place: size for place, (_, _, _, size) in zip(places, one["requests"], strict=True)}
    found = source.fetch(dict(zip(places, positions, strict=True)))
    for place, position, wanted in zip(places, positions, one["sets"], strict=True):
        if wanted["messages"]:
            answer = found[place]
            assert answer is not None
            assert consumed(answer.data, position) == consumed_as_recorded(wanted)
        else:  # nothing there, or not even one message: the next fetch asks for more
            assert place not in found


def test_each_message_of_a_real_log_comes_once_and_in_order_with_any_size_of_a_fetch(tmp_path: Path) -> None:
    wanted = {
        (name, number): [message for segment in segments for message in segment]
        for name, number, segments in _messages_of_main()
    }
    with source_over(unpacked("main", tmp_path) / "log", "alpha,beta,gamma,nobody", fetch_bytes=30) as source:
        assert source.topics() == [ListedTopic("alpha", 2), ListedTopic("beta", 2), ListedTopic("gamma", 2)]
        partitions = [each for topic in source.topics() for each in source.partitions(topic)]
        assert partitions == [at_7(topic, number) for topic in ("alpha", "beta", "gamma") for number in (0, 1)]
        for each in partitions:
            assert payloads(source, each) == wanted[each.topic, each.partition]


def _messages_of_main() -> Iterator[tuple[str, int, list[list[bytes]]]]:
    """What a consumer of 0.7.2 got of each file, by whole fetches of a million bytes."""
    found: dict[tuple[str, int], dict[int, list[bytes]]] = {}
    starts = {
        (name.rpartition("-")[0], int(name.rpartition("-")[2]), segment[0])
        for name, segments in recorded("main/settings.json")["entries"].items()
        for segment in segments
    }
    for one in recorded("main/fetch.json.xz"):
        if one["size"] == 1_000_000 and (place := (one["topic"], one["partition"], one["offset"])) in starts:
            found.setdefault(place[:2], {})[place[2]] = [base64.b64decode(each[2]) for each in one["messages"]]
    for (topic, partition), files in found.items():
        yield topic, partition, [files[start] for start in sorted(files)]


def test_what_a_real_migration_copied_comes_here_too(tmp_path: Path) -> None:
    by_kafka = recorded("migration-to-0.8/fetched-0.8.json.xz")
    with source_over(unpacked("migration-to-0.8", tmp_path) / "log-0.7", "alpha,beta", num_partitions=2) as source:
        for topic in source.topics():
            found = Counter(each for place in source.partitions(topic) for each in payloads(source, place))
            copied = [each["messages"] for number in (0, 1) for each in by_kafka[f"{topic.name}-{number}"]["sets"]]
            assert found == Counter(base64.b64decode(message[4]) for messages in copied for message in messages)
            assert sum(found.values()) > 50


def test_a_position_that_the_log_does_not_have_is_said(tmp_path: Path) -> None:
    write_segments(tmp_path / "t-0", encode(b"one"), start=1000)
    with source_over(tmp_path, "t", num_partitions=1) as source:
        assert source.fetch({at_7("t"): 0}) == {at_7("t"): None}
        assert source.fetch({at_7("t"): source.offsets([at_7("t")], LATEST)[at_7("t")]}) == {}


@pytest.mark.parametrize("damaged", ["checksum", "size", "end"])
def test_damage_is_an_error_with_place_and_position(tmp_path: Path, damaged: str) -> None:
    good, bad = encode(b"good"), bytearray(encode(b"bad"))
    if damaged == "checksum":
        bad[-1] ^= 1
    elif damaged == "size":
        bad[:4] = SIZE.pack(1000)
    else:
        del bad[-1]
    write_segments(tmp_path / "t-0", good + bytes(bad), encode(b"after"))
    (tmp_path / ".kafka_cleanshutdown").touch()
    where = rf"t-7-0 of Kafka 0\.7 .*position {len(good)}"
    with (
        source_over(tmp_path, "t", fetch_bytes=5000, num_partitions=1) as source,
        pytest.raises(CorruptRecordError, match=where),
    ):
        payloads(source, at_7("t"))


def test_a_message_larger_than_a_fetch_comes_by_asking_for_more(tmp_path: Path) -> None:
    large = bytes(range(256)) * 10
    write_segments(tmp_path / "t-0", encode_set([b"small", large, b"last"]))
    with source_over(tmp_path, "t", fetch_bytes=10, num_partitions=1) as source:
        assert payloads(source, at_7("t")) == [b"small", large, b"last"]


def test_partitions_of_a_broker_that_does_not_answer_are_left_out_and_no_broker_at_all_is_an_error(
    tmp_path: Path,
) -> None:
    settings = PositionLogSettings(num_partitions=1, flush_interval=1)
    write_segments(tmp_path / "1" / "t-0", encode(b"one"))
    write_segments(tmp_path / "2" / "t-0", encode(b"two"))
    with PositionGateway(str(tmp_path / "1"), PositionGatewayConfig(port=0, threads=2, logs=settings)) as one:
        with PositionGateway(str(tmp_path / "2"), PositionGatewayConfig(port=0, threads=2, logs=settings)) as two:
            addresses = {1: Address(*one.address), 2: Address(*two.address)}
            source = BrokerSources(Listed(addresses, ("t",)), pause_ms=1).open()
            places = [BrokerPartition("t", 0, 1), BrokerPartition("t", 0, 2)]
            positions = source.offsets(places, EARLIEST)
            assert positions == dict.fromkeys(places, 0)
            assert source.fetch(positions).keys() == {*places}
        assert source.fetch(positions).keys() == {places[0]}
        assert source.offsets(places[:1], EARLIEST) == {places[0]: 0}
    with pytest.raises(RetriableError, match=r"Kafka 0\.7 at 1:127\.0\.0\.1"):
        soon(lambda: bool(source.fetch(positions)))


def test_a_registry_says_which_brokers_are_there_and_their_partitions(tmp_path: Path) -> None:
    with FileRegistry(str(tmp_path)) as registry:
        for broker, port in ((1, 9001), (3, 9003)):
            content = kafka_nodes.encode_broker(RegisteredBroker.plain("h", port), (0, 7))
            put(registry, kafka_nodes.broker_path(broker), content)
        for broker, count in ((1, b"2"), (2, b"1"), (3, b"1")):
            put(registry, kafka_nodes.old_topic_path("t", broker), count)
        found = registered(registry)
        assert found.brokers == {1: Address("h", 9001), 3: Address("h", 9003)}
        assert found.partitions == [BrokerPartition("t", 0, 1), BrokerPartition("t", 1, 1), BrokerPartition("t", 0, 3)]
        newer = kafka_nodes.encode_broker(RegisteredBroker.plain("h", 9004), (0, 8, 2))
        put(registry, kafka_nodes.broker_path(4), newer)
        with pytest.raises(MirrorError, match=r"broker 4 is of Kafka 0\.8 or later: use zookeeper\.connect"):
            registered(registry)
