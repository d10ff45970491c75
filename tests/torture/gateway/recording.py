"""Frames of requests: those of a real client, read on their way, and bodies drawn by chance for every version."""

from __future__ import annotations

import dataclasses
import io
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, get_type_hints
from uuid import UUID

import confluent_kafka as rdkafka
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic
from kio.serial import entity_writer

from pyspark_commitlog.gateway.network.frames import FrameReader
from pyspark_commitlog.protocol.apis import APIS, ApiKey
from pyspark_commitlog.protocol.decoding import shape_of
from tests.support.gateway import request_head, serving
from tests.support.logs.building import batch
from tests.support.recorded_wire import layouts

TIMEOUT_S = 30.0
CHUNK_BYTES = 64 << 10


class Recorder:
    """Stands between clients and a server, and keeps the frames that clients send. A context manager."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.frames: list[bytes] = []
        self.server = ("", 0)  # where to; set before the first client connects

    def __enter__(self) -> Recorder:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self.server)
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
                threading.Thread(target=_copy, args=(server, client), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        reader = FrameReader(100 << 20)
        with suppress(OSError, EOFError), client, server:
            while (frame := reader.read(client)) is not None:
                self.frames.append(bytes(frame))
                server.sendall(len(frame).to_bytes(4, "big") + frame)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(CHUNK_BYTES):
            target.sendall(data)


def recorded(directory: Path) -> list[bytes]:
    """The frames of librdkafka that produces, consumes in a group, runs transactions and administers topics."""
    with (
        Recorder() as recorder,
        serving(
            directory,
            advertised_listeners=f"PLAINTEXT://{recorder.address}",
            group_initial_rebalance_delay_ms=0,
        ) as gateway,
    ):
        recorder.server = gateway.address
        settings = {"bootstrap.servers": recorder.address}
        _administer(settings)
        for more in ({}, {"enable.idempotence": True, "compression.type": "lz4"}):
            producer = rdkafka.Producer({**settings, **more})
            _produce(producer)
        _run_transaction(settings)
    return recorder.frames


def _produce(producer: rdkafka.Producer) -> None:
    for number in range(20):
        producer.produce("t", b"%d" % number, b"%d" % (number % 3), partition=number % 2)
    assert producer.flush(TIMEOUT_S) == 0


def _run_transaction(settings: Mapping[str, Any]) -> None:
    own = {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = rdkafka.Consumer({**settings, **own})
    consumer.subscribe(["t"])
    assert len(consumer.consume(20, TIMEOUT_S)) == 20
    producer = rdkafka.Producer({**settings, "transactional.id": "x"})
    producer.init_transactions(TIMEOUT_S)
    for ends in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        _produce(producer)
        places = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), TIMEOUT_S)
        ends(TIMEOUT_S)
    consumer.commit(asynchronous=False)
    consumer.committed(consumer.assignment(), TIMEOUT_S)
    consumer.close()


def _administer(settings: Mapping[str, Any]) -> None:
    admin = AdminClient(dict(settings))
    resource = ConfigResource(ConfigResource.Type.TOPIC, "t", set_config={"retention.ms": "100000"})
    place = rdkafka.TopicPartition("t", 0, 0)
    futures: list[Any] = [
        admin.create_topics([NewTopic("t", num_partitions=2), NewTopic("u", num_partitions=1)])["t"],
    ]
    futures[0].result(TIMEOUT_S)
    futures += admin.create_partitions([NewPartitions("u", 2)]).values()
    futures += admin.describe_configs([resource]).values()
    futures += admin.alter_configs([resource]).values()
    futures += [admin.list_consumer_groups(), *admin.describe_consumer_groups(["g"]).values()]
    futures += [admin.describe_cluster(), *admin.delete_records([place]).values()]
    futures += admin.list_offsets({place: rdkafka.admin.OffsetSpec.latest()}).values()
    for each in futures:
        with suppress(rdkafka.KafkaException):
            each.result(TIMEOUT_S)


# Drawn bodies

NAMES = ("t", "u", "g", "x", "", "__consumer_offsets", "__transaction_state", "é", "a b", "..", "n" * 250, "y" * 32_767)
NUMBERS = {
    "int8": (0, 1, 2, 3, -1, -128, 127),
    "int16": (0, 1, 2, -1, -32768, 32767),
    "int32": (0, 1, 2, 3, -1, 100, -(2**31), 2**31 - 1),  # 10,000 partitions are allowed, and take their time
    "int64": (0, 1, -1, -2, -3, -4, -5, -6, 1_700_000_000_000, -(2**63), 2**63 - 1),
}
WAITS_MS = (0, 1, 100, -1, 60_000, -(2**31), 2**31 - 1)
UUIDS = (None, UUID(int=0), UUID(int=1), UUID(int=2**128 - 1))


@cache
def _batches() -> list[bytes]:
    plain = batch(b"value").tobytes()
    return [
        plain,
        batch(b"value", producer_id=1, base_sequence=0).tobytes(),
        batch(b"value", producer_id=1, base_sequence=0, transactional=True).tobytes(),
        plain + plain,
        plain[:-1],
        plain[:61],
        plain[:17],
        b"",
        bytes(61),
        bytes.fromhex("0000 00000001 0001 74 ffffffff"),
    ]


def drawn(chance: Random) -> bytes:
    """A frame of any kind and version that is served, whose fields are drawn by chance."""
    key = chance.choice(list(ApiKey))
    version = chance.randint(APIS[key].lowest, APIS[key].highest)
    entity = layouts(key, version)[0]
    buffer = io.BytesIO()
    entity_writer(entity)(buffer, _entity(entity, chance))
    return request_head(key, version, chance.randrange(1 << 31)) + buffer.getvalue()


def _entity(entity: Any, chance: Random) -> Any:
    hints = _hints(entity)
    return entity(**{one.name: _value(one, hints[one.name], chance) for one in dataclasses.fields(entity)})


@cache
def _hints(entity: Any) -> Mapping[str, Any]:
    return get_type_hints(entity)


def _value(one: dataclasses.Field[Any], hint: Any, chance: Random) -> Any:
    shape, kind = shape_of(hint), one.metadata.get("kafka_type", "")
    if shape.is_nullable and chance.random() < 0.1:
        return None
    if shape.is_array:
        count = chance.choice((0, 1, 1, 1, 2, 3))
        return tuple(_item(shape.nested, kind, one.name, chance) for _ in range(count))
    return _item(shape.nested, kind, one.name, chance)


def _item(nested: Any, kind: str, name: str, chance: Random) -> Any:
    if nested is not None:
        return _entity(nested, chance)
    if kind in NUMBERS:
        numbers = NUMBERS[kind]
        return chance.choice(numbers[:4] if chance.random() < 0.7 else numbers)
    if kind.startswith("timedelta"):
        return timedelta(milliseconds=chance.choice(WAITS_MS[:3] if "wait" in name else WAITS_MS))
    choices: Mapping[str, Sequence[Any]] = {
        "bool": (False, True),
        "float64": (0.0, 1.0, -1.0, 0.5, 1e300, 1e-300, float("inf"), float("-inf"), float("nan")),
        "string": (*NAMES, *NAMES[:1] * len(NAMES)),
        "uuid": UUIDS,
        "bytes": _batches(),
        "records": _batches(),
    }
    return chance.choice(choices[kind])
