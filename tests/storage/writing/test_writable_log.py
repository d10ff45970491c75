"""What a writer learns of another's appends, by their headers, compared with reopening the log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyspark_commitlog.storage import ROOT_LOCK_FILE, LogManager
from pyspark_commitlog.storage.errors import LockHeldError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.files.file_names import RECOVERY_POINT_CHECKPOINT
from pyspark_commitlog.storage.reading.marks import KeptInMemory, Marks
from pyspark_commitlog.storage.writing.locks import APPEND_LOCK_FILE
from pyspark_commitlog.storage.writing.log import Log
from tests.support.logs.building import (
    NOW_MS,
    batch,
    committed,
    end_transaction,
    open_log,
    records,
    rows,
    write_transactional,
)

LARGE = b"x" * 20_000  # a batch of which only the header is read


def append_mixed(log: Log, seed: int) -> None:
    """Large and small batches, with and without producers, committed, aborted and still open."""
    random = np.random.default_rng(seed)
    for sequence in range(6):
        values = [LARGE[: int(random.choice([10, 9_000, 20_000]))] for _ in range(int(random.integers(1, 4)))]
        log.append_records(records(values))
        log.append_encoded(v2.encode_batches(records(values), v2.BatchFields(), batch_bytes_max=100))
        write_transactional(log, 1 + sequence, 0, LARGE)
        write_transactional(log, 1 + sequence, 1, b"small")
        if sequence < 4:
            end_transaction(log, 1 + sequence, commit=bool(random.integers(0, 2)))


@pytest.mark.parametrize("preallocate", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_catching_up_finds_what_opening_finds(tmp_path: Path, seed: int, preallocate: bool) -> None:
    settings = {"preallocate": preallocate, "segment_bytes": 1 << 20}
    with open_log(tmp_path, **settings) as mine, open_log(tmp_path, **settings) as other:
        append_mixed(other, seed)
        mine.append(batch(b"mine"))  # after all batches of the other
        found = mine.log_end_offset, dict(mine.producers.producers), dict(mine.producers.ongoing)
        indexed = (tmp_path / "00000000000000000000.index").read_bytes()
        seen = rows(mine), committed(mine)
    with open_log(tmp_path / "copy", **settings) as again:
        append_mixed(again, seed)
        again.append(batch(b"mine"))
        assert found == (again.log_end_offset, dict(again.producers.producers), dict(again.producers.ongoing))
        assert indexed == (tmp_path / "copy" / "00000000000000000000.index").read_bytes()
        assert seen == (rows(again), committed(again))


@pytest.mark.parametrize("kept", [8, 40, 100, 10_000])
@pytest.mark.parametrize("preallocate", [False, True])
def test_torn_batch_of_another_is_cut_off(tmp_path: Path, kept: int, preallocate: bool) -> None:
    """As after a process was killed in the middle of a write; preallocated zeros make it look whole."""
    settings = {"preallocate": preallocate, "segment_bytes": 1 << 20}
    with open_log(tmp_path, **settings) as mine:
        mine.append(batch(b"first"))
        with open_log(tmp_path, **settings) as other:
            other.append(batch(LARGE))
            end = other.segments.active.size
        file = tmp_path / "00000000000000000000.log"
        torn = v2.encode(records([LARGE]), v2.BatchFields())
        torn[:8] = np.frombuffer((2).to_bytes(8, "big"), dtype=np.uint8)
        with file.open("r+b") as log:
            log.truncate(1 << 20 if preallocate else end)
            log.seek(end)
            log.write(torn[:kept].tobytes())
        mine.append(batch(b"last"))
        assert rows(mine) == [(0, b"first"), (1, LARGE), (2, b"last")]


@pytest.mark.parametrize("is_mine_first", [False, True])
def test_time_index_stays_in_order_if_another_process_closed_the_log(tmp_path: Path, is_mine_first: bool) -> None:
    """Closing and recovering add an entry that belongs to no batch; the next writer continues after it."""
    marks = KeptInMemory()
    with open_log(tmp_path, marks) as mine:
        mine.append(batch(LARGE, timestamps=1_000))
        with open_log(tmp_path, marks) as closed:
            closed.append(batch(LARGE, timestamps=2_000))
            closed.append(batch(b"small", timestamps=3_000))
            closed.append(batch(b"without an entry", timestamps=3_500))
        with open_log(tmp_path, marks) as opened:
            for round_ in range(3):
                for log in (mine, opened) if is_mine_first else (opened, mine):
                    log.append(batch(LARGE, timestamps=4_000 + 2_000 * round_))
                    log.append(batch(LARGE, timestamps=5_000 + 2_000 * round_))
            for log in (mine, opened):
                with log.exclusively():
                    found = log.segments.active.time_index.timestamps.tolist()
                    log.segments.active.time_index.close()
                    in_file = log.segments.active.time_index.timestamps.tolist()
                assert found == in_file == [1_000, 2_000, 3_000, 3_500, 5_000, 6_000, 7_000, 8_000, 9_000]


def test_indexes_that_another_process_rewrote_are_read_again(tmp_path: Path) -> None:
    """Recovery rewrites them from the beginning, without the entry from closing: nobody continues at their old end."""
    marks = KeptInMemory()
    with open_log(tmp_path, marks) as mine:
        for timestamp in (1_000, 2_000, 3_000):
            with open_log(tmp_path, marks) as closed:
                closed.append(batch(b"small", timestamps=timestamp))
            mine.append(batch(b"smaller", timestamps=timestamp))
        marks.write(Marks(0, 0))
        with open_log(tmp_path, marks) as recovered:
            recovered.append(batch(LARGE, timestamps=4_000))
            mine.append(batch(LARGE, timestamps=5_000))
            recovered.append(batch(LARGE, timestamps=6_000))
            active = recovered.segments.active
            assert active.time_index.timestamps.tolist() == [3_000, 5_000, 6_000]
            assert active.offset_index.offsets.tolist() == [7, 8]
            active.time_index.close()
            assert active.time_index.timestamps.tolist() == [3_000, 5_000, 6_000], "in the file"


def test_more_index_entries_of_another_than_one_look_reads(tmp_path: Path) -> None:
    settings = {"index_interval_bytes": 0}
    with open_log(tmp_path, **settings) as mine, open_log(tmp_path, **settings) as other:
        mine.append(batch(b"mine"))
        for timestamp in range(300):
            other.append(batch(b"another's", timestamps=NOW_MS + timestamp))
        mine.append(batch(b"mine", timestamps=NOW_MS + 1_000))
        assert mine.segments.active.offset_index.offsets.tolist() == list(range(1, 302))
        with open_log(tmp_path / "copy", **settings) as alone:
            alone.append(batch(b"mine"))
            for timestamp in [*range(300), 1_000]:
                alone.append(batch(b"another's", timestamps=NOW_MS + timestamp))
            expected = alone.segments.active.time_index.timestamps.tolist()
        assert mine.segments.active.time_index.timestamps.tolist() == expected


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_index_with_more_than_the_log_holds_is_rebuilt(tmp_path: Path, kind: str) -> None:
    """Another process, or the disk, damaged it while the log is open: that does not stop appends."""
    marks = KeptInMemory()
    with open_log(tmp_path, marks) as mine:
        mine.append(batch(LARGE, timestamps=1_000))
        mine.append(batch(LARGE, timestamps=2_000))
        entry = 8 if kind == "index" else 12
        with (tmp_path / f"00000000000000000000.{kind}").open("r+b") as file:
            file.seek(entry)  # after the existing one
            file.write(b"\x11" * entry)
        mine.append(batch(LARGE, timestamps=3_000))
        mine.append(batch(LARGE, timestamps=4_000))
        active = mine.segments.active
        assert active.offset_index.offsets.tolist() == [1, 2, 3]
        active.time_index.sanity_check()
        assert active.time_index.last_entry == (4_000, 3)


def test_a_writer_takes_in_that_another_process_deleted_segments(tmp_path: Path) -> None:
    with open_log(tmp_path, segment_bytes=1 << 20) as mine:
        for _ in range(3):
            mine.append(batch(b"x" * 700_000))
        for file in tmp_path.glob("00000000000000000000.*"):
            file.unlink()
        mine.take_in_maintenance()
        assert mine.segments.base_offsets == [1, 2]
        assert (mine.log_start_offset, mine.log_end_offset) == (1, 3)
        before = mine.segments
        mine.take_in_maintenance()
        assert mine.segments is before, "nothing has changed, so nothing is loaded"


def test_a_log_whose_lock_another_process_holds_for_long_is_refused_and_closed(tmp_path: Path) -> None:
    patient = LocalFileSystem(lock_waits_s={APPEND_LOCK_FILE: 0.05})
    log = open_log(tmp_path, filesystem=patient)
    log.append(batch(b"before"))
    with LocalFileSystem().lock(str(tmp_path / APPEND_LOCK_FILE)) or pytest.fail("held"):
        for _ in range(2):
            with pytest.raises(LockHeldError, match="another process has held this lock"):
                log.append(batch(b"refused"))
        with pytest.raises(LockHeldError):
            open_log(tmp_path, filesystem=patient)
        log.close()
    with open_log(tmp_path, filesystem=patient) as again:
        assert again.log_end_offset == 1
        assert again.append(batch(b"after")).first_offset == 1


def test_a_segment_is_rolled_though_the_lock_of_the_checkpoints_is_held(tmp_path: Path) -> None:
    patient = LocalFileSystem(lock_waits_s={ROOT_LOCK_FILE: 0.05})
    with LogManager.open(str(tmp_path), create=True, filesystem=patient) as manager:
        manager.create_topic("t", partitions=1)
        log = manager.open_log("t", 0)
        with LocalFileSystem().lock(str(tmp_path / ROOT_LOCK_FILE)) or pytest.fail("held"):
            for value in (b"one", b"two"):
                log.append(batch(value))
                log.roll()
            with pytest.raises(LockHeldError):
                log.delete_records(1)
        assert set(manager.offsets(RECOVERY_POINT_CHECKPOINT).values()) == {0}
    with LogManager.open(str(tmp_path)) as manager:
        log = manager.open_log("t", 0)
        assert log.segments.base_offsets == [0, 1, 2]
        assert (log.log_start_offset, rows(log)) == (0, [(0, b"one"), (1, b"two")])
