"""Key filters of a log: when they are believed, and what verification, damage and a crash make of them."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from unittest.mock import patch

import numpy as np
import pytest

from pyspark_commitlog.storage import (
    Condition,
    KeyChoice,
    LogManager,
    MaintenanceRun,
    Records,
    Search,
    alter_configs,
    in_this_process,
    retain,
    select_partitions,
    verify_partitions,
)
from pyspark_commitlog.storage.clock import SystemClock
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format import decompressed_parts, v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.key_filters.files import FilterFiles
from pyspark_commitlog.storage.key_filters.filter_file import encode
from pyspark_commitlog.storage.key_filters.making import make_filter
from pyspark_commitlog.storage.segment.walk import LogContext
from tests.storage.finding.scanning import Row, found
from tests.support.logs.building import now_ms, open_log, open_reader, records
from tests.support.logs.key_filters import (
    RECORDS,
    SEGMENTS,
    changed,
    filter_files,
    filters_in,
    flipped,
    made_log,
    rewritten,
    run_filters,
)

ALL = [number * RECORDS for number in range(SEGMENTS)]  # the base offsets of closed segments


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filters") / "log"
    made_log(path)
    return path


@pytest.fixture
def directory(made: Path, tmp_path: Path) -> Path:
    """The same, to change, with its filters made there."""
    shutil.copytree(made, tmp_path / "log")
    run_filters(tmp_path / "log")
    return tmp_path / "log"


def findings(path: Path) -> list[str]:
    run = MaintenanceRun(str(path))
    with run.manager() as manager:
        selection = select_partitions(manager, (), run.overrides)
    [outcome] = verify_partitions(run, selection, in_this_process)
    return [each["kind"] for each in outcome.facts["findings"]]


def searched(path: Path, key: bytes, *, newest_first: bool = False) -> list[Row]:
    """What a search finds, which must be complete."""
    with LogManager.open(str(path)) as manager:
        return found(manager, "t", Condition(key=key), newest_first=newest_first)


def logs(path: Path) -> list[Path]:
    """The closed segments."""
    return [path / "t-0" / f"{offset:020}.log" for offset in ALL]


def the_file(path: Path) -> Path:
    """The one file with all filters."""
    [found] = filter_files(path)
    return found


def have_filters(path: Path) -> list[int]:
    """The base offsets of the segments that have a filter."""
    return [each.segment.base_offset for file in filter_files(path) for each in filters_in(file.read_bytes())]


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_search_by_key_passes_over_segments_without_it(directory: Path, newest_first: bool) -> None:
    rows = searched(directory, b"key 1", newest_first=newest_first)
    assert [row.offset for row in rows] == sorted([202, 1010, 1818], reverse=newest_first)
    opened = list[str]()
    for path in directory.glob("t-0/*.log"):
        if int(path.stem) not in (202, 1010, 1818) and path.stat().st_size:
            opened.append(path.name)
            data = path.read_bytes()
            status = path.stat()
            path.write_bytes(bytes(len(data)))  # what is passed over is not even read
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert len(opened) == 9
    again = searched(directory, b"key 1", newest_first=newest_first)
    assert again == rows


def exchanged(path: Path) -> None:
    """Each filter is of another file than its segment's."""
    filters = filters_in(path.read_bytes())
    others = [*filters[1:], filters[0]]
    path.write_bytes(
        encode(
            [
                other._replace(segment=other.segment._replace(base_offset=each.segment.base_offset))
                for each, other in zip(filters, others, strict=True)
            ]
        )
    )


def of_the_first_layout(path: Path) -> None:
    """As files were that had the filter of one segment each."""
    for log in path.parent.glob("*.log"):
        log.with_suffix(".keyfilter").write_bytes(b"KEYFLTR2" + bytes(200))


def restored(path: Path) -> None:
    for log in path.parent.glob("*.log"):
        rewritten(log)


SPOILED: dict[str, Callable[[Path], None]] = {
    "missing": lambda path: path.unlink(),
    "damaged table": lambda path: flipped(path, 0.1),
    "damaged bits": lambda path: flipped(path, 0.5),
    "empty": lambda path: path.write_bytes(b""),
    "shorter": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "of other segments": exchanged,
    "of the first layout": of_the_first_layout,
    "of other files": restored,
}


@pytest.mark.parametrize("spoil", SPOILED)
def test_filters_that_are_not_right_are_not_believed_and_made_again(directory: Path, spoil: str) -> None:
    expected = searched(directory, b"key 3")
    assert len(expected) == 3
    SPOILED[spoil](the_file(directory))
    assert searched(directory, b"key 3") == expected
    assert searched(directory, b"absent") == []
    run_filters(directory)
    assert the_file(directory).stem == f"{0:020}"
    assert have_filters(directory) == ALL
    assert findings(directory) == []


def test_verification_checks_filters(directory: Path) -> None:
    assert findings(directory) == []
    file = the_file(directory)
    changed(file, lambda each: each._replace(bits=np.zeros_like(each.bits)), 2)
    rewritten(logs(directory)[4])
    flipped(file, 0.99)
    assert sorted(findings(directory)) == ["bad-key-filter", "bad-key-filter", "old-key-filter"]
    run_filters(directory)
    assert findings(directory) == ["bad-key-filter"]  # the one that is whole: only a check of all keys shows it
    flipped(file, 0.1)
    assert findings(directory) == ["bad-key-filter"]  # all filters of the file
    run_filters(directory)
    assert findings(directory) == []


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_missing_segment_is_named_although_the_one_before_it_is_passed_over(
    directory: Path, newest_first: bool
) -> None:
    missing = logs(directory)[5]
    for kind in (".log", ".index", ".timeindex"):
        missing.with_suffix(kind).unlink()
    first = int(missing.stem)
    with LogManager.open(str(directory)) as manager:
        with Search(manager, "t", Condition(key=b"absent"), newest_first=newest_first) as search:
            assert list(search) == []
        assert [(each.offsets, each.kind) for each in search.unsearched] == [(range(first, first + 202), "damaged")]
        with manager.open_reader("t", 0) as reader:
            parts = list(KeyChoice((b"absent",)).parts(reader, 0, reader.log_end_offset))
    assert any(part.start <= first < part.stop for part in parts)


def test_verification_notices_a_filter_that_names_another_end(directory: Path) -> None:
    changed(the_file(directory), lambda each: each._replace(next_offset=10**6), 2)
    assert findings(directory) == ["bad-key-filter"]


def test_filters_are_made_again_only_where_they_are_not_right(directory: Path) -> None:
    before = the_file(directory).stat()
    assert [str(each) for each in run_filters(directory)] == ["t-0: made filters of 0 segments, 0 bytes, 12 kept"]
    assert the_file(directory).stat() == before
    rewritten(logs(directory)[3])
    assert "would make filters of 1 segment, 0 bytes, 11 kept" in str(run_filters(directory, dry_run=True)[0])
    assert the_file(directory).stat() == before
    assert [each.facts["made"] for each in run_filters(directory)] == [1]
    assert have_filters(directory) == ALL


def test_filters_of_new_segments_join_those_that_are_there(directory: Path) -> None:
    with LogManager.open(str(directory)) as manager:
        log = manager.open_log("t", 0)
        log.append_records(Records.to_append([b"key 3"], [b"v"], now_ms()))
        log.roll()
    assert [each.facts["made"] for each in run_filters(directory)] == [1]
    assert the_file(directory).stem == f"{0:020}"
    assert have_filters(directory) == [*ALL, SEGMENTS * RECORDS]
    assert len(searched(directory, b"key 3")) == 4


def test_a_large_log_has_several_files(directory: Path) -> None:
    the_file(directory).unlink()
    with patch("pyspark_commitlog.storage.filtering.partition.FILE_BYTES", 1200):
        run_filters(directory)
        assert [int(path.stem) for path in filter_files(directory)] == ALL[::4]
        assert have_filters(directory) == ALL
        assert [row.offset for row in searched(directory, b"key 1")] == [ALL[1], ALL[5], ALL[9]]
        filter_files(directory)[1].unlink()
        assert [row.offset for row in searched(directory, b"key 1", newest_first=True)] == [ALL[9], ALL[5], ALL[1]]
        assert [(each.facts["made"], each.facts["kept"]) for each in run_filters(directory)] == [(4, 8)]
        assert have_filters(directory) == ALL
    assert findings(directory) == []


def test_filters_go_after_their_segments(directory: Path) -> None:
    with LogManager.open(str(directory)) as manager:
        log = manager.open_log("t", 0)
        log.delete_records(404)
        retain(log)
    assert len(searched(directory, b"key 2")) == 3
    assert findings(directory) == []
    assert "0 segments, 0 bytes, 10 kept" in str(run_filters(directory)[0])
    assert the_file(directory).stem == f"{404:020}"
    assert have_filters(directory) == ALL[2:]


def test_filters_go_with_the_setting(directory: Path) -> None:
    with LogManager.open(str(directory)) as manager:
        alter_configs(manager, "t", {"keyfilter.enable": "false"})
    assert len(searched(directory, b"key 2")) == 3
    assert "1 file removed" in str(run_filters(directory)[0])
    assert filter_files(directory) == []
    assert str(run_filters(directory)[0]) == "t-0: no key filters: keyfilter.enable = false"


def test_no_filter_is_written_where_a_broker_runs(directory: Path) -> None:
    the_file(directory).unlink()
    with open(directory / ".lock", "w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)  # as a broker does
        [outcome] = run_filters(directory)
    assert outcome.status.value == "failed"
    assert filter_files(directory) == []


def test_a_damaged_segment_gets_no_filter_and_is_reported(directory: Path) -> None:
    log = logs(directory)[2]
    flipped(log)
    rewritten(log)
    [outcome] = run_filters(directory)
    assert outcome.status.value == "damaged"
    assert str(log) in str(outcome)
    assert have_filters(directory) == [offset for offset in ALL if offset != int(log.stem)]


def test_what_a_crash_left_is_removed(directory: Path) -> None:
    """The new file was written but has no name, or the old one still has its own."""
    file = the_file(directory)
    file.with_suffix(".keyfilter.tmp").write_bytes(file.read_bytes()[:100])
    file.with_name(f"{ALL[1]:020}.keyfilter").write_bytes(encode(filters_in(file.read_bytes())[1:]))
    assert len(searched(directory, b"key 1")) == 3
    run_filters(directory)
    assert the_file(directory) == file
    assert have_filters(directory) == ALL
    assert list(directory.glob("t-0/*.tmp")) == []


def test_old_filters_can_be_dropped_at_once(directory: Path) -> None:
    files = context_files(directory)
    files.drop_old()
    assert have_filters(directory) == ALL
    rewritten(logs(directory)[3])
    changed(the_file(directory), lambda each: each._replace(segment=each.segment._replace(base_offset=10**6)), 11)
    files.drop_old()
    assert have_filters(directory) == [offset for offset in ALL[:11] if offset != ALL[3]]
    for path in logs(directory):
        rewritten(path)
    files.drop_old()
    assert filter_files(directory) == []


def context_files(directory: Path) -> FilterFiles:
    return FilterFiles(LogContext(str(directory / "t-0"), LogConfig(), SystemClock(), LocalFileSystem()))


@pytest.mark.only_all
def test_ten_thousand_damaged_filters_lose_no_record(directory: Path) -> None:
    chance, file = Random(1), the_file(directory)
    whole, expected = file.read_bytes(), searched(directory, b"key 1")
    for _ in range(10_000 // SEGMENTS + 1):
        file.write_bytes(spoiled(bytearray(whole), chance))
        assert searched(directory, b"key 1") == expected


def spoiled(data: bytearray, chance: Random) -> bytes:
    kind = chance.randrange(4)
    if kind == 0:
        return bytes(data[: chance.randrange(len(data))])
    if kind == 1:
        return bytes(chance.randbytes(len(data)))
    for _ in range(chance.randint(1, 40)):  # most of them behind the table, so that other filters are believed
        data[chance.randrange(chance.choice([0, 16 + 48 * SEGMENTS]), len(data))] = chance.randrange(256) * (kind == 2)
    return bytes(data)


def test_a_segment_with_more_bytes_at_once_than_a_table_can_have_gets_the_same_filter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_log(tmp_path) as log:
        for number in range(5):
            rows = records([bytes([number]) * 400_000], keys=[b"key %d" % number])
            log.append(v2.encode(rows, v2.BatchFields(codec=Codec.ZSTD)))
        log.roll()
    with open_reader(tmp_path) as reader:
        segment = next(iter(reader.segments))
        expected = make_filter(segment)
        monkeypatch.setattr(decompressed_parts, "INT32_MAX", 2**20)
        made = make_filter(segment)
    assert made is not None
    assert expected is not None
    assert (made.segment, made.next_offset) == (expected.segment, expected.next_offset)
    assert made.bits.tolist() == expected.bits.tolist()
