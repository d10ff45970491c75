"""The known dump of the Strimzi canary, to the byte: one record every five seconds, one record per batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.writing.log import Log
from tests.support.clock import ManualClock
from tests.support.logs.building import config, records

KNOWN_TIMES = {0: 1639132508991, 1: 1639132514555, 108: 1639133049552}


def time_of(offset: int) -> int:
    return KNOWN_TIMES.get(offset, KNOWN_TIMES[0] + 5000 * offset)


def write_canary(directory: Path, count: int, **settings: object) -> Log:
    log = Log.open(str(directory), config(**settings), clock=ManualClock(time_of(count)))
    for offset in range(count):
        timestamp = time_of(offset)
        value = f'{{"producerId":"strimzi-canary-client","messageId":{1 + 3 * offset},"timestamp":{timestamp}}}'
        log.append_records(records([value.encode()], timestamps=timestamp), v2.BatchFields(base_sequence=0))
    return log


def size_of(directory: Path, name: str) -> int:
    return (directory / name).stat().st_size


def test_a_segment_of_16384_bytes_holds_the_first_109_records(tmp_path: Path) -> None:
    log = write_canary(tmp_path, 110, segment_bytes=16384)
    assert log.segments.base_offsets == [0, 109]
    assert size_of(tmp_path, "00000000000000000000.log") == 16314 == 3 * 148 + 30 * 149 + 76 * 150


@pytest.mark.parametrize(
    ("offset", "position", "crc"),
    [(0, 0, 2142666254), (1, 148, 1895373344), (108, 16164, 1749984078)],
)
def test_known_batches_have_the_known_checksums(tmp_path: Path, offset: int, position: int, crc: int) -> None:
    write_canary(tmp_path, 110, segment_bytes=16384)
    header = np.fromfile(tmp_path / "00000000000000000000.log", dtype=v2.LAYOUT, count=1, offset=position)[0]
    assert (header["base_offset"], header["crc"]) == (offset, crc)


def test_indexes_of_a_rolled_segment_hold_an_entry_an_interval_and_the_closing_time(tmp_path: Path) -> None:
    write_canary(tmp_path, 110, segment_bytes=16384)
    offsets = np.fromfile(tmp_path / "00000000000000000000.index", dtype=">i4").reshape(-1, 2)
    assert offsets.tolist() == [[28, 4169], [56, 8364], [84, 12564]]
    times = np.fromfile(tmp_path / "00000000000000000000.timeindex", dtype=[("ms", ">i8"), ("offset", ">i4")])
    assert times["offset"].tolist() == [28, 56, 84, 108]
    assert times["ms"].tolist() == [time_of(offset) for offset in (28, 56, 84, 108)]


def test_the_active_segment_has_preallocated_indexes_and_a_snapshot_without_producers(tmp_path: Path) -> None:
    write_canary(tmp_path, 110, segment_bytes=16384)
    assert size_of(tmp_path, "00000000000000000109.index") == 10_485_760
    assert size_of(tmp_path, "00000000000000000109.timeindex") == 10_485_756
    assert (tmp_path / "00000000000000000109.snapshot").read_bytes() == bytes.fromhex("000148674bc700000000")


def test_a_full_time_index_rolls_the_segment(tmp_path: Path) -> None:
    log = write_canary(tmp_path, 50, index_interval_bytes=150, segment_index_bytes=300)
    assert log.segments.base_offsets == [0, 49]
    assert size_of(tmp_path, "00000000000000000000.log") == 7314
    assert size_of(tmp_path, "00000000000000000000.index") == 24 * 8
    assert size_of(tmp_path, "00000000000000000000.timeindex") == 24 * 12
    assert size_of(tmp_path, "00000000000000000049.index") == 296
    assert size_of(tmp_path, "00000000000000000049.timeindex") == 300
