"""Random transactions for the two gateways of ``produce_pairs``: one serves requests together, one by one the other."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

from pyspark_commitlog.storage.format.constants import CONTROL_MASK, Codec
from pyspark_commitlog.storage.format.files.checkpoints import decode_snapshot
from tests.support.produce_pairs import CLIENTS, LAZY, Owner, Pair, answers_to, produce_frame, produced_batch

TOPICS: Mapping[str, Mapping[str, str]] = {
    "txn-synced": {},
    "txn-rolling": {"segment.bytes": "9000", "index.interval.bytes": "700"},
    "txn-compacted": {"cleanup.policy": "compact"},
    "txn-lazy": LAZY,
}
ADD_PARTITIONS, END, INIT = 24, 26, 22
FAULTS = ("not added", "epoch", "gap", "again", "id", "plain")
TIMEOUT_MS = 900_000  # the longest: the two gateways would end a transaction that nobody ends at different moments
_BATCH = struct.Struct(">qiibIhiqq")  # a batch's header, as far as its largest time


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _request(key: int, correlation: int, body: bytes) -> bytes:
    data = struct.pack(">hhi", key, 1, correlation) + _text("test") + body
    return struct.pack(">i", len(data)) + data


class Transactions:
    """The requests of one transactional producer, the same for the same chance."""

    def __init__(self, chance: Random, client: int, name: str, producer_id: int) -> None:
        self._chance, self._client, self._name, self._producer_id = chance, client, name, producer_id
        self._added: list[tuple[str, int]] = []
        self._sequences: dict[tuple[str, int], int] = {}
        self._now_ms = int(time.time() * 1000)

    def next(self, correlation: int) -> bytes:
        """The next request."""
        kind = self._chance.choices(("produce", "add", "end"), (6, 2 if self._added else 9, 2))[0]
        if kind == "add":
            return self._add(correlation)
        if kind == "end":
            self._added = []
            body = _text(self._name) + struct.pack(">qh?", self._producer_id, 0, self._chance.random() < 0.6)
            return _request(END, correlation, body)
        return self._produce(correlation)

    def _add(self, correlation: int) -> bytes:
        places = self._chance.sample(self._places(), self._chance.choice([1, 1, 2, 3]))
        self._added += [each for each in places if each not in self._added]
        body = _text(self._name) + struct.pack(">qhi", self._producer_id, 0, len(places))
        for topic, number in places:
            body += _text(topic) + struct.pack(">ii", 1, number)
        return _request(ADD_PARTITIONS, correlation, body)

    def _places(self) -> list[tuple[str, int]]:
        return [(topic, number) for topic in TOPICS for number in (self._client, CLIENTS + self._client)]

    def _produce(self, correlation: int) -> bytes:
        fault = self._chance.choice(FAULTS) if self._chance.random() < 0.06 else ""
        known = self._places() if fault == "not added" or not self._added else self._added
        topics: dict[str, list[tuple[int, bytes]]] = {}
        for topic, number in self._chance.sample(known, min(len(known), self._chance.choice([1, 1, 2]))):
            topics.setdefault(topic, []).append((number, self._records((topic, number), fault)))
        name = "another" if fault == "id" else self._name
        return produce_frame(self._chance, correlation, list(topics.items()), None if fault == "plain" else name)

    def _records(self, place: tuple[str, int], fault: str) -> bytes:
        at = self._sequences.get(place, 0)
        sequence = {"gap": at + 3, "again": max(at - 2, 0)}.get(fault, at)
        owner = Owner(self._producer_id, 1 if fault == "epoch" else 0, sequence)
        self._now_ms += self._chance.choice([0, 1, 5])
        codec = self._chance.choice([Codec.NONE, Codec.NONE, Codec.LZ4])
        made, count = produced_batch(
            self._chance, self._now_ms, owner, keyed=True, codec=codec, damage="", transactional=fault != "plain"
        )
        if not fault and place in self._added:
            self._sequences[place] = at + count
        return made


def differences(pair: Pair, seed: str, requests: int) -> list[str]:
    """Sends the same transactions to both gateways; returns what differs in the answers."""
    made = {}
    for client in range(CLIENTS):
        name = f"{seed} {client}"
        one, two = (_producer_id(pair, side, name) for side in pair.gateways)
        assert one == two
        maker = Transactions(Random(name), client, name, one)
        made[client] = [maker.next(number) for number in range(requests)]
    return pair.different_answers(seed, list(made.values()))


def _producer_id(pair: Pair, side: str, name: str) -> int:
    (answer,) = answers_to(
        pair.gateways[side], [_request(INIT, 1, _text(name) + struct.pack(">i", TIMEOUT_MS))], Random(0)
    )
    _, _, error, producer_id, epoch = struct.unpack(">iihqh", answer)
    assert (error, epoch) == (0, 0)
    return int(producer_id)


def different_files(pair: Pair) -> list[str]:
    """The files of the topics that differ, but for the times of markers, once the gateways have stopped."""
    one, two = (dict(_files(home)) for home in pair.homes.values())
    return sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))


def _files(home: Path) -> Iterator[tuple[str, object]]:
    for path in sorted(home.glob("txn-*/*")):
        name = str(path.relative_to(home))
        if path.suffix in (".index", ".txnindex"):
            yield name, path.read_bytes()
        elif path.suffix == ".log":
            yield name, list(_batches(path.read_bytes()))
        elif path.suffix == ".snapshot":
            yield name, [each._replace(timestamp=0) for each in decode_snapshot(path.read_bytes())]


def _batches(data: bytes) -> Iterator[bytes]:
    """The batches of a segment; those of markers without times and checksum."""
    while data:
        offset, length, epoch, magic, crc, attributes, delta, *times = _BATCH.unpack_from(data)
        if attributes & CONTROL_MASK:
            crc, times = 0, [0, 0]
        head = _BATCH.pack(offset, length, epoch, magic, crc, attributes, delta, *times)
        yield head + data[_BATCH.size : length + 12]
        data = data[length + 12 :]
