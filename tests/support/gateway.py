"""A gateway in this process, and a client that sends it what no real client would."""

from __future__ import annotations

import io
import socket
import ssl
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, Self

from kio.serial import entity_writer

from pyspark_commitlog.gateway.config import GatewayConfig
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.protocol.apis import APIS
from pyspark_commitlog.protocol.bodies import made
from pyspark_commitlog.storage.bucket.files import filesystem as bucket_files
from tests.support.recorded_wire import layouts, whole_answer

LOCAL = "PLAINTEXT://127.0.0.1:0"
TIMEOUT_S = 30.0


@contextmanager
def serving(directory: Path | str, **settings: Any) -> Iterator[Gateway]:
    """A gateway on a free port. ``directory``: or a URL. ``settings``: by the names of fields of the config."""
    with Gateway(str(directory), GatewayConfig(**{"listeners": LOCAL, **settings}), create=True) as gateway:
        yield gateway


@contextmanager
def serving_apart(url: str, **settings: Any) -> Iterator[Gateway]:
    """As :func:`serving`, on an object store, as if in a process of its own: it shares nothing with others."""
    bucket_files._of_this_process.clear()
    with serving(url, **settings) as gateway:
        bucket_files._of_this_process.clear()
        yield gateway


class Listening(Protocol):
    """A gateway, in this process or another."""

    @property
    def address(self) -> tuple[str, int]: ...


class WireClient:
    """One connection; requests go out as they are given. A context manager that closes it."""

    client_id = b"test"

    def __init__(self, gateway: Listening, client_id: str = "test", tls: ssl.SSLContext | None = None) -> None:
        self.client_id = client_id.encode()
        self.socket = socket.create_connection(gateway.address, timeout=TIMEOUT_S)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=gateway.address[0])
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.socket.close()

    def ask(self, key: int, version: int, /, **fields: Any) -> Any:
        """Sends a request by kio's names of fields, and returns the body of the answer, kio's object."""
        sent = self.send(key, version, **fields)
        return self.answer(key, version, sent)

    def send(self, key: int, version: int, /, **fields: Any) -> int:
        """Sends a request, and returns its correlation id."""
        return self.send_body(key, version, request_body(key, version, fields))

    def send_body(self, key: int, version: int, body: bytes) -> int:
        """Sends a request whose body is given, and returns its correlation id."""
        self._correlation_id += 1
        self.send_frame(request_head(key, version, self._correlation_id, self.client_id) + body)
        return self._correlation_id

    def send_frame(self, frame: bytes) -> None:
        """Sends a frame with its length."""
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def answer(self, key: int, version: int, correlation_id: int) -> Any:
        """Receives an answer, and returns its body."""
        frame = self.receive()
        assert struct.unpack_from(">i", frame)[0] == correlation_id
        return whole_answer(frame, 4, key, version)

    def receive(self) -> bytes:
        """Receives a frame. Raises EOFError if the gateway closes the connection."""
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def receive_some(self) -> None:
        """Receives the beginning of an answer."""
        self._exactly(100)

    def is_closed(self) -> bool:
        """Waits for the gateway to say something; whether it closes the connection."""
        try:
            return not self.socket.recv(1)
        except ConnectionResetError:
            return True

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            received = self.socket.recv(size - len(data))
            if not received:
                raise EOFError
            data += received
        return bytes(data)


def request_head(key: int, version: int, correlation_id: int, client_id: bytes = b"test") -> bytes:
    """The header of a request."""
    head = struct.pack(">hhih", key, version, correlation_id, len(client_id)) + client_id
    api = APIS.get(key)
    return head + b"\0" if api is not None and version >= api.flexible_from else head


def request_body(key: int, version: int, fields: Mapping[str, Any]) -> bytes:
    """The body of a request."""
    entity = layouts(key, version)[0]
    buffer = io.BytesIO()
    entity_writer(entity)(buffer, made(entity, fields))
    return buffer.getvalue()


def create_topic(client: WireClient, name: str, partitions: int = 1, **configs: str) -> None:
    """Creates a topic; ``configs``: by names with ``_`` in place of dots."""
    given = [{"name": config.replace("_", "."), "value": value} for config, value in configs.items()]
    asked = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": given}
    assert not client.ask(19, 4, topics=[asked], timeout=1000).topics[0].error_code


def set_config(client: WireClient, topic: str, name: str, value: str) -> None:
    """Sets one config of a topic, by its name with dots."""
    change = {"name": name, "config_operation": 0, "value": value}
    resource = {"resource_type": 2, "resource_name": topic, "configs": [change]}
    assert not client.ask(44, 0, resources=[resource], validate_only=False).responses[0].error_code


def produce_fields(topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1) -> dict[str, Any]:
    """The fields of a Produce request for one partition."""
    data = [{"index": partition, "records": records}]
    return {"acks": acks, "timeout": 1000, "topic_data": [{"name": topic, "partition_data": data}]}


def fetch_fields(topic: str, offset: int, **more: Any) -> dict[str, Any]:
    """The fields of a Fetch request for partition 0 of a topic; ``more`` replaces defaults."""
    size = more.pop("partition_max_bytes", 1 << 20)
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": size}
    defaults = {"max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 0, "replica_id": -1}
    return {**defaults, "topics": [{"topic": topic, "partitions": [partition]}], **more}
