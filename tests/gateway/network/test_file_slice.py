"""Outbound: parts in memory and of files arrive in order, whatever the socket takes, and each file is let go once."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random

import pytest

from pyspark_commitlog.gateway.network.file_slice import (
    BUFFERS_A_CALL,
    FEW_BYTES,
    READ_A_CALL,
    FileSlice,
    HeldBytes,
    Outbound,
    Part,
)

SIZES = (0, 1, 3, 100, 1000, FEW_BYTES - 1, FEW_BYTES, FEW_BYTES + 1, READ_A_CALL, 300_000)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A sender that does not block and takes little at a time, and its receiver."""
    sender, receiver = socket.socketpair()
    with sender, receiver:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)
        sender.setblocking(False)
        receiver.setblocking(False)
        yield sender, receiver


class Parts:
    """Random parts, with the bytes that they are, and which of them were released."""

    def __init__(self, chance: Random, path: Path) -> None:
        self.chance, self.released = chance, Counter[int]()
        self.content = chance.randbytes(1_000_000)
        path.write_bytes(self.content)
        self.file = path.open("rb")
        self.slices = 0

    def one(self) -> tuple[Part, bytes]:
        size = self.chance.choice(SIZES)
        at = self.chance.randrange(len(self.content) - size)
        data = self.content[at : at + size]
        kind = self.chance.choice(("bytes", "bytearray", "memoryview", "file", "file", "file", "held"))
        if kind == "bytes":
            return data, data
        if kind == "bytearray":
            return bytearray(data), data
        if kind == "memoryview":
            return memoryview(data), data
        if not size:  # no part of a file is empty
            return b"", b""
        self.slices += 1
        release = partial(self.released.update, [self.slices])
        if kind == "held":
            return HeldBytes(-1, 0, size, release, memoryview(data)), data
        return FileSlice(self.file.fileno(), at, size, release), data


def receive(receiver: socket.socket, most: int) -> bytes:
    try:
        return receiver.recv(most)
    except BlockingIOError:
        return b""


@pytest.mark.parametrize("seed", range(20))
def test_all_parts_arrive_in_order(seed: int, ends: tuple[socket.socket, socket.socket], tmp_path: Path) -> None:
    sender, receiver = ends
    chance = Random(seed)
    parts, outbound = Parts(chance, tmp_path / "file"), Outbound(sender)
    wanted, found, sent = bytearray(), bytearray(), 0
    with parts.file:
        for _ in range(chance.choice((1, 5, 60))):
            added = [parts.one() for _ in range(chance.choice((1, 3, BUFFERS_A_CALL + 5)))]
            outbound.add([part for part, _ in added])
            wanted += b"".join(data for _, data in added)
            sent += outbound.send()
            found += receive(receiver, chance.choice((1, 1000, 1 << 20)))
        while outbound:
            found += receive(receiver, 1 << 20)
            sent += outbound.send()
    while len(found) < len(wanted):
        found += receive(receiver, 1 << 20)
    assert found == wanted
    assert sent == len(wanted)
    assert outbound.held == 0
    assert parts.released == Counter(range(1, parts.slices + 1))


def sent_at_once(sender: socket.socket, parts: Sequence[Part]) -> int:
    outbound = Outbound(sender)
    outbound.add(parts)
    count = outbound.send()
    assert not outbound
    return count


def test_few_bytes_of_a_file_need_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So they are in one packet with what is around them, where the client reads once."""
    monkeypatch.delattr(os, "sendfile")
    (tmp_path / "file").write_bytes(b"records")
    sender, receiver = socket.socketpair(type=socket.SOCK_SEQPACKET)  # which keeps calls apart
    with sender, receiver, (tmp_path / "file").open("rb") as file:
        parts = [b"head", FileSlice(file.fileno(), 0, 7), b"between", FileSlice(file.fileno(), 3, 4), b"tail"]
        assert sent_at_once(sender, parts) == 26
        assert receiver.recv(100) == b"headrecordsbetweenordstail"


def test_a_client_that_reads_nothing_costs_no_memory(ends: tuple[socket.socket, socket.socket], tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(FEW_BYTES))
    with (tmp_path / "file").open("rb") as file:
        outbound = Outbound(ends[0])
        outbound.add(FileSlice(file.fileno(), 0, FEW_BYTES) for _ in range(20))
        for _ in range(3):
            outbound.send()
        assert outbound
        assert all(isinstance(part, FileSlice) for part in outbound._parts)


def test_what_is_dropped_is_released_once(ends: tuple[socket.socket, socket.socket], tmp_path: Path) -> None:
    parts = Parts(Random(1), tmp_path / "file")
    with parts.file:
        outbound = Outbound(ends[0])
        outbound.add(part for part, _ in (parts.one() for _ in range(50)))
        outbound.send()
        assert outbound
        outbound.drop()
    assert not outbound
    assert outbound.held == 0
    assert parts.released == Counter(range(1, parts.slices + 1))


@pytest.mark.parametrize("part", [bytes(300_000), HeldBytes(-1, 0, 300_000, data=memoryview(bytes(300_000)))])
def test_a_part_is_held_as_a_whole_until_its_last_byte_was_sent(
    part: Part, ends: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    sender, receiver = ends
    (tmp_path / "file").write_bytes(bytes(300_000))
    with (tmp_path / "file").open("rb") as file:
        outbound = Outbound(sender)
        outbound.add([b"head", part, FileSlice(file.fileno(), 0, 300_000), b"tail"])
        assert outbound.held == 300_008
        sizes, received = list[int](), 0
        while received < 600_008:
            outbound.send()
            received += len(receive(receiver, 1000))
            sizes.append(outbound.held)
    assert sorted({*sizes}, reverse=True) == [300_004, 4, 0]


@pytest.mark.parametrize("size", [FEW_BYTES, FEW_BYTES + 1])
def test_a_file_that_became_shorter_is_an_error(
    size: int, ends: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"")
    with (tmp_path / "file").open("rb") as file:
        outbound = Outbound(ends[0])
        outbound.add([b"head", FileSlice(file.fileno(), 0, size)])
        with pytest.raises(OSError, match="became shorter"):
            outbound.send()
