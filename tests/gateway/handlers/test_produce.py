"""Produce: what is refused, with Kafka's code and reason, and what is not."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from threading import Event, Thread, Timer
from typing import Any

import pytest

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import LogManager
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.writing.locks import APPEND_LOCK_FILE
from tests.support.gateway import WireClient, produce_fields, set_config
from tests.support.logs import building
from tests.support.logs.building import batch
from tests.support.waiting import soon

VERSIONS = range(3, 12)
UNKNOWN_SERVER_ERROR = -1


def ask(client: WireClient, topic: str, records: bytes | None, version: int = 8, **more: Any) -> Any:
    """The answer for the one partition."""
    answer = client.ask(0, version, **produce_fields(topic, records, **more))
    return answer.responses[0].partition_responses[0]


def rows(gateway: Gateway, topic: str) -> list[tuple[int, bytes | None]]:
    with LogManager.open(gateway.context.log_dir) as manager, manager.open_reader(topic, 0) as reader:
        return building.rows(reader)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_appends(gateway: Gateway, client: WireClient, topic: str, version: int) -> None:
    answer = ask(client, topic, batch(b"one", b"two").tobytes(), version)
    assert (answer.error_code, answer.base_offset, answer.log_append_time) == (0, 0, None)
    assert rows(gateway, topic) == [(0, b"one"), (1, b"two")]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_with_old_message_sets_append_too(
    gateway: Gateway, client: WireClient, topic: str, version: int
) -> None:
    message = struct.pack(">bbi", 0, 0, -1) + struct.pack(">i", 3) + b"old"
    message = struct.pack(">I", zlib.crc32(message)) + message
    message_set = struct.pack(">qi", 0, len(message)) + message
    name = topic.encode()
    body = (
        struct.pack(">hii", -1, 1000, 1)
        + struct.pack(">h", len(name))
        + name
        + struct.pack(">iii", 1, 0, len(message_set))
    )
    client.send_body(0, version, body + message_set)
    answer = client.receive()[4:]
    behind = struct.pack(">i", 1) + struct.pack(">h", len(name)) + name + struct.pack(">iihq", 1, 0, 0, 0)
    assert answer == behind + {0: b"", 1: struct.pack(">i", 0), 2: struct.pack(">qi", -1, 0)}[version]
    assert rows(gateway, topic) == [(0, b"old")]


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_are_refused(client: WireClient, topic: str, acks: int) -> None:
    answer = ask(client, topic, batch(b"v").tobytes(), acks=acks)
    assert (answer.error_code, answer.base_offset) == (21, -1)


def test_an_unknown_topic_or_partition_is_refused_and_the_others_are_not(
    gateway: Gateway, client: WireClient, topic: str
) -> None:
    records = batch(b"v").tobytes()
    partitions = [{"index": number, "records": records} for number in (0, 1, 2)]
    data = [{"name": "nowhere", "partition_data": partitions[:1]}, {"name": topic, "partition_data": partitions}]
    answer = client.ask(0, 8, acks=-1, timeout=1000, topic_data=data)
    codes = {each.name: [part.error_code for part in each.partition_responses] for each in answer.responses}
    assert codes == {"nowhere": [3], topic: [0, 0, 3]}


def test_an_internal_topic_is_refused_but_for_the_admin_client(client: WireClient) -> None:
    client.ask(3, 4, topics=[{"name": "__consumer_offsets"}], allow_auto_topic_creation=True)
    assert ask(client, "__consumer_offsets", batch(b"v").tobytes()).error_code == 17


def damaged(at: int, to: int | None = None) -> bytes:
    data = bytearray(batch(b"value").tobytes())
    data[at] = data[at] ^ 0xFF if to is None else to
    return bytes(data)


REFUSED = {
    "null": (None, 87),
    "no batch": (b"", 87),
    "two batches": (batch(b"a").tobytes() * 2, 87),
    "an older magic": (damaged(16, 1), 87),
    "a newer magic": (damaged(16, 3), 2),
    "a wrong checksum": (damaged(-1), 2),
    "a batch that ends early": (batch(b"value").tobytes()[:-1], 87),
    "only the head of a batch": (batch(b"value").tobytes()[:40], 87),
    "a batch of no size": (damaged(11, 0), 2),
    "a batch that is larger than it says": (damaged(11, 55), 87),
}


@pytest.mark.parametrize(("records", "code"), REFUSED.values(), ids=REFUSED)
def test_a_batch_that_cannot_be_right_is_refused(
    gateway: Gateway, client: WireClient, topic: str, records: bytes | None, code: int
) -> None:
    answer = ask(client, topic, records)
    assert (answer.error_code, answer.base_offset) == (code, -1)
    assert rows(gateway, topic) == []
    assert ask(client, topic, batch(b"right").tobytes()).base_offset == 0


def test_null_keys_of_a_compacted_topic_are_refused_by_index(client: WireClient, topic: str) -> None:
    set_config(client, topic, "cleanup.policy", "compact")
    answer = ask(client, topic, batch(b"one", b"two").tobytes())
    assert answer.error_code == 87
    assert [each.batch_index for each in answer.record_errors] == [0, 1]
    assert all("key" in each.batch_index_error_message for each in answer.record_errors)


def test_a_batch_above_the_limit_is_refused(client: WireClient, topic: str) -> None:
    assert ask(client, topic, batch(b"x" * (1 << 20)).tobytes()).error_code == 10


def test_a_repeated_batch_gets_its_first_offset(gateway: Gateway, client: WireClient, topic: str) -> None:
    records = [batch(b"%d" % number, producer_id=7, base_sequence=number).tobytes() for number in range(3)]
    assert [ask(client, topic, each).base_offset for each in (*records, *records)] == [0, 1, 2] * 2
    assert len(rows(gateway, topic)) == 3


def test_sequences_and_epochs_out_of_order_are_refused(client: WireClient, topic: str) -> None:
    def code(epoch: int, sequence: int) -> int:
        records = batch(b"v", producer_id=8, producer_epoch=epoch, base_sequence=sequence)
        return int(ask(client, topic, records.tobytes()).error_code)

    assert [code(1, 0), code(1, 5), code(0, 1), code(2, 1), code(2, 0)] == [0, 45, 47, 45, 0]


def test_a_transactional_batch_without_a_transaction_is_refused(client: WireClient, topic: str) -> None:
    records = batch(b"v", producer_id=9, base_sequence=0, transactional=True)
    assert ask(client, topic, records.tobytes()).error_code == 53  # and without a transactional id
    named = {**produce_fields(topic, records.tobytes()), "transactional_id": "nobody"}
    assert client.ask(0, 8, **named).responses[0].partition_responses[0].error_code == 49


def test_a_batch_that_the_log_refuses_is_answered_with_its_start(client: WireClient, topic: str) -> None:
    late = batch(b"v", producer_id=8, base_sequence=0).tobytes()
    gap = batch(b"v", producer_id=8, base_sequence=7).tobytes()
    shifted = bytes(7) + b"\1" + late[8:]  # its base offset is 1
    answers = [ask(client, topic, each) for each in (late, gap, shifted, b"")]
    assert [(each.error_code, each.log_start_offset) for each in answers] == [(0, 0), (45, 0), (87, 0), (87, -1)]


def test_a_partition_whose_lock_a_paused_process_holds_is_opened_later_and_others_at_once(
    client: WireClient, topic: str, log_dir: Path
) -> None:
    lock = LocalFileSystem().lock(str(log_dir / f"{topic}-0" / APPEND_LOCK_FILE))
    assert lock is not None
    with lock:
        assert ask(client, topic, batch(b"waits").tobytes()).error_code == 5
        assert ask(client, topic, batch(b"goes on").tobytes(), partition=1).error_code == 0
    soon(lambda: ask(client, topic, batch(b"waits").tobytes()).error_code == 0)


def test_the_log_sets_the_time_if_the_topic_says_so(client: WireClient, topic: str) -> None:
    set_config(client, topic, "message.timestamp.type", "LogAppendTime")
    assert ask(client, topic, batch(b"v").tobytes()).log_append_time is not None


def test_a_batch_is_not_appended_before_one_that_waited_for_the_partition_to_open(
    gateway: Gateway, client: WireClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    partitions = gateway.context.partitions
    open_then, is_open, may_go_on = partitions.open_then, Event(), Event()

    def slow(wanted: Any, then: Any) -> None:
        def opened() -> None:
            is_open.set()
            Thread(target=lambda: (may_go_on.wait(30), then())).start()

        open_then(wanted, opened)

    monkeypatch.setattr(partitions, "open_then", slow)
    first = client.send(0, 9, **produce_fields(topic, bytes(batch(b"first"))))
    assert is_open.wait(30)
    second = client.send(0, 9, **produce_fields(topic, bytes(batch(b"second"))))
    Timer(0.2, may_go_on.set).start()
    for sent in (first, second):
        assert not client.answer(0, 9, sent).responses[0].partition_responses[0].error_code
    assert rows(gateway, topic) == [(0, b"first"), (1, b"second")]


def test_a_partition_that_an_error_of_ours_keeps_closed_is_answered(
    gateway: Gateway, client: WireClient, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr("pyspark_commitlog.gateway.partitions.open_partitions.FilePartition", fail)
    assert ask(client, topic, batch(b"one").tobytes()).error_code == UNKNOWN_SERVER_ERROR
    assert f"{topic}-0 cannot be opened" in caplog.text
