"""FrameReader, against a source that gives bytes in pieces."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable

import pytest

from pyspark_commitlog.gateway.network.frames import ROOM_BYTES, FrameError, FrameReader


class Pieces:
    """A source that gives one piece a call, then no more, then ends."""

    def __init__(self, pieces: Iterable[bytes], *, ends: bool = False) -> None:
        self._pieces = deque(bytearray(each) for each in pieces)
        self._ends = ends
        self.largest_asked = self.calls = 0

    def recv_into(self, buffer: memoryview) -> int:
        self.largest_asked = max(self.largest_asked, len(buffer))
        self.calls += 1
        if not self._pieces:
            if self._ends:
                return 0
            raise BlockingIOError
        piece = self._pieces[0]
        count = min(len(piece), len(buffer))
        buffer[:count] = piece[:count]
        del piece[:count]
        if not piece:
            self._pieces.popleft()
        return count


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.only_all), 3, 7, 10_000])
def test_frames_are_cut_from_pieces_of_any_size(size: int) -> None:
    frames = [b"", b"one", b"x" * 300_000, b"", b"y" * (2 * ROOM_BYTES + 1), b"two"]
    stream = b"".join(map(framed, frames))
    source, reader = Pieces(stream[at : at + size] for at in range(0, len(stream), size)), FrameReader(1 << 22)
    assert [reader.read(source) for _ in frames] == frames
    assert reader.read(source) is None


def test_frames_that_arrived_together_take_one_call_each() -> None:
    source, reader = Pieces([framed(b"one") + framed(b"two") + framed(b"three")]), FrameReader(100, gives_all=True)
    assert [reader.read(source) for _ in range(3)] == [b"one", b"two", b"three"]
    assert reader.is_drained
    assert source.calls == 4  # and one for the first length


@pytest.mark.parametrize("size", [1, 3, 5, 7, 8, 10_000])
def test_a_source_that_gave_all_is_not_asked_again_in_the_same_turn(size: int) -> None:
    frames = [b"one", b"", b"x" * 100_000, b"two"]
    stream = b"".join(map(framed, frames))
    source = Pieces(stream[at : at + size] for at in range(0, len(stream), size))
    reader, found = FrameReader(1 << 20, gives_all=True), []
    while len(found) < len(frames):
        calls = source.calls
        frame = reader.read(source)
        if frame is None:
            assert reader.is_drained
            assert source.calls <= calls + 2  # the rest of a length may be all that there was
        else:
            found.append(frame)
    assert found == frames


def test_a_limit_that_is_raised_between_two_frames_loses_no_bytes() -> None:
    source, reader = Pieces([framed(b"login") + framed(b"a larger request")]), FrameReader(5)
    assert reader.read(source) == b"login"
    reader.change_limit(100, "another.limit")
    assert reader.read(source) == b"a larger request"


def test_a_frame_goes_on_where_the_source_paused() -> None:
    reader = FrameReader(100)
    assert reader.read(Pieces([framed(b"hello")[:6]])) is None
    assert reader.read(Pieces([b"llo"])) == b"hello"


@pytest.mark.parametrize("length", [-1, -(2**31), 101, 2**31 - 1])
def test_a_length_that_cannot_be_is_refused(length: int) -> None:
    with pytest.raises(FrameError, match=r"socket\.request\.max\.bytes is 100"):
        FrameReader(100).read(Pieces([struct.pack(">i", length)]))


def test_memory_is_taken_for_bytes_that_arrive_not_for_a_claim() -> None:
    source = Pieces([struct.pack(">i", 100 << 20), b"x" * 1000])
    assert FrameReader(100 << 20).read(source) is None
    assert source.largest_asked <= ROOM_BYTES


def test_the_end_of_the_source_is_told() -> None:
    with pytest.raises(EOFError):
        FrameReader(100).read(Pieces([b"\0\0"], ends=True))


def test_what_was_read_is_taken_back_and_read_again() -> None:
    frames = [bytes([number]) * size for number, size in enumerate((5, 300, 0, 40))]
    sent = b"".join(map(framed, frames))
    for cut in range(len(sent)):
        reader, source = FrameReader(1000), Pieces([sent[:cut]] if cut else [])
        first = reader.read(source)
        taken = (b"" if first is None else framed(bytes(first))) + reader.take_back()
        assert taken == sent[: len(taken)]
        assert not reader.missing
        reader.put_back(sent[:cut], 0)
        rest = Pieces([sent[cut:]])
        assert [bytes(each) for _ in frames if (each := reader.read(rest)) is not None] == frames
        assert not reader.ahead


def test_the_rest_of_a_request_that_was_put_back_is_missed() -> None:
    reader = FrameReader(1000)
    reader.put_back(framed(bytes(100))[:30], 30)
    assert (reader.missing, reader.received, reader.ahead) == (0, 30, 30)
    reader.begin()
    assert (reader.missing, reader.received, reader.ahead) == (74, 30, 0)


def test_a_large_request_that_was_put_back_counts_its_bytes() -> None:
    counted: list[int] = []

    class Room:
        def may_read(self, missing: int) -> bool:
            return True

        def take(self, amount: int) -> None:
            counted.append(amount)

    reader = FrameReader(1000, room=Room(), free_bytes=50)
    reader.put_back(framed(bytes(100))[:30], 30)
    reader.begin()
    assert (sum(counted), reader.held, reader.may_take_back) == (26, 26, False)
