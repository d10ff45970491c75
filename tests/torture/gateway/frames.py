"""Frames that no client sends, against a running gateway: each is answered or costs its connection, and nothing else.

Frames of a real client and frames whose fields are drawn by chance are sent as they are, damaged, cut, or with another
length before them. Beside them, connections stand open whose frames claim 2 GB and never come, and one that reads no
answer. After so many frames every thread of the gateway is asked something by another connection, which must be
answered; nothing may be logged as an error of ours, no answer may have the code of one, and memory is bounded.
"""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.protocol.apis import APIS, ApiKey
from tests.support.gateway import WireClient, fetch_fields, produce_fields, serving
from tests.support.logs.building import batch
from tests.support.recorded_wire import whole_answer
from tests.torture.gateway.recording import drawn, recorded
from tests.torture.gateway.server import memory_bytes
from tests.torture.suite import Run, Suite, quiet

FRAMES_A_CASE = 2000  # the life of a gateway
FRAMES_A_LOOK = 200
WAIT_S = 0.1  # for an answer: some requests wait for others, and some ask for none
GROWTH_BYTES_MAX = 300 << 20  # over what the first case took
HANGING = 20  # connections whose frames never come whole
CLAIMS = (2**31 - 1, 100 << 20, -1, -(2**31), (100 << 20) + 1, 0)
BAD_NUMBERS = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\0\0\0\0",
    b"\x80\0\0\0",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff",
)
OUT_OF_RANGE, UNKNOWN_TOPIC = 1, 3
# Written by hand; or with the time -1 where there is no transaction, as Kafka has it, which kio does not read.
UNREADABLE = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.DESCRIBE_PRODUCERS)
# Their answer to a group that no path of a registry can have, such as "..", is that code, as with a broker.
IN_REGISTRY = {(ApiKey.OFFSET_COMMIT, 0), (ApiKey.OFFSET_FETCH, 0)}
SETTINGS = {"group_initial_rebalance_delay_ms": 0, "transaction_max_timeout_ms": 1000}


class Errors(logging.Handler):
    """Keeps what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(self.format(record))

    @contextmanager
    def listening(self) -> Iterator[None]:
        logging.root.addHandler(self)
        try:
            yield
        finally:
            logging.root.removeHandler(self)


# What is sent


def damaged(frame: bytes, chance: Random) -> bytes:
    """The frame with a few bytes changed, lost or added, or with a number that cannot be."""
    data = bytearray(frame)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(0 if chance.random() < 0.1 else 4, max(len(data), 5))
        match chance.randrange(6):
            case 0:
                data[at : at + 1] = chance.randbytes(1)
            case 1:
                number = chance.choice(BAD_NUMBERS)
                data[at : at + len(number)] = number
            case 2:
                del data[at : at + chance.randint(1, 8)]
            case 3:
                data[at:at] = chance.randbytes(chance.randint(1, 8))
            case 4:
                del data[at:]
            case 5 if data:
                data[at % len(data)] ^= 1 << chance.randrange(8)
    return bytes(data)


def message(frames: Sequence[bytes], chance: Random) -> bytes:
    """What is sent at once: a frame behind its length, most of the time."""
    kind = chance.random()
    frame = chance.choice(frames) if chance.random() < 0.4 else drawn(chance)
    if kind < 0.25:  # as it is: valid, if not sensible
        return struct.pack(">i", len(frame)) + frame
    if kind < 0.85:
        frame = damaged(frame, chance)
        return struct.pack(">i", len(frame)) + frame
    if kind < 0.9:  # a version that does not exist, or a kind
        frame = struct.pack(">hh", *(chance.choice((-1, *range(70), 1000, 2**15 - 1)) for _ in range(2))) + frame[4:]
        return struct.pack(">i", len(frame)) + frame
    if kind < 0.95:
        noise = chance.randbytes(chance.randint(0, 200))
        return struct.pack(">i", len(noise)) + noise
    return struct.pack(">i", chance.choice((*CLAIMS, chance.randint(-100, 300)))) + frame


# What comes back


def check_answer(key: int, version: int, frame: bytes) -> None:
    """An answer that clients can read, without the code of an error of ours; frames damaged in their heads apart."""
    api = APIS.get(key)
    if api is None or not api.lowest <= version <= api.highest or key in UNREADABLE:
        return
    body = whole_answer(frame, 4, key, version)
    if (key, version) in IN_REGISTRY:
        return
    assert "unknown_server_error" not in repr(body), f"an error of ours: {body}"


class Sender:
    """A connection that is made again when the gateway closes it."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._client: WireClient | None = None
        self.outcomes = {"answered": 0, "closed": 0, "silent": 0}

    def send(self, sent: bytes) -> None:
        """Sends bytes, and waits a little for what they cause."""
        if self._client is None:
            self._client = WireClient(self._gateway)
            self._client.socket.settimeout(WAIT_S)
        try:
            self._client.socket.sendall(sent)
            frame = self._client.receive()
        except (EOFError, ConnectionError):
            self._end("closed")
        except TimeoutError:
            self._end("silent")
        else:
            self.outcomes["answered"] += 1
            if len(sent) >= 12 and sent[8:12] == frame[:4]:
                check_answer(*struct.unpack_from(">hh", sent, 4), frame)

    def _end(self, outcome: str) -> None:
        self.outcomes[outcome] += 1
        self.close()

    def close(self) -> None:
        if self._client is not None:
            self._client.socket.close()
        self._client = None


# What must hold


def look(gateway: Gateway) -> None:
    """Another connection asks what each thread of the gateway answers."""
    by_time = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": 1}
    new = {"name": "never", "num_partitions": 1, "replication_factor": 1}
    with WireClient(gateway) as client:
        client.ask(ApiKey.METADATA, 4, topics=[{"name": "alive"}], allow_auto_topic_creation=True)
        while _produce(client) == UNKNOWN_TOPIC:  # it was deleted, or is being created
            client.ask(ApiKey.METADATA, 4, topics=[{"name": "alive"}], allow_auto_topic_creation=True)
        fetched = client.ask(ApiKey.FETCH, 6, **fetch_fields("alive", 0)).responses[0].partitions[0].error_code
        client.ask(ApiKey.LIST_OFFSETS, 4, replica_id=-1, topics=[{"name": "alive", "partitions": [by_time]}])
        checked = client.ask(ApiKey.CREATE_TOPICS, 4, topics=[new], validate_only=True).topics[0].error_code
        offsets = client.ask(ApiKey.OFFSET_FETCH, 5, group_id="own", topics=None).error_code
        listed = client.ask(ApiKey.LIST_TRANSACTIONS, 0, state_filters=(), producer_id_filters=()).error_code
        made = client.ask(ApiKey.INIT_PRODUCER_ID, 1, transactional_id=None).error_code
        assert fetched in (0, OUT_OF_RANGE)  # its records may have been deleted
        assert [checked, offsets, listed, made] == [0] * 4
        client.ask(ApiKey.DESCRIBE_PRODUCERS, 0, topics=[{"name": "alive", "partition_indexes": (0,)}])


def _produce(client: WireClient) -> int:
    answer = client.ask(ApiKey.PRODUCE, 8, **produce_fields("alive", batch(b"v").tobytes()))
    return int(answer.responses[0].partition_responses[0].error_code)


def hang(gateway: Gateway, stack: ExitStack) -> None:
    """Connections that cost the gateway what arrived of their frames, and one that reads nothing of what it asks."""
    for number in range(HANGING):
        client = stack.enter_context(socket.create_connection(gateway.address))
        claimed = (2**31 - 1, 100 << 20)[number % 2]
        with suppress(OSError):  # the gateway has closed it
            client.sendall(struct.pack(">i", claimed) + bytes(1000))
    slow = stack.enter_context(WireClient(gateway))
    for _ in range(1000):
        slow.send(ApiKey.API_VERSIONS, 2)


def live(run: Run, chance: Random, frames: Sequence[bytes], directory: Path) -> None:
    """A gateway's life."""
    errors = Errors()
    with errors.listening(), ExitStack() as stack:
        gateway = stack.enter_context(serving(directory, **SETTINGS))
        hang(gateway, stack)
        sender = Sender(gateway)
        stack.callback(sender.close)
        for number in range(FRAMES_A_CASE):
            sent = message(frames, chance)
            try:
                sender.send(sent)
                if number % FRAMES_A_LOOK == FRAMES_A_LOOK - 1:
                    look(gateway)
            except Exception as error:
                raise AssertionError(f"frame {number}, {sent[:400].hex()}: {error!r}") from error
            if errors.found:
                raise AssertionError(f"frame {number}, {sent[:400].hex()}: {errors.found[0]}")
            run.passed()
        for outcome, count in sender.outcomes.items():
            run.note(outcome, count)


def run(run: Run) -> None:
    frames = recorded(run.directory / "recorded")
    first_bytes = 0
    for case in run.cases():
        with run.watching(case, "a gateway's life"), quiet():
            live(run, case.chance, frames, run.directory / f"{case.number}")
            first_bytes = first_bytes or memory_bytes()
            growth = memory_bytes() - first_bytes
            assert growth < GROWTH_BYTES_MAX, f"{growth:,} bytes more than after the first case"


SUITE = Suite("frames", 1_000_000, run)
