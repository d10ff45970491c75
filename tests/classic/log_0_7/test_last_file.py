"""The last file after a crash or damage: what recovery keeps, and what a reader passes over or refuses."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.classic.log_0_7.entries import encode, encode_set
from pyspark_commitlog.classic.log_0_7.last_file import check_tail, recover
from pyspark_commitlog.classic.log_0_7.segments import end_of, windows
from pyspark_commitlog.storage.errors import CorruptRecordError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format.constants import Codec
from tests.support.disk.memory_filesystem import MemoryFileSystem

ENTRIES = [
    encode(b"first message"),
    encode_set([b"a", b"b" * 40], Codec.GZIP),
    encode(b"old", magic=0),
    encode(b"the last message of the file"),
]
WHOLE = b"".join(ENTRIES)
ENDS = [sum(map(len, ENTRIES[:count])) for count in range(len(ENTRIES) + 1)]


def recovered(content: bytes) -> bytes:
    disk = MemoryFileSystem()
    disk.make_directory("/t")
    with disk.open("/t/file", "create") as file:
        file.write(0, content)
        found = recover(file)
        assert found.size + found.cut_bytes == len(content)
        assert (found.reason is None) == (not found.cut_bytes)
        return bytes(file.read(0, len(content)))


@given(st.integers(0, len(WHOLE)), st.binary(max_size=3).map(lambda tail: tail[:3]))
def test_recovery_cuts_a_torn_file_behind_its_last_whole_message(cut: int, tail: bytes) -> None:
    assert recovered(WHOLE[:cut]) == WHOLE[: max(end for end in ENDS if end <= cut)]
    assert recovered(WHOLE + tail) == WHOLE


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 7))
def test_recovery_keeps_exactly_the_messages_before_a_flipped_bit(at: int, bit: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[at] ^= 1 << bit
    start = max(end for end in ENDS if end <= at)
    if at == start + 4:
        return  # the magic: see the test of a newer message
    kept = recovered(bytes(damaged))
    if at == start + 5 and ENTRIES[ENDS.index(start)][4] == 1:
        assert kept == damaged  # attributes: no checksum covers them
    else:
        assert kept == WHOLE[:start]


def test_recovery_reads_a_message_larger_than_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark_commitlog.classic.log_0_7.segments.WINDOW_BYTES", 16)
    assert recovered(WHOLE) == WHOLE
    assert recovered(WHOLE[:-1]) == WHOLE[: ENDS[-2]]


@pytest.mark.parametrize("newer", [encode(b"x" * 20, magic=2, attributes=0), b"\x00\x00\x00\x05\x01\x00\x00\x00\x00"])
def test_a_whole_message_that_is_not_of_0_7_is_refused_and_nothing_is_cut(tmp_path: Path, newer: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(WHOLE + newer + WHOLE)
    with LocalFileSystem().open(str(path), "write") as file, pytest.raises(CorruptRecordError) as refused:
        recover(file)
    assert (refused.value.path, refused.value.position) == (str(path), len(WHOLE))
    assert path.read_bytes() == WHOLE + newer + WHOLE


def test_what_recovery_cuts_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "file"
    path.write_bytes(WHOLE + b"\x00\x00\x00\x02garbage")
    with LocalFileSystem().open(str(path), "write") as file:
        recover(file)
    assert f"{path}, position {len(WHOLE)}: 2 is not the size of a message; the last 11 bytes are cut" in caplog.text


def test_what_recovery_keeps_is_synced_before_readers_see_it() -> None:
    disk = MemoryFileSystem()
    disk.make_directory("/t")
    disk.sync_directory("/")
    for tail in (b"", b"torn"):
        with disk.open("/t/file", "create") as file:
            disk.sync_directory("/t")
            file.truncate(0)
            file.write(0, WHOLE + tail)
            recover(file)
        left = disk.crash(0, unsynced="lost")
        assert bytes(left.open("/t/file", "read").read(0, 1000)) == WHOLE


# Readers


def check(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with LocalFileSystem().open(str(path), "read") as file:
        check_tail(file, end_of(windows(file, 0, len(content)), 0), len(content))


UNFINISHED = {
    "a size cut off": encode(b"torn")[:3],
    "a message cut off": encode(b"torn" * 100)[:-1],
    "zeros": bytes(5000),
    "a message cut off whose payload has what looks like sizes": encode(bytes(range(256)) * 3 + bytes(60))[:-2],
    "a message cut off with an empty message in its payload": encode(encode(b"", magic=0) * 3 + b"rest")[:-1],
}
DAMAGED = {
    "nonsense": b"\xffnonsense that nobody wrote",
    "a size too large, with sound messages after it": b"\x00\x00\x40\x00" + encode(b"lost")[4:] + encode(b"also"),
    "a size too small, with sound messages after it": b"\x00\x00\x00\x01" + encode(b"lost")[4:] + encode(b"also"),
}


@pytest.mark.parametrize("tail", UNFINISHED.values(), ids=UNFINISHED)
def test_an_unfinished_write_is_passed_over_with_a_warning(
    tail: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    check(tmp_path / "file", WHOLE + tail)
    assert f"{len(tail)} bytes of an unfinished write" in caplog.text
    assert f"position {len(WHOLE)}" in caplog.text


@pytest.mark.parametrize("tail", DAMAGED.values(), ids=DAMAGED)
def test_damage_at_the_end_is_refused(tail: bytes, tmp_path: Path) -> None:
    with pytest.raises(CorruptRecordError) as refused:
        check(tmp_path / "file", WHOLE + tail)
    assert (refused.value.path, refused.value.position) == (str(tmp_path / "file"), len(WHOLE))


def test_a_whole_file_gives_no_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    check(tmp_path / "file", WHOLE)
    assert not caplog.records


def test_sound_messages_are_found_behind_a_megabyte_of_nonsense(tmp_path: Path) -> None:
    torn = b"\x7f\x00\x00\x00\x01" + bytes(range(1, 256)) * 5000
    with pytest.raises(CorruptRecordError):
        check(tmp_path / "file", WHOLE + torn + encode(b"found"))
    check(tmp_path / "file", WHOLE + torn)


def test_so_much_that_looks_like_messages_counts_as_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark_commitlog.classic.log_0_7.last_file.CHECKED_BYTES_MAX", 100)
    with pytest.raises(CorruptRecordError):
        check(tmp_path / "file", WHOLE + b"\x00\x00\x40\x00" + b"\x00\x00\x00\x10\x00" * 50)
