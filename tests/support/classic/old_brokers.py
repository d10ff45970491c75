"""Brokers of Kafka 0.8 whose leaders, logs and answers a test sets."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

from pyspark_commitlog.classic.wire.connection import Address
from pyspark_commitlog.protocol.apis import ApiKey
from pyspark_commitlog.protocol.bodies import ErrorCode, read_request, write_answer
from pyspark_commitlog.protocol.fetch import Fetched, encode_fetched, parse_fetch
from pyspark_commitlog.protocol.headers import answer_header, parse_header
from pyspark_commitlog.storage import TopicPartition
from pyspark_commitlog.storage.format.legacy import v0
from tests.support.logs.building import records

NOBODY = -1
_LENGTH = struct.Struct(">i")


class OldBrokers:
    """A cluster of scripted brokers, 0 to ``count`` - 1; a context manager that ends them."""

    def __init__(self, count: int = 1, *, sends_parts: bool = True) -> None:
        """``sends_parts``: of a message that does not fit in a fetch; otherwise nothing, as brokers of today."""
        self.leaders: dict[TopicPartition, int] = {}
        self.logs: dict[TopicPartition, list[bytes]] = {}  # values from offset 0 on
        self.hidden: dict[TopicPartition, int] = {}  # offsets at the end that no message has
        self.fetched: list[tuple[TopicPartition, int, int]] = []  # partition, offset, size
        self.offsets_answered: Sequence[int] | None = None  # by ListOffsets, whatever was asked
        self._sends_parts = sends_parts
        self._nodes = [_Node(self, node) for node in range(count)]

    def add(self, topic: str, partition: int, values: Sequence[bytes], leader: int = 0) -> TopicPartition:
        place = TopicPartition(topic, partition)
        self.logs[place], self.leaders[place] = list(values), leader
        return place

    def registered(self) -> Mapping[int, Address]:
        return {node.number: node.address for node in self._nodes if not node.is_over}

    def end(self, node: int) -> None:
        """Ends a broker, which stays in the tree until its session is over."""
        self._nodes[node].end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for node in self._nodes:
            node.end()

    def answer(self, node: int, key: int, version: int, frame: bytearray, position: int) -> bytes:
        if key == ApiKey.METADATA:
            return write_answer(key, version, self._metadata(read_request(key, version, frame, position)))
        if key == ApiKey.LIST_OFFSETS:
            return write_answer(key, version, self._offsets(node, read_request(key, version, frame, position)))
        assert key == ApiKey.FETCH
        asked = parse_fetch(frame, position, version).partitions
        return b"".join(encode_fetched([self._fetched(node, *each) for each in asked], version))

    def _metadata(self, asked: Any) -> Any:
        wanted = {each.name for each in asked.topics} or {place.topic for place in self.logs}
        topics = [
            {"name": topic, "partitions": [self._partition(place) for place in self.logs if place.topic == topic]}
            for topic in sorted(wanted)
        ]
        brokers = [{"node_id": each, "host": at.host, "port": at.port} for each, at in self.registered().items()]
        return {"brokers": brokers, "topics": topics}

    def _partition(self, place: TopicPartition) -> Any:
        leader = self.leaders[place]
        error = ErrorCode.leader_not_available if leader == NOBODY else ErrorCode.none
        nodes = () if leader == NOBODY else (leader,)
        return {"error_code": error, "partition_index": place.partition, "leader_id": leader, "replica_nodes": nodes}

    def _offsets(self, node: int, asked: Any) -> Any:
        (topic,) = asked.topics
        (each,) = topic.partitions
        place = TopicPartition(topic.name, each.partition_index)
        error = self._error(node, place)
        found = (self._end(place),) if each.timestamp == -1 else (0,)
        if self.offsets_answered is not None:
            found = tuple(self.offsets_answered)
        part = {"partition_index": place.partition, "error_code": error, "old_style_offsets": () if error else found}
        return {"topics": [{"name": topic.name, "partitions": [part]}]}

    def _fetched(self, node: int, topic: Any, partition: int, epoch: int, offset: int, size: int) -> Fetched[bytes]:
        place = TopicPartition(topic, partition)
        self.fetched.append((place, offset, size))
        error, end = self._error(node, place), self._end(place)
        if error is ErrorCode.none and offset > end:
            error = ErrorCode.offset_out_of_range
        data = b"" if error else self._data(place, offset, size)
        return Fetched(topic, partition, error, -1 if error else end, records=data)

    def _data(self, place: TopicPartition, offset: int, size: int) -> bytes:
        messages = [
            each.to_bytes(8, "big") + v0.encode(records([value])).tobytes()[8:]
            for each, value in enumerate(self.logs[place])
        ][offset:]
        is_nothing = not self._sends_parts and messages and len(messages[0]) > size
        return b"" if is_nothing else b"".join(messages)[:size]

    def _end(self, place: TopicPartition) -> int:
        return len(self.logs[place]) + self.hidden.get(place, 0)

    def _error(self, node: int, place: TopicPartition) -> ErrorCode:
        if place not in self.logs:
            return ErrorCode.unknown_topic_or_partition
        return ErrorCode.none if self.leaders[place] == node else ErrorCode.not_leader_or_follower


class _Node:
    """One broker: a thread for each connection."""

    def __init__(self, cluster: OldBrokers, number: int) -> None:
        self.number, self.is_over, self._cluster = number, False, cluster
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self._listener.getsockname())
        self._open: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream, suppress(OSError, ValueError):
            while head := stream.read(_LENGTH.size):
                frame = bytearray(stream.read(*_LENGTH.unpack(head)))
                asked = parse_header(frame)
                answer = answer_header(asked) + self._cluster.answer(
                    self.number, asked.key, asked.version, frame, asked.body_at
                )
                connection.sendall(_LENGTH.pack(len(answer)) + answer)

    def end(self) -> None:
        self.is_over = True
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
