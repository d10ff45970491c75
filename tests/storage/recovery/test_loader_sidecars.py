"""Missing, torn or wrong files beside the log: none prevents a log from opening, and none costs a record."""

from __future__ import annotations

import logging
import shutil
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from pyspark_commitlog.storage.errors import CorruptionError, CorruptRecordError, MissingSegmentError
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.format.files.index_entries import AbortedTxn, encode_aborted, encode_time_entries
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.recovery.producer_state import Origin
from pyspark_commitlog.storage.segment.joining import Holes
from pyspark_commitlog.storage.writing.log import Log
from tests.support.clock import ManualClock
from tests.support.logs.building import NOW_MS, batch, config, records, rows

Rows = list[tuple[int, bytes | None]]

SETTINGS = config(segment_bytes=500, index_interval_bytes=100)
ALL: Rows = [(n, b"%d" % n) for n in range(20)]
FIELDS = {  # of a batch of magic 2, the last byte of each
    **{"base offset": 7, "length": 11, "checksum": 20, "attributes": 22, "last offset delta": 26},
    **{"largest time": 42, "producer id": 50, "producer epoch": 52, "base sequence": 56, "count": 60, "records": 65},
}
SIDECARS = (file_names.INDEX, file_names.TIME_INDEX, file_names.SNAPSHOT, file_names.LEADER_EPOCH_CHECKPOINT)


def open_log(directory: Path, recovery_point: int = 20) -> Log:
    marks = KeptInMemory(recovery_point)
    return Log.open(str(directory), SETTINGS, clock=ManualClock(NOW_MS), checkpoints=marks)


def open_reader(directory: Path) -> LogReader:
    return LogReader.open(str(directory), SETTINGS, clock=ManualClock(NOW_MS), checkpoints=KeptInMemory(20))


@pytest.fixture(scope="module")
def closed_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("closed")
    with open_log(directory, recovery_point=0) as log:
        for _, value in ALL:
            log.append_records(records([value]))
    return directory


@pytest.fixture
def directory(closed_log: Path, tmp_path: Path) -> Path:
    return shutil.copytree(closed_log, tmp_path / "log")


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


@pytest.mark.parametrize("kinds", [each for n in range(1, 5) for each in combinations(SIDECARS, n)], ids="".join)
@pytest.mark.parametrize("spoil", ["missing", "empty", "garbage"])
def test_a_log_opens_whatever_happened_to_its_sidecar_files(
    directory: Path, kinds: tuple[str, ...], spoil: str
) -> None:
    for path in directory.iterdir():
        if path.name.endswith(kinds):
            if spoil == "missing":
                path.unlink()
            else:
                path.write_bytes(b"" if spoil == "empty" else bytes(range(7, 70)))
    assert rows(open_reader(directory)) == ALL
    with open_log(directory) as log:
        assert rows(log) == ALL
        assert log.epochs.epoch_for(0) == 0
        log.append_records(records([b"new"]))
    with open_log(directory, recovery_point=21) as log:
        assert rows(log) == [*ALL, (20, b"new")]


@pytest.mark.parametrize("index", ["missing", "there"])
@pytest.mark.parametrize(("field", "at"), FIELDS.items(), ids=FIELDS)
def test_no_state_is_rebuilt_out_of_a_damaged_batch_below_the_recovery_point(
    directory: Path, field: str, at: int, index: str
) -> None:
    """A writer that relied on its header would take other records for duplicates, or end another transaction."""
    first, *_ = segments(directory)
    data = bytearray(first.read_bytes())
    second_batch = 12 + int.from_bytes(data[8:12], "big")
    data[second_batch + at] ^= 1
    first.write_bytes(data)
    if index == "there":
        with open_log(directory) as log, pytest.raises(CorruptionError):
            rows(log)
        return
    first.with_suffix(file_names.INDEX).unlink()
    listing = {path.name: path.read_bytes() for path in segments(directory)}
    with pytest.raises(CorruptionError, match=str(first)):
        open_log(directory)
    assert {path.name: path.read_bytes() for path in segments(directory)} == listing


def test_the_epochs_are_rebuilt_although_garbage_follows_the_last_batch(directory: Path) -> None:
    (directory / file_names.LEADER_EPOCH_CHECKPOINT).unlink()
    with segments(directory)[-1].open("ab") as file:
        file.write(bytes(100))
    with open_log(directory) as log:
        assert rows(log) == ALL
        assert [entry.epoch for entry in log.epochs.entries] == [0]


def test_an_empty_file_with_the_next_base_counts_as_the_active_segment(directory: Path) -> None:
    """The state after a crash during a roll."""
    (directory / file_names.segment_file(20, file_names.LOG)).touch()
    for end in (20, 21):
        with open_log(directory) as log:
            assert log.segments.active.base_offset == 20
            assert log.log_end_offset == end
            log.append_records(records([b"new"]))


def test_an_entry_of_the_transaction_index_whose_marker_a_crash_took_is_dropped(directory: Path) -> None:
    index = segments(directory)[-1].with_suffix(file_names.TXN_INDEX)
    index.write_bytes(encode_aborted([AbortedTxn(7, 19, 20, 21)]))
    with open_log(directory):
        pass
    assert index.read_bytes() == b""


def test_time_entries_of_batches_that_a_power_cut_took_are_dropped(directory: Path) -> None:
    last = segments(directory)[-1]
    index, base = last.with_suffix(file_names.TIME_INDEX), int(last.stem)
    lost = encode_time_entries(base, np.array([NOW_MS + 5]), np.array([25]))
    index.write_bytes(index.read_bytes() + lost)
    with open_log(directory) as log:
        assert log.segments.active.largest == (NOW_MS, base)
        for n in range(20, 26):
            log.append_records(records([b"%d" % n], timestamps=NOW_MS + n))
        assert rows(log) == [*ALL, *((n, b"%d" % n) for n in range(20, 26))]


def test_a_gap_between_segments_is_reported_on_opening_and_refused_on_reading(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, missing, following = (int(path.name[:20]) for path in segments(directory)[:3])
    for path in directory.glob(f"{missing:020d}.*"):
        path.unlink()
    with caplog.at_level(logging.WARNING), open_log(directory, recovery_point=0) as log:
        assert f"{directory}: offsets {missing} to {following - 1} are in no segment" in caplog.text
        with pytest.raises(MissingSegmentError, match=f"offsets {missing} to {following - 1} "):
            rows(log)
        found = [value for part in log.records(following, 20) if part.values for value in part.values.to_list()]
        assert found == [value for offset, value in ALL if offset >= following]
    assert first == 0


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_torn_segment_before_others_is_reported(directory: Path, policy: str) -> None:
    """Nothing else would show that records are missing there, least of all in a compacted log."""
    torn = segments(directory)[1]
    torn.write_bytes(torn.read_bytes()[:-5])
    settings = config(segment_bytes=500, index_interval_bytes=100, cleanup_policy=policy)
    marks = KeptInMemory(20)
    reader = LogReader.open(str(directory), settings, clock=ManualClock(NOW_MS), checkpoints=marks)
    with pytest.raises(CorruptRecordError, match=rf"{torn.name}, position \d+: the last batch is incomplete"):
        rows(reader)


def test_decreasing_offsets_end_a_read_with_an_error(tmp_path: Path) -> None:
    with open_log(tmp_path, recovery_point=0) as log:
        log.append_records(records([b"a", b"b"]))
        size = log.segments.active.size
        log.append_records(records([b"c", b"d"]))
        log.append_records(records([b"e", b"f"]))
    path = segments(tmp_path)[0]
    data = bytearray(path.read_bytes())
    data[size : size + 8] = bytes(8)
    path.write_bytes(data)
    with pytest.raises(CorruptRecordError, match=f"position {size}: offsets 0 to 1 follow offset 1"):
        rows(LogReader.open(str(tmp_path), SETTINGS, clock=ManualClock(NOW_MS), checkpoints=KeptInMemory(6)))


@pytest.mark.parametrize("isolation", list(Isolation))
def test_epochs_beyond_the_log_end_do_not_count(directory: Path, isolation: Isolation) -> None:
    (directory / file_names.LEADER_EPOCH_CHECKPOINT).write_bytes(b"0\n2\n0 0\n7 99999999\n")
    reader = open_reader(directory)
    assert rows(reader, isolation) == ALL
    assert [entry.epoch for entry in reader.epochs.entries] == [0]
    with open_log(directory) as log:
        assert [entry.epoch for entry in log.epochs.entries] == [0]


def test_snapshots_of_no_segment_and_beyond_the_end_are_removed(directory: Path) -> None:
    sound = next(iter(directory.glob("*.snapshot"))).read_bytes()
    strays = [directory / file_names.segment_file(offset, file_names.SNAPSHOT) for offset in (1, 1000)]
    for path in strays:
        path.write_bytes(sound)
    with open_log(directory) as log:
        assert not [path for path in strays if path.exists()]
        assert rows(log) == ALL


def test_garbage_between_two_complete_segments_costs_no_record(directory: Path) -> None:
    """Above the recovery point Kafka drops all later segments; here every offset still exists."""
    with segments(directory)[1].open("ab") as file:
        file.write(bytes(range(50)))
    for _ in product(range(2)):
        with open_log(directory, recovery_point=0) as log:
            assert rows(log) == ALL


class TestEndThatIsMissing:
    """A partition without a recovery point, as a copy is, cut between two batches."""

    @pytest.fixture
    def copy(self, directory: Path) -> Path:
        """Without the last batch, and the snapshot made at the log's end when it was closed, which is 20."""
        *_, last = segments(directory)
        data, position = last.read_bytes(), 0
        while (behind := position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")) < len(data):
            position = behind
        last.write_bytes(data[:position])
        assert position
        return directory

    def test_a_snapshot_above_the_end_shows_that_records_are_missing(self, copy: Path) -> None:
        reader = LogReader.open(str(copy), SETTINGS, checkpoints=KeptInMemory(None))
        assert [offset for part in reader.records(0, 10) for offset in part.offsets.tolist()] == [*range(10)]
        with pytest.raises(MissingSegmentError, match=r"020\.snapshot: the log ends at offset 19, but reached 20"):
            rows(reader)
        (copy / "00000000000000000020.snapshot").unlink()
        assert rows(LogReader.open(str(copy), SETTINGS, checkpoints=KeptInMemory(None))) == ALL[:-1]

    @pytest.mark.parametrize("spoil", [b"", b"\1" * 40])
    def test_a_damaged_snapshot_shows_nothing(self, copy: Path, spoil: bytes) -> None:
        (copy / "00000000000000000020.snapshot").write_bytes(spoil)
        assert rows(LogReader.open(str(copy), SETTINGS, checkpoints=KeptInMemory(None))) == ALL[:-1]

    def test_where_a_recovery_point_is_known_it_decides(self, copy: Path) -> None:
        reader = LogReader.open(str(copy), SETTINGS, checkpoints=KeptInMemory(19))
        assert rows(reader) == ALL[:-1]

    def test_the_missing_end_is_reported_if_a_gap_precedes_an_open_transaction(self, tmp_path: Path) -> None:
        """Readers of committed records stop in the hole that compaction left."""
        compacted = config(cleanup_policy="compact")
        with Log.open(str(tmp_path), compacted, clock=ManualClock(NOW_MS)) as log:
            log.append(batch(b"a"), origin=Origin.REPLICATION)
            began = batch(b"open", producer_id=1, base_sequence=0, transactional=True)
            began[:8] = list((5).to_bytes(8, "big"))
            log.append(began, origin=Origin.REPLICATION)
        [made] = tmp_path.glob("*.snapshot")
        made.rename(tmp_path / "00000000000000000009.snapshot")
        reader = LogReader.open(str(tmp_path), compacted, checkpoints=KeptInMemory(None, holes=Holes.ANYWHERE))
        assert (reader.last_stable_offset, reader.log_end_offset) == (5, 6)
        assert [part.offsets.tolist() for part in reader.records(0, 4, isolation=Isolation.READ_COMMITTED)] == [[0]]
        for isolation in Isolation:
            with pytest.raises(MissingSegmentError, match="reached 9 when this snapshot was written"):
                rows(reader, isolation)
