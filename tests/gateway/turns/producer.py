"""A client that produces as fast as it can, so that its requests may be served together."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Any

import pytest

from pyspark_commitlog.gateway.partitions.file_partition import FilePartition
from pyspark_commitlog.gateway.server import Gateway
from tests.support.gateway import WireClient, fetch_fields, produce_fields
from tests.support.logs.building import batch
from tests.support.waiting import soon

PRODUCE, VERSION = 0, 9


class Producer(WireClient):
    """A client that produces to one partition, which knows its requests from the second one on."""

    topic = "t"

    def __init__(self, gateway: Gateway, client_id: str = "test", tls: ssl.SSLContext | None = None) -> None:
        super().__init__(gateway, client_id, tls)
        self._partitions = gateway.context.partitions

    def send_batch(self, value: bytes = b"v", *, acks: int = -1, **fields: Any) -> int:
        data = batch(value, **fields).tobytes()
        return self.send(PRODUCE, VERSION, **produce_fields(self.topic, data, acks=acks))

    def send_at_once(self, acks: Sequence[int]) -> Sequence[int]:
        """Sends a request for each number of acks, so that they arrive together."""
        frames: list[bytes] = []
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(self, "send_frame", frames.append)
            sent = [self.send_batch(acks=each) for each in acks]
        self.socket.sendall(b"".join(len(frame).to_bytes(4) + frame for frame in frames))
        return sent

    def result(self, sent: int) -> tuple[int, int]:
        """The error and the base offset of an answer."""
        found = self.answer(PRODUCE, VERSION, sent).responses[0].partition_responses[0]
        return int(found.error_code), found.base_offset

    def produce(self, value: bytes = b"v", **fields: Any) -> tuple[int, int]:
        """Sends a batch when the appender has finished with those before it, beside which no turn takes one."""
        led = self._partitions.look(self.topic, 0)
        if isinstance(led, FilePartition):
            soon(lambda: not led.is_appending)
        return self.result(self.send_batch(value, **fields))

    def end_offset(self) -> int:
        found: int = self.ask(1, 11, **fetch_fields(self.topic, 0)).responses[0].partitions[0].high_watermark
        return found


def together(gateway: Gateway) -> int:
    return gateway.figures.served_together


def known(client: Producer) -> None:
    """Two requests: the first opens the partition, and the second is left, as it is not in the table."""
    assert client.produce()[0] == 0
    assert client.produce()[0] == 0
