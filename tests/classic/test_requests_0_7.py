"""Frames of Kafka 0.7: those that a real client sent and a real broker answered, and the bytes of its sources."""

from __future__ import annotations

import pytest

from pyspark_commitlog.classic import requests_0_7
from pyspark_commitlog.classic.log_0_7.entries import encode
from pyspark_commitlog.classic.requests_0_7 import Fetch, FrameReader, Key, MalformedFrameError, Offsets, Produce
from tests.support.classic.kafka_0_7 import requests

HELLO = encode(b"hello")
FETCH = Fetch("test", 0, 0, 307200)

ENCODED = {
    "produce to any partition": (
        requests_0_7.encode_produce([Produce("test", -1, HELLO)]),
        "0000 0004 74657374 ffffffff 0000000f" + HELLO.hex(),
    ),
    "two sets": (
        requests_0_7.encode_produce([Produce("test", 0, HELLO), Produce("u", 1, b"")]),
        "0003 0002 0004 74657374 00000000 0000000f" + HELLO.hex() + "0001 75 00000001 00000000",
    ),
    "fetch": (requests_0_7.encode_fetch(FETCH), "0001 0004 74657374 00000000 0000000000000000 0004b000"),
    "multi-fetch": (
        requests_0_7.encode_multi_fetch([FETCH, FETCH._replace(partition=1, position=15)]),
        "0002 0002 0004 74657374 00000000 0000000000000000 0004b000 0004 74657374 00000001 000000000000000f 0004b000",
    ),
    "offsets": (
        requests_0_7.encode_offsets(Offsets("test", 0, -1, 1)),
        "0004 0004 74657374 00000000 ffffffffffffffff 00000001",
    ),
}


@pytest.mark.parametrize(("made", "wanted"), ENCODED.values(), ids=ENCODED)
def test_a_request_has_the_bytes_of_0_7(made: bytes, wanted: str) -> None:
    assert made == bytes.fromhex(wanted)


@pytest.mark.parametrize("scenario", ["main", "flush"])
def test_every_recorded_request_is_encoded_as_its_client_did(scenario: str) -> None:
    seen = set()
    for frame in requests(scenario):
        reader = FrameReader(bytearray(frame))
        key = reader.key()
        seen.add(key)
        try:
            if key == Key.FETCH:
                made = requests_0_7.encode_fetch(reader.fetch())
            elif key == Key.MULTI_FETCH:
                made = requests_0_7.encode_multi_fetch([reader.fetch() for _ in range(reader.count())])
            elif key == Key.OFFSETS:
                made = requests_0_7.encode_offsets(reader.offsets())
            elif key == Key.PRODUCE:
                made = requests_0_7.encode_produce([reader.produce()])
            else:
                count = reader.count()
                made = requests_0_7.encode_produce([reader.produce() for _ in range(count)])
                if count == 1:  # which a client of ours sends as a plain produce
                    made = frame[:4] + made[2:]
        except MalformedFrameError:
            continue  # one of the odd ones
        assert made == frame
    assert Key.FETCH in seen or scenario != "main"


def test_answers_are_read_without_a_copy() -> None:
    answer = bytes.fromhex("0000") + HELLO
    assert requests_0_7.decode_fetched(answer) == (0, HELLO)
    assert requests_0_7.decode_fetched(bytes.fromhex("0001")) == (1, b"")
    several = bytes.fromhex("0000 00000011 0000") + HELLO + bytes.fromhex("00000002 0001")
    assert requests_0_7.decode_multi_fetched(several, 2) == [(0, HELLO), (1, b"")]
    assert requests_0_7.decode_offsets(bytes.fromhex("0000 00000002 000000000000000f 0000000000000000")) == (0, [15, 0])
    assert requests_0_7.decode_offsets(bytes.fromhex("ffff")) == (-1, [])


@pytest.mark.parametrize("cut", range(0, 27))
def test_an_answer_that_is_cut_off_is_no_answer(cut: int) -> None:
    several = bytes.fromhex("0000 00000011 0000") + HELLO + bytes.fromhex("00000002 0000")
    with pytest.raises(MalformedFrameError):
        requests_0_7.decode_multi_fetched(several[:cut], 2)


@pytest.mark.parametrize("body", ["", "0000", "0000 00000002 000000000000000f", "0000 ffffffff", "0000 7fffffff"])
def test_an_answer_with_fewer_positions_than_it_says_is_refused(body: str) -> None:
    with pytest.raises(MalformedFrameError):
        requests_0_7.decode_offsets(bytes.fromhex(body))
