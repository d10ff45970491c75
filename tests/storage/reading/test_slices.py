"""Slices: where batches are in a file, the same ones as a read returns, without reading them."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from pyspark_commitlog.storage.config import INT64_MAX
from pyspark_commitlog.storage.errors import CorruptRecordError, OffsetOutOfRangeError
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.reading.slices import FileSlice
from pyspark_commitlog.storage.segment.reader import FOLLOWING_MAX
from pyspark_commitlog.storage.writing.checks.checked_batch import check_batch
from pyspark_commitlog.storage.writing.log import Log
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import (
    append,
    batch,
    end_transaction,
    open_files,
    open_log,
    open_reader,
    write_transactional,
)

SIZES = [0, 1, 10, 100, 900, 5000, 70_000]  # of values: batches smaller and larger than what is read at once


@contextmanager
def released(found: FileSlice | None) -> Iterator[FileSlice | None]:
    try:
        yield found
    finally:
        if found is not None:
            found.release()


def sliced(log: LogReader, offset: int, max_bytes: int, **options: object) -> tuple[bytes, object] | None:
    """The bytes of a slice, and its aborted transactions."""
    with released(log.slice(offset, max_bytes, **options)) as found:  # type: ignore[arg-type]
        return None if found is None else (os.pread(found.descriptor, found.length, found.position), found.aborted)


def fetched(log: LogReader, offset: int, max_bytes: int, **options: object) -> tuple[bytes, object] | None:
    """The bytes that a read returns, and its aborted transactions."""
    found = log.read(offset, max_bytes=max_bytes, **options)  # type: ignore[arg-type]
    return None if found is None else (found.window.buffer[: found.window.headers.end].tobytes(), found.aborted)


def varied(directory: Path, seed: int) -> Log:
    """A log of several segments with batches of all sizes, plain and in transactions that end in every way."""
    chance = Random(seed)
    log = open_log(directory, segment_bytes=200_000, index_interval_bytes=chance.choice([0, 300, 4096, 1 << 20]))
    sequences: dict[int, int] = {}
    for _ in range(120):
        value = chance.randbytes(chance.choice(SIZES[: chance.choice([3, 5, 7])]))
        producer_id = chance.choice([-1, -1, 1, 2, 3])
        if producer_id < 0 or chance.random() < seed % 2:
            append(log, *[value] * chance.choice([1, 1, 3]))
        elif producer_id in sequences and chance.random() < 0.3:
            end_transaction(log, producer_id, commit=chance.random() < 0.4)
        else:
            write_transactional(log, producer_id, sequences.get(producer_id, 0), value)
            sequences[producer_id] = sequences.get(producer_id, 0) + 1
    return log


@pytest.mark.parametrize("seed", range(4))
def test_a_slice_has_the_bytes_that_a_read_returns(seed: int, tmp_path: Path) -> None:
    chance = Random(seed)
    with varied(tmp_path, seed) as log, open_reader(tmp_path, segment_bytes=200_000) as reader:
        end = log.log_end_offset
        for opened in (log, reader):
            for _ in range(250):
                offset, up_to = chance.randint(0, end), chance.choice([INT64_MAX, chance.randint(0, end)])
                options = {"isolation": chance.choice(list(Isolation)), "up_to": up_to}
                options["min_one_message"] = chance.random() < 0.8
                max_bytes = chance.choice([0, 61, 100, 1000, 5000, 50_000, 80_000, 1 << 20, chance.randint(0, 9000)])
                asked = (offset, max_bytes)
                assert sliced(opened, *asked, **options) == fetched(opened, *asked, **options), (asked, options)


@pytest.mark.parametrize("seed", range(2))
def test_slices_one_after_the_other_are_the_whole_log(seed: int, tmp_path: Path) -> None:
    with varied(tmp_path, seed) as log:
        for max_bytes in (1, 3000, 100_000):
            found, offset = b"", 0
            while (data := log.read(offset, max_bytes=max_bytes, isolation=Isolation.READ_UNCOMMITTED)) is not None:
                part = sliced(log, offset, max_bytes, isolation=Isolation.READ_UNCOMMITTED)
                assert part is not None
                found, offset = found + part[0], data.next_offset
            names = sorted(tmp_path.glob(f"*{file_names.LOG}"))
            assert found == b"".join(name.read_bytes() for name in names)


def test_a_reader_that_goes_on_reads_and_checks_no_batch_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_log(tmp_path, index_interval_bytes=0) as log:
        for number in range(30):
            append(log, b"%d" % number * 100)
        offset = size = 0
        while size < log.segments.active.size:
            found = log.slice(offset, 1000, isolation=Isolation.READ_UNCOMMITTED)
            assert found is not None
            offset, size = [*log.segments.active._last_seen.following][-1], found.position + found.length
            found.release()
            monkeypatch.setattr(type(log.segments.active), "batches", None)  # it is not called any more
        assert offset == 30


def test_several_readers_that_go_on_read_and_check_no_batch_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_log(tmp_path, index_interval_bytes=0) as log:
        for number in range(30):
            append(log, b"%d" % number * 100)
        offsets = [0, 0, 5, 9, 16]
        for start in {*offsets}:
            assert sliced(log, start, 1) is not None
        monkeypatch.setattr(type(log.segments.active), "batches", None)  # it is not called any more
        for _ in range(10):
            for reader, offset in enumerate(offsets):
                assert sliced(log, offset + 1, 1) is not None
                offsets[reader] += 1
        assert len(log.segments.active._last_seen.following) <= FOLLOWING_MAX


def test_a_place_that_is_remembered_and_has_another_batch_is_not_used(tmp_path: Path) -> None:
    with open_log(tmp_path, index_interval_bytes=0) as log:
        for number in range(4):
            append(log, b"%d" % number * 100)
        right = sliced(log, 2, 1)
        for position in (0, 1, log.segments.active.size - 1, log.segments.active.size, 1 << 40):
            log.segments.active.remember_following(2, position)
            assert sliced(log, 2, 1) == right


def test_what_was_not_synced_is_not_shown_below_the_high_watermark(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        checked = check_batch(batch(b"x").tobytes(), log.context.config)
        log.append_checked([checked])
        log.append_checked([checked, checked], sync=False)
        for read in (sliced, fetched):
            found = read(log, 0, 1 << 20, up_to=log.high_watermark)
            assert found is not None
            assert len(found[0]) == len(checked.data)
            assert read(log, 1, 1 << 20, up_to=log.high_watermark) is None
            found = read(log, 1, 1 << 20)
            assert found is not None
            assert len(found[0]) == 2 * len(checked.data)
        log.sync_appended()
        assert sliced(log, 1, 1 << 20, up_to=log.high_watermark) == fetched(log, 1, 1 << 20)


def test_offsets_outside_the_log_are_refused(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        append(log, b"x")
        assert log.slice(1, 100) is None
        for offset in (-1, 2):
            with pytest.raises(OffsetOutOfRangeError):
                log.slice(offset, 100)


def test_a_slice_can_be_sent_after_its_segment_was_rolled_closed_and_removed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"content")
    found = log.slice(0, 1000)
    assert found is not None
    log.roll()
    log.close()
    for path in tmp_path.iterdir():
        path.unlink()
    assert b"content" in os.pread(found.descriptor, found.length, found.position)
    found.release()
    assert open_files(tmp_path) == 0


def test_a_wrong_index_leads_to_no_other_bytes(tmp_path: Path) -> None:
    with open_log(tmp_path, index_interval_bytes=0, segment_index_bytes=1000) as log:
        for number in range(30):
            append(log, b"%d" % number * 100)
        right = [sliced(log, 0, max_bytes) for max_bytes in range(0, 8000, 333)]
    (path,) = tmp_path.glob(f"*{file_names.INDEX}")
    data = bytearray(path.read_bytes())
    for at in range(7, len(data), 8):
        data[at] ^= 1
    path.write_bytes(data)
    with open_reader(tmp_path) as reader:
        assert [sliced(reader, 0, max_bytes) for max_bytes in range(0, 8000, 333)] == right


def test_a_header_that_cannot_be_right_ends_a_slice_before_it(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        ends = []
        for _ in range(4):
            append(log, b"x" * 50)
            ends.append(log.segments.active.size)
        (path,) = tmp_path.glob(f"*{file_names.LOG}")
        data = bytearray(path.read_bytes())
        data[ends[1] + 16] = 77  # a magic that nobody knows
        path.write_bytes(data)
        for isolation in Isolation:
            found = sliced(log, 0, ends[3] - 1, isolation=isolation)
            assert found is not None
            assert len(found[0]) == ends[1]
            log.segments.active._last_seen.following.clear()
            with pytest.raises(CorruptRecordError):
                sliced(log, 2, 1 << 20, isolation=isolation)


def test_several_readers_of_committed_records_look_at_headers_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_log(tmp_path) as log:
        for _ in range(10):
            append(log, b"x" * 2000)
        first = sliced(log, 0, 1 << 20)
        monkeypatch.setattr(type(log.segments.active), "walk", lambda *_: pytest.fail("it looked again"))
        log.segments.active.remember_following(0, 0)
        assert sliced(log, 0, 1 << 20) == first
        monkeypatch.undo()
        write_transactional(log, 1, 0, b"y")
        end_transaction(log, 1, commit=False)
        for _ in range(2):
            found = sliced(log, 0, 1 << 20)
            assert found is not None
            assert found[1] == ((1, 10),)


def test_a_file_system_without_descriptors_says_so() -> None:
    log = open_log("/t-0", filesystem=MemoryFileSystem())
    append(log, b"x")
    with pytest.raises(io.UnsupportedOperation, match="no descriptor"):
        log.slice(0, 100)
