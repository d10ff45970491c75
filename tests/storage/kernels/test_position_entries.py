"""The walk over entries of Kafka 0.7 and the copy of their payloads, beside slow twins."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, strategies as st

from pyspark_commitlog.storage.kernels import memory, scan, stop_reasons
from pyspark_commitlog.storage.kernels.arrays import frozen
from pyspark_commitlog.storage.kernels.plain import memory as plain_memory
from tests.support.logs import reference

SIZES = st.one_of(st.integers(5, 12), st.integers(-3, 300), st.just(2**31 - 1))
ENTRY = st.builds(
    lambda size, magic, body: size.to_bytes(4, "big", signed=True) + bytes([magic]) + body[: max(size - 1, 0)],
    SIZES,
    st.sampled_from([0, 0, 1, 1, 1, 2, 127, 128, 255]),
    st.binary(min_size=12, max_size=12),
)
DATA = st.tuples(st.lists(ENTRY).map(b"".join), st.binary(max_size=6)).map(b"".join)


def walk(data: bytes, room: int) -> tuple[list[tuple[int, int]], int, int]:
    positions, sizes = np.zeros(room, dtype=np.int64), np.zeros(room, dtype=np.int64)
    buffer = frozen(np.frombuffer(data, dtype=np.uint8))
    found, stop, reason = scan.walk_positions(buffer, 0, positions, sizes)
    return list(zip(positions[:found].tolist(), sizes[:found].tolist(), strict=True)), stop, reason


@given(DATA)
@example(b"\x00\x00\x00\x05\x01\x00\x00\x00\x00")
def test_entries_are_found_as_the_slow_twin_finds_them(data: bytes) -> None:
    found, stop, reason = reference.walk_positions(data)
    assert walk(data, len(data) // 9 + 1) == (found, stop, getattr(stop_reasons, reason))


@given(DATA, st.integers(0, 3))
def test_the_walk_stops_when_it_has_as_many_as_asked_for(data: bytes, room: int) -> None:
    found, stop, reason = reference.walk_positions(data)
    if room < len(found):
        found, stop, reason = found[:room], found[room][0], "FULL"
    assert walk(data, room) == (found, stop, getattr(stop_reasons, reason))


@given(st.binary(max_size=40), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40))))
def test_payloads_are_copied_one_behind_the_other(data: bytes, pairs: list[tuple[int, int]]) -> None:
    spans = [(min(a, b, len(data)), min(max(a, b), len(data))) for a, b in pairs]
    starts, stops = (np.array([span[i] for span in spans], dtype=np.int64) for i in (0, 1))
    wanted = b"".join(data[a:b] for a, b in spans)
    buffer = frozen(np.frombuffer(data, dtype=np.uint8))
    for gather in (memory.gather, plain_memory.gather):
        target = np.zeros(len(wanted) + 2, dtype=np.uint8)
        assert gather(buffer, frozen(starts), frozen(stops), target, 2) == len(wanted) + 2
        assert target.tobytes() == b"\0\0" + wanted
