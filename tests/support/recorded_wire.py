"""What clients sent to real brokers and what these answered: frames, in their order, with their connections.

``tests/golden/old-wire`` has the recordings.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import lzma
import struct as bits
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from kio.serial import entity_reader

from pyspark_commitlog.protocol.apis import APIS
from pyspark_commitlog.protocol.bodies import answer_class, request_class
from pyspark_commitlog.protocol.decoding import decode
from pyspark_commitlog.storage import format as formats

GOLDEN = Path(__file__).parents[1] / "golden" / "old-wire"
CONTROLLER = (4, 5, 6, 7)  # what a controller of the ZooKeeper era asks of its brokers
PRODUCE, FETCH, METADATA, FIND_COORDINATOR, JOIN_GROUP, API_VERSIONS = 0, 1, 3, 10, 11, 18
CREATE_TOPICS, CREATE_PARTITIONS, LIST_PARTITION_REASSIGNMENTS = 19, 37, 46
LEADER_NOT_AVAILABLE, COORDINATOR_NOT_AVAILABLE, NO_SUCH_SESSION = 5, 15, 70


class Event(NamedTuple):
    """One line of a recording."""

    connection: int
    kind: str  # open, request, response, close-by-client, close-by-server
    label: str  # what was done when it was recorded
    frame: bytes  # with its length


def recording(name: str) -> list[Event]:
    """The events of one recording, such as ``0.8.2.2``."""
    lines = json.loads(lzma.decompress((GOLDEN / f"{name}.json.xz").read_bytes()))
    return [
        Event(*(each[name] for name in Event._fields[:3]), base64.b64decode(each.get("frame", ""))) for each in lines
    ]


class Head(NamedTuple):
    """The header of a request."""

    key: int
    version: int
    correlation_id: int
    body_at: int


def head_of(frame: bytes) -> Head:
    """The header of a request's frame, which has its length before it."""
    key, version, correlation_id, length = bits.unpack_from(">hhih", frame, 4)
    at = 14 + max(length, 0)
    api = APIS.get(key)
    is_flexible = api is not None and version >= api.flexible_from
    return Head(key, version, correlation_id, at + 1 if is_flexible else at)


def layouts(key: int, version: int) -> tuple[Any, Any]:
    """The classes of a request and its answer."""
    return request_class(key, version), answer_class(key, version)


def plain(value: Any) -> Any:
    """A body as dictionaries and lists."""
    if dataclasses.is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return value


def paired(events: Sequence[Event]) -> Iterator[tuple[int, int]]:
    """The indices of requests with those of their answers."""
    asked: dict[tuple[int, int], int] = {}
    for index, event in enumerate(events):
        if event.kind == "request":
            asked[event.connection, head_of(event.frame).correlation_id] = index
        elif event.kind == "response":
            yield asked.pop((event.connection, *bits.unpack_from(">i", event.frame, 4))), index


def request_fields(frame: bytes, head: Head) -> Any:
    """The body of a request."""
    return plain(decode(layouts(head.key, head.version)[0], bytearray(frame), head.body_at))


def answer_body(frame: bytes, head: Head) -> Any:
    """The body of an answer."""
    return _decoded(frame[8:], head.key, head.version)


@cache
def _decoded(data: bytes, key: int, version: int) -> Any:
    """The body of an answer; ``data``: its frame behind the correlation id."""
    return plain(whole_answer(data, 0, key, version))


def whole_answer(frame: bytes, at: int, key: int, version: int) -> Any:
    """The body of an answer, kio's object; ``at``: behind the correlation id. AssertionError if more follows it."""
    api = APIS.get(key)
    at += api is not None and key != API_VERSIONS and version >= api.flexible_from
    body, size = entity_reader(layouts(key, version)[1])(frame, at)
    assert at + size == len(frame), "bytes behind the answer"
    return body


# Addresses, times, member ids, epochs and throttle times.
_FREE = {"host", "port", "throttle_time", "member_id", "leader", "cluster_id", "leader_epoch", "committed_leader_epoch"}
_FREE |= {"topic_id", "client_host", "session_id"}
# What identifies the items of an array, whose order a broker takes from a hash table.
_KEYS = ("partition_index", "index", "name", "topic", "api_key", "node_id", "key", "group_id")


def alike(value: Any) -> Any:
    """A body without what differs from broker to broker, and with its arrays in order."""
    if isinstance(value, dict):
        return {
            name: message_set(each or b"") if name == "records" else alike(each)
            for name, each in value.items()
            if name not in _FREE
        }
    if isinstance(value, list):
        items = [alike(each) for each in value]
        if items and isinstance(items[0], dict):
            key = next((each for each in _KEYS if each in items[0]), None)
            items = items if key is None else sorted(items, key=lambda item: str(item[key]))
        return items
    return value


def message_set(data: bytes) -> Any:
    """Batches or messages with what is in them, and the offset of one that is cut off. Compressed bytes may differ."""
    buffer = np.frombuffer(data, dtype=np.uint8)
    scan = formats.scan(buffer)
    found = []
    for row in range(len(scan.headers)):
        batch = scan.headers[row : row + 1]
        table, records = batch.table[0], formats.decode(buffer, batch).records
        assert records.keys is not None
        assert records.values is not None
        times = records.timestamps.tolist(), records.timestamp_types.tolist()
        content = records.keys.to_list(), records.values.to_list()
        rows = list(zip(records.offsets.tolist(), *times, *content, strict=True))
        names = ("magic", "attributes", "base_offset", "last_offset", "max_timestamp", "producer_id", "base_sequence")
        found.append([*(int(table[name]) for name in names), rows])
    tail = data[scan.end :]
    return [found, tail[:8], len(tail)]


def differences(recorded: Any, answered: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two bodies differ."""
    if isinstance(recorded, dict) and isinstance(answered, dict):
        for name, value in recorded.items():
            yield from differences(value, answered[name], f"{where}.{name}".lstrip("."))
    elif isinstance(recorded, list) and isinstance(answered, list) and len(recorded) == len(answered):
        for index, (one, other) in enumerate(zip(recorded, answered, strict=True)):
            yield from differences(one, other, f"{where}.{index}")
    elif recorded != answered:
        yield where, recorded, answered
