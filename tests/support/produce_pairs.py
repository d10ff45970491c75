"""Random Produce requests, for two gateways: one serves them together, one by one the other. Both must do the same."""

from __future__ import annotations

import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import cramjam
import lz4.frame
import numpy as np
import zstandard
from confluent_kafka.admin import AdminClient, NewTopic
from crc32c import crc32c

from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage.format.compression import compress
from pyspark_commitlog.storage.format.constants import Codec
from tests.support.gateway import serving
from tests.support.logs.reference import varint
from tests.support.tls import CutTls, certificate
from tests.support.waiting import soon

LAZY = {"flush.messages": str(2**62)}
TOPICS: Mapping[str, Mapping[str, str]] = {
    "lazy": LAZY,
    "synced": {},
    "rolling": {**LAZY, "segment.bytes": "20000", "index.interval.bytes": "700"},
    "compacted": {**LAZY, "cleanup.policy": "compact"},
    "small": {"flush.messages": "40", "max.message.bytes": "900", "segment.index.bytes": "120"},
    "timely": {**LAZY, "message.timestamp.before.max.ms": "60000", "segment.ms": "5000"},
    "stamped": {**LAZY, "message.timestamp.type": "LogAppendTime"},
    "gzipped": {**LAZY, "compression.type": "gzip"},
    "uncompressed": {"compression.type": "uncompressed", "cleanup.policy": "compact"},
    "tight": {**LAZY, "max.message.bytes": "2000", "max.decompressed.bytes": "2000"},
}
SAFE = ("lazy", "synced", "compacted", "gzipped", "uncompressed")  # where no batch is too large or too old
CLIENTS = 3  # each writes to partitions of its own, so that the order in these is known
LISTENERS = ("PLAINTEXT", "SSL")
VERSIONS = (3, 5, 7, 8, 9, 10, 11, 11)
DAMAGE = ("checksum", "largest", "delta", "base", "magic", "bits", "gap", "again", "epoch", "early", "cut")
STREAM_DAMAGE = ("byte", "shortened", "followed", "large", "foreign")  # of what a compressed batch has as records
IDS = (None, "app", "é", "")  # transactional ids
KEPT = ("", "largest", "followed", "large", "foreign")  # what may be appended, if not as it is
FIRST = "-first"  # the suffix of topics that are not compared
STAMPED = "stamped"  # whose times differ between two gateways
KINDS = (".log", ".index", ".timeindex", ".snapshot")


def uvarint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


class Owner(NamedTuple):
    id: int
    epoch: int
    sequence: int


NOBODY = Owner(-1, -1, -1)


def produced_batch(
    chance: Random,
    now_ms: int,
    producer: Owner,
    *,
    keyed: bool,
    codec: Codec,
    damage: str,
    transactional: bool = False,
) -> tuple[bytes, int]:
    """A batch, and how many records it has."""
    count = chance.choice([1, 1, 2, 5, 20])
    deltas = [chance.randint(0, 50) for _ in range(count)]
    records = b"".join(_record(chance, number, delta, keyed) for number, delta in enumerate(deltas))
    if damage == "cut":
        records = records[: chance.randrange(len(records))]
    if codec is not Codec.NONE:
        records = _compressed(chance, codec, records, damage)
    attributes = int(codec) | (8 if damage == "bits" else 0) | (16 if transactional else 0)
    largest = now_ms + max(deltas) + (damage == "largest")
    fixed = struct.pack(">hiqqqhii", attributes, count - 1 + (damage == "delta"), now_ms, largest, *producer, count)
    checked = fixed + records
    head = struct.pack(
        ">qiibI",
        7 if damage == "base" else 0,
        len(checked) + 9,
        chance.choice([-1, 0, 5]),
        1 if damage == "magic" else 2,
        crc32c(checked) ^ (damage == "checksum"),
    )
    return head + checked, count


def _compressed(chance: Random, codec: Codec, records: bytes, damage: str) -> bytes:
    """The stream of a batch's records, as one of several writers makes it."""
    if damage == "large":
        records += bytes(2 << 20)
    if damage == "foreign":
        codec = Codec(codec % 4 + 1)
    stream = bytearray(_STREAMS.get((codec, chance.randrange(2)), partial(_stream, codec))(records))
    if damage == "byte":
        stream[chance.randrange(len(stream))] ^= 1 << chance.randrange(8)
    if damage == "shortened":
        del stream[chance.randrange(len(stream)) :]
    if damage == "followed":
        stream += chance.choice([b"\0", _stream(codec, b""), _stream(codec, b"\0"), bytes(stream)])
    return bytes(stream)


def _stream(codec: Codec, data: bytes) -> bytes:
    return compress(codec, np.frombuffer(data, np.uint8)).tobytes()


_STREAMS: Mapping[tuple[Codec, int], Callable[[bytes], bytes]] = {  # as librdkafka and others write them
    (Codec.SNAPPY, 1): lambda data: bytes(cramjam.snappy.compress_raw(data)),
    (Codec.LZ4, 1): partial(lz4.frame.compress, block_linked=False, content_checksum=True, block_checksum=True),
    (Codec.ZSTD, 1): zstandard.ZstdCompressor(level=1, write_checksum=True, write_content_size=False).compress,
}


def _record(chance: Random, number: int, delta: int, keyed: bool) -> bytes:
    size = chance.choice([0, 5, 60, 200]) if chance.random() < 0.97 else chance.choice([20_000, 80_000])
    key = varint(2) + b"k%d" % (number % 10) if keyed else varint(-1)
    body = b"\0" + varint(delta) + varint(number) + key + varint(size) + chance.randbytes(size) + b"\0"
    return varint(len(body)) + body


def produce_frame(
    chance: Random,
    correlation: int,
    topics: Sequence[tuple[str, Sequence[tuple[int, bytes]]]],
    transactional_id: str | None = None,
    *,
    acks: int | None = None,
) -> bytes:
    """A Produce request of any version, with its length. ``acks``: by default all or 1."""
    version = chance.choice(VERSIONS)
    is_flexible = version >= 9
    tags = b"\0" if is_flexible else b""

    def count(number: int) -> bytes:
        return uvarint(number + 1) if is_flexible else struct.pack(">i", number)

    client = "é" if chance.random() < 0.03 else "test"
    data = struct.pack(">hhih", 0, version, correlation, len(client.encode())) + client.encode() + tags
    if transactional_id is None:
        data += b"\0" if is_flexible else b"\xff\xff"
    else:
        name_bytes = transactional_id.encode()
        data += (uvarint(len(name_bytes) + 1) if is_flexible else struct.pack(">h", len(name_bytes))) + name_bytes
    data += struct.pack(">hi", chance.choice([-1, -1, 1]) if acks is None else acks, 30_000)
    data += count(len(topics))
    for name, partitions in topics:
        data += (uvarint(len(name) + 1) if is_flexible else struct.pack(">h", len(name))) + name.encode()
        data += count(len(partitions))
        for number, records in partitions:
            data += struct.pack(">i", number) + count(len(records)) + records + tags
        data += tags
    data += tags
    return struct.pack(">i", len(data)) + data


class Silent(bytes):
    """A request that gets no answer."""


class Requests:
    """The requests of one client, the same for the same chance."""

    def __init__(self, chance: Random, client: int, producers: Sequence[int], suffix: str = "") -> None:
        self._chance, self._client, self._suffix = chance, client, suffix
        self._producers = producers  # idempotent ones
        self._codec = chance.choice(list(Codec))
        self._damaged = chance.choice([0.01, 0.1])  # of batches
        self._sequences: dict[tuple[str, int], int] = {}
        self._now_ms = int(time.time() * 1000)

    def next(self, correlation: int) -> bytes:
        """The next request; now and then not one of Produce."""
        chance = self._chance
        if chance.random() < 0.1:
            return self._silent(correlation)
        if chance.random() < 0.02:
            return api_versions(correlation)
        names = chance.sample(sorted(TOPICS), chance.choice([1, 1, 1, 2]))
        if chance.random() < 0.02:
            names.append(chance.choice(["none", names[0]]))  # a topic that does not exist, or twice the same
        name_of_id, is_transactional = None, False
        if chance.random() < 0.05:  # none is open
            name_of_id, is_transactional = chance.choice(IDS), chance.random() < 0.8
        topics = [(name + self._suffix, self._partitions(name, is_transactional)) for name in names]
        return produce_frame(chance, correlation, topics, name_of_id)

    def _silent(self, correlation: int) -> Silent:
        """A request without acks that nothing refuses, so that the connection stays."""
        topics = []
        for name in self._chance.sample(SAFE, self._chance.choice([1, 1, 2])):
            codec = self._chance.choice([Codec.NONE, self._codec])
            codec = Codec.NONE if codec is Codec.ZSTD else codec  # which some versions may not have
            made, _ = produced_batch(self._chance, self._now_ms, NOBODY, keyed=True, codec=codec, damage="")
            topics.append((name + self._suffix, [(self._client, made)]))
        return Silent(produce_frame(self._chance, correlation, topics, acks=0))

    def last(self, correlation: int) -> Silent:
        """A request without acks, which may be refused."""
        self._damaged = 0.5
        name = self._chance.choice(sorted(TOPICS))
        topics = [(name + self._suffix, self._partitions(name, is_transactional=False))]
        return Silent(produce_frame(self._chance, correlation, topics, acks=0))

    def _partitions(self, name: str, is_transactional: bool) -> list[tuple[int, bytes]]:
        own = [self._client, CLIENTS + self._client]
        numbers = self._chance.sample(own, self._chance.choice([1, 1, 2]))
        if self._chance.random() < 0.01:
            numbers = self._chance.choice([[], [own[0], own[0]]])
        return [(number, self._records(f"{name}-{number}", is_transactional)) for number in numbers]

    def _records(self, place: str, is_transactional: bool) -> bytes:
        chance = self._chance
        codec = chance.choice([Codec.NONE, self._codec])
        known = DAMAGE if codec is Codec.NONE else DAMAGE + STREAM_DAMAGE
        damage = chance.choice(known) if chance.random() < self._damaged else ""
        self._now_ms += chance.choice([0, 0, 1, 5, -3])
        now_ms = self._now_ms - (3_600_000 if damage == "early" else 0)
        keyed = chance.random() < 0.95
        producer = chance.choice([-1, *self._producers])
        if producer < 0:
            return produced_batch(
                chance,
                now_ms,
                NOBODY,
                keyed=keyed,
                codec=codec,
                damage=damage,
                transactional=is_transactional,
            )[0]
        at = self._sequences.get((place, producer), 0)
        sequence = {"gap": at + 3, "again": max(at - 2, 0)}.get(damage, at)
        owner = Owner(producer, -1 if damage == "epoch" else 0, sequence)
        made, count = produced_batch(
            chance, now_ms, owner, keyed=keyed, codec=codec, damage=damage, transactional=is_transactional
        )
        if damage in KEPT and not is_transactional:
            self._sequences[place, producer] = at + count
        return made


def answers_to(
    gateway: Gateway,
    requests: Sequence[bytes],
    chance: Random,
    last: Silent | None = None,
    tls: ssl.SSLContext | None = None,
) -> list[bytes]:
    """Sends requests, cut anywhere, without waiting for the answers, and returns these.

    ``last`` is sent after them, with a request that is answered if the connection stays. ``tls``: with which some
    connections are encrypted.
    """
    data, found, received = b"".join(requests), list[bytes](), bytearray()
    wanted = sum(not isinstance(each, Silent) for each in requests)
    listener = "PLAINTEXT" if tls is None else chance.choice(LISTENERS)
    with socket.create_connection(gateway.addresses[listener], timeout=20) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = plain if tls is None or listener == "PLAINTEXT" else CutTls(plain, tls, chance)

        def send() -> None:
            at = 0
            while at < len(data):
                size = chance.choice([1, 3, 50, 500, 3_000, 20_000, 100_000])
                client.sendall(data[at : at + size])
                at += size
                if chance.random() < 0.2:
                    time.sleep(chance.choice([0, 0.001]))

        sender = threading.Thread(target=send)
        sender.start()
        while len(found) < wanted:
            got = client.recv(1 << 16)
            assert got, f"closed after {len(found)} answers"
            received += got
            while len(received) >= 4 and len(received) >= 4 + (size := int.from_bytes(received[:4])):
                found.append(bytes(received[4 : 4 + size]))
                del received[: 4 + size]
        sender.join()
        if last is not None:
            client.sendall(last + api_versions(len(requests)))
            found.append(_or_nothing(client))
    return found


def api_versions(correlation: int) -> bytes:
    return struct.pack(">ihhih", 14, 18, 0, correlation, 4) + b"test"


def _or_nothing(client: socket.socket | CutTls) -> bytes:
    """The beginning of an answer; nothing if the connection is closed."""
    try:
        return client.recv(8)
    except ConnectionResetError:
        return b""


class Pair:
    """Two gateways over two logs, whose names have the same length: two directories, or the URLs of two stores."""

    def __init__(
        self, directory: Path, stack: ExitStack, *, threads: int, stores: Mapping[str, str] | None, **more: Any
    ) -> None:
        self._producer_ids = count(1)
        self.homes = {"apart": directory / "one", "together": directory / "two"}
        self.logs = {name: str(home) for name, home in self.homes.items()} if stores is None else stores
        keystore, self._tls = certificate(directory)
        settings = {
            "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
            "ssl_keystore_location": str(keystore),
            "commitlog_maintenance_enable": False,
            "commitlog_request_grace_ms": 60_000,
            "num_network_threads": threads,
            **more,
        }
        self.gateways = {
            name: stack.enter_context(serving(log, commitlog_produce_together_enable=name == "together", **settings))
            for name, log in self.logs.items()
        }

    @property
    def served_together(self) -> int:
        """How many requests were served together so far."""
        assert not self.gateways["apart"].figures.served_together
        return self.gateways["together"].figures.served_together

    def warm_up(self) -> None:
        """Waits until requests are served together, and creates the topics of the requests."""
        self._create(FIRST)
        requests, number = Requests(Random(0), 0, [], FIRST), count()

        def is_warm() -> bool:
            answers_to(self.gateways["together"], [requests.next(next(number)) for _ in range(20)], Random(0))
            return self.served_together > 0

        soon(is_warm)
        self._create("")

    def _create(self, suffix: str) -> None:
        """Creates the topics in both."""
        self.create({name + suffix: configs for name, configs in TOPICS.items()})

    def create(self, topics: Mapping[str, Mapping[str, str]]) -> None:
        """Creates topics with these settings in both, with partitions for all clients."""
        for gateway in self.gateways.values():
            admin = AdminClient({"bootstrap.servers": gateway.bootstrap_servers})
            new = [NewTopic(name, 2 * CLIENTS, 1, config=dict(each)) for name, each in topics.items()]
            for created in admin.create_topics(new).values():
                created.result()

    def differences(self, seed: object, requests: int) -> list[str]:
        """Sends the same requests to both; returns what differs in the answers."""
        made, last, producers = [], [], [next(self._producer_ids), next(self._producer_ids)]
        for client in range(CLIENTS):
            maker = Requests(Random(f"{seed} {client}"), client, producers)
            made.append([maker.next(number) for number in range(requests)])
            last.append(maker.last(requests))
        return self.different_answers(seed, made, last)

    def different_answers(
        self, seed: object, made: Sequence[Sequence[bytes]], last: Sequence[Silent | None] = (None,) * CLIENTS
    ) -> list[str]:
        """Sends the requests of each client to both, as :func:`answers_to`; returns what differs in the answers."""
        found: dict[str, list[list[bytes]]] = {}
        for name, gateway in self.gateways.items():
            chances = [Random(f"{seed} {client} sent") for client in range(CLIENTS)]
            with ThreadPoolExecutor(CLIENTS) as threads:
                ask = partial(answers_to, gateway, tls=self._tls)
                found[name] = list(threads.map(ask, made, chances, last))
        return [
            f"seed {seed}, client {client}, request {number}: {one!r} but together {two!r}"
            for client in range(CLIENTS)
            for number, (one, two) in enumerate(
                zip(*(map(self._comparable, found[name][client]) for name in self.homes), strict=True)
            )
            if one != two
        ]

    def _comparable(self, answer: bytes) -> bytes:
        """Without what is different in any two gateways: paths and the present in texts, and times of LogAppendTime."""
        answer = answer.replace(self.logs["together"].encode(), self.logs["apart"].encode())
        return b"" if STAMPED.encode() in answer else re.sub(rb"outside \d+ to", b"outside", answer)

    def files(self) -> dict[str, dict[str, bytes]]:
        """The content of all files of topics, by name; for gateways that have stopped."""
        return {name: dict(_files(home)) for name, home in self.homes.items()}


def _files(home: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(home.rglob("*")):
        name = str(path.relative_to(home))
        is_of_test = FIRST not in name and STAMPED not in name and not name.startswith(("txn-", "__transaction_state"))
        if path.is_file() and is_of_test and (path.suffix in KINDS or "checkpoint" in path.name):
            lines = path.read_bytes().splitlines(keepends=True)
            yield name, b"".join(each for each in lines if FIRST.encode() not in each)


@contextmanager
def paired(
    directory: Path, *, threads: int = 1, stores: Mapping[str, str] | None = None, **settings: Any
) -> Iterator[Pair]:
    """A pair of gateways, with so many threads for connections; they have stopped afterwards.

    ``stores``: the URL of the log of each; by default, their logs are in ``directory``.
    """
    with ExitStack() as stack:
        pair = Pair(directory, stack, threads=threads, stores=stores, **settings)
        pair.warm_up()
        yield pair


def different_files(pair: Pair) -> list[str]:
    """The names of the files that differ, once the gateways have stopped."""
    one, two = pair.files().values()
    return sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))
