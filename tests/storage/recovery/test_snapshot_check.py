"""Snapshots of another time: readers follow the log's account of its producers."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.storage.errors import CorruptRecordError
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.format.v2 import header
from pyspark_commitlog.storage.reading.aborted import Isolation
from tests.support.logs.building import append, end_transaction, open_log, open_reader, rows, write_transactional
from tests.torture.damage.sound_logs import open_reader as open_sound, sound_logs

COMMITTED = [(0, b"first"), (3, b"second"), (5, b"plain")]


def three_times(directory: Path) -> list[Path]:
    """A log with a snapshot within each of two transactions, and one after them; the snapshots, in that order."""
    with open_log(directory) as log:
        write_transactional(log, 1, 0, b"first")
        log.roll()
        end_transaction(log, 1, commit=True)
        write_transactional(log, 2, 0, b"aborted")
        write_transactional(log, 1, 1, b"second")
        log.roll()
        end_transaction(log, 1, commit=True)
        append(log, b"plain")
        end_transaction(log, 2, commit=False)
    found = sorted(directory.glob(f"*{file_names.SNAPSHOT}"))
    assert len(found) == 3
    return found


@pytest.mark.parametrize(("place", "source"), [(2, 0), (2, 1), (1, 0), (1, 2), (0, 1), (0, 2)])
def test_a_snapshot_that_was_set_back_or_forward_changes_nothing(tmp_path: Path, place: int, source: int) -> None:
    """Ended transactions seemed open, and records after them were not shown; or the other way round."""
    snapshots = three_times(tmp_path)
    snapshots[place].write_bytes(snapshots[source].read_bytes())
    for lost in snapshots[place + 1 :]:
        lost.unlink()
    with open_reader(tmp_path) as reader:
        assert rows(reader, Isolation.READ_COMMITTED) == COMMITTED


def test_a_snapshot_that_knows_nothing_of_an_open_transaction_opens_nothing(tmp_path: Path) -> None:
    """Records that nobody committed were shown."""
    with open_log(tmp_path) as log:
        append(log, b"plain")
        log.roll()
        write_transactional(log, 1, 0, b"open")
    first, last = sorted(tmp_path.glob(f"*{file_names.SNAPSHOT}"))
    last.write_bytes(first.read_bytes())
    with open_reader(tmp_path) as reader:
        assert reader.last_stable_offset == 1
        assert rows(reader, Isolation.READ_COMMITTED) == [(0, b"plain")]


def test_a_snapshot_after_damage_is_not_trusted(tmp_path: Path) -> None:
    """An older snapshot made a reader wait below the damage, which it therefore never reached."""
    with open_log(tmp_path) as log:
        write_transactional(log, 1, 0, b"first")
        log.roll()
        end_transaction(log, 1, commit=True)
        append(log, b"plain")
    first, last = sorted(tmp_path.glob(f"*{file_names.SNAPSHOT}"))
    last.write_bytes(first.read_bytes())
    log_file = max(tmp_path.glob(f"*{file_names.LOG}"))
    data = bytearray(log_file.read_bytes())
    data[header.LAYOUT.itemsize + 3] ^= 1  # of the marker
    log_file.write_bytes(data)
    with open_reader(tmp_path) as reader, pytest.raises(CorruptRecordError):
        rows(reader, Isolation.READ_COMMITTED)
    with open_reader(tmp_path) as reader, reader.despite_damage():
        assert reader.last_stable_offset == 0


def test_snapshots_of_brokers_match_their_logs(caplog: pytest.LogCaptureFixture) -> None:
    """Of idempotent and transactional producers, compacted or not, from 3.9 and 4.3."""
    snapshots = 0
    for log in sound_logs():
        snapshots += sum(path.endswith(file_names.SNAPSHOT) for path in log.files)
        with open_sound(log.disk, log.topic, log.partition) as reader:
            assert reader.last_stable_offset >= 0
    assert snapshots > 1000
    assert [record.message for record in caplog.records if "contradicts the log" in record.message] == []
