"""A crash at any step of a swap of segments: opening the log finds the old segments or the new ones."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.segment.swap import SwapPlan, carry_out, plan_swaps
from pyspark_commitlog.storage.segment.walk import LogContext
from pyspark_commitlog.storage.segment.writer import LogSegment
from pyspark_commitlog.storage.writing.locks import MAINTENANCE_LOCK_FILE
from pyspark_commitlog.storage.writing.log import Log
from tests.support.clock import ManualClock
from tests.support.disk.disks import get, put
from tests.support.disk.memory_filesystem import MemoryFileSystem, crash_points
from tests.support.logs.building import NOW_MS, config, records, rows

Rows = list[tuple[int, bytes | None]]

KINDS = (file_names.LOG, file_names.INDEX, file_names.TIME_INDEX)
SETTINGS = {"segment_bytes": 400, "index_interval_bytes": 0, "cleanup_policy": "compact"}
OLD: Rows = [(n, b"%d" % n) for n in range(20)]


def log_config() -> LogConfig:
    return config(**SETTINGS)


def segment(directory: Path, base_offset: int, suffix: str = "") -> LogSegment:
    context = LogContext(str(directory), log_config(), ManualClock(NOW_MS), LocalFileSystem())
    return LogSegment(context, base_offset, suffix)


def open_log(directory: Path, recovery_point: int = 20) -> Log:
    return Log.open(str(directory), log_config(), clock=ManualClock(NOW_MS), checkpoints=KeptInMemory(recovery_point))


def unfinished(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir() if path.name.endswith((".cleaned", ".swap", ".deleted"))}


def bases(directory: Path) -> list[int]:
    return sorted(int(path.name[:20]) for path in directory.glob("*.log"))


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_before(tmp_path_factory.mktemp("before"))


def made_before(directory: Path) -> Path:
    """A log of several segments; a ``.cleaned`` one merges the first two and keeps every third record."""
    with open_log(directory, recovery_point=0) as log:
        for _, value in OLD:
            log.append_records(records([value], keys=[value]))
    first, second = bases(directory)[:2]
    new = LogSegment.create(segment(directory, first).context, first, file_names.CLEANED)
    for base in (first, second):
        for window in segment(directory, base).batches():
            for row in np.flatnonzero(window.headers.table["base_offset"] % 3 == 0).tolist():
                batch = window.headers[row : row + 1]
                position, size = (int(batch.table[field][0]) for field in ("position", "size"))
                new.append(window.buffer[position : position + size], batch)
    new.become_inactive()
    new.close()
    for path in directory.glob(".*.lock"):
        path.unlink()
    return directory


def new_rows(directory: Path) -> Rows:
    end = bases(directory)[2]
    return [(offset, value) for offset, value in OLD if offset >= end or offset % 3 == 0]


def renames(directory: Path) -> Iterator[tuple[str, str]]:
    """The renames of a swap, in their order (segment.swap.swap_in)."""
    first, second = bases(directory)[:2]
    for kind in KINDS:
        yield (
            file_names.segment_file(first, kind + file_names.CLEANED),
            file_names.segment_file(first, kind + file_names.SWAP),
        )
    for base, kind in product((first, second), KINDS):
        yield file_names.segment_file(base, kind), file_names.segment_file(base, kind + file_names.DELETED)
    for kind in KINDS:
        yield file_names.segment_file(first, kind + file_names.SWAP), file_names.segment_file(first, kind)


STEPS = range(13)
SWAPPED_AT = 3  # renames after which no .cleaned is left


@pytest.fixture
def after_step(before: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    directory = shutil.copytree(before, tmp_path / "log")
    for source, target in list(renames(before))[: request.param]:
        (directory / source).rename(directory / target)
    return directory


def expected(before: Path, step: int) -> Rows:
    return OLD if step < SWAPPED_AT else new_rows(before)


@pytest.mark.parametrize(("after_step", "step"), list(zip(STEPS, STEPS, strict=True)), indirect=["after_step"])
def test_a_writer_finishes_or_undoes_a_swap_that_a_crash_stopped(before: Path, after_step: Path, step: int) -> None:
    for _ in range(2):
        with open_log(after_step) as log:
            assert rows(log) == expected(before, step)
            assert unfinished(after_step) == set()
    assert rows(LogReader.open(str(after_step), log_config(), clock=ManualClock(NOW_MS))) == expected(before, step)


@pytest.mark.parametrize(("after_step", "step"), list(zip(STEPS, STEPS, strict=True)), indirect=["after_step"])
def test_a_writer_beside_a_compaction_sees_what_finishing_it_would_leave(
    before: Path, after_step: Path, step: int
) -> None:
    found = unfinished(after_step)
    with LocalFileSystem().lock(str(after_step / MAINTENANCE_LOCK_FILE)) or pytest.fail("it waits"):
        with open_log(after_step) as log:
            assert rows(log) == expected(before, step)
            log.append_records(records([b"new"], keys=[b"new"]))
        assert found <= {path.name for path in after_step.iterdir()}
    with open_log(after_step) as log:
        assert rows(log) == [*expected(before, step), (20, b"new")]


@pytest.mark.parametrize(("after_step", "step"), list(zip(STEPS, STEPS, strict=True)), indirect=["after_step"])
def test_a_reader_sees_what_finishing_a_swap_would_leave_and_changes_nothing(
    before: Path, after_step: Path, step: int
) -> None:
    listing = {path.name: path.read_bytes() for path in after_step.iterdir()}
    assert rows(LogReader.open(str(after_step), log_config(), clock=ManualClock(NOW_MS))) == expected(before, step)
    assert {path.name: path.read_bytes() for path in after_step.iterdir()} == listing


@pytest.mark.parametrize("states", list(product(("", file_names.CLEANED, file_names.SWAP), repeat=3)), ids="-".join)
def test_whichever_new_files_exist_the_log_is_the_old_or_the_new_one(
    before: Path, tmp_path: Path, states: tuple[str, ...]
) -> None:
    """As if a power cut had lost names that were not synced: each new file is missing, ``.cleaned`` or ``.swap``."""
    directory = shutil.copytree(before, tmp_path / "log")
    first = bases(before)[0]
    for kind, suffix in zip(KINDS, states, strict=True):
        path = directory / file_names.segment_file(first, kind + file_names.CLEANED)
        if suffix:
            path.rename(directory / file_names.segment_file(first, kind + suffix))
        else:
            path.unlink()
    is_new = states[0] == file_names.SWAP and file_names.CLEANED not in states
    outcome = new_rows(before) if is_new else OLD
    assert rows(LogReader.open(str(directory), log_config(), clock=ManualClock(NOW_MS))) == outcome
    for _ in range(2):
        with open_log(directory) as log:
            assert rows(log) == outcome
            for offset, value in outcome:
                assert rows_from(log, offset)[0] == (offset, value)


def rows_from(log: Log, offset: int) -> Rows:
    part = next(log.records(offset, offset + 1))
    assert part.values is not None
    return list(zip(part.offsets.tolist(), part.values.to_list(), strict=True))


def test_a_swap_that_holds_nothing_stands_for_the_segment_of_its_name() -> None:
    listing = [file_names.segment_file(5, kind) for kind in (*KINDS, file_names.LOG + file_names.SWAP)]
    plan = plan_swaps(listing, lambda base: base)
    assert plan.deleted == listing[:3]
    assert plan.segment_suffixes() == {5: file_names.SWAP}


def test_a_swap_below_the_log_start_is_finished_like_any_other(before: Path, tmp_path: Path) -> None:
    directory = shutil.copytree(before, tmp_path / "log")
    for source, target in list(renames(before))[:SWAPPED_AT]:
        (directory / source).rename(directory / target)
    start = bases(before)[2]
    with Log.open(str(directory), log_config(), clock=ManualClock(NOW_MS), checkpoints=KeptInMemory(20, start)) as log:
        assert rows(log) == [row for row in OLD if row[0] >= start]


DIRECTORY = "/log"
POWER_CUTS = range(60)


def a_disk(*files: str) -> MemoryFileSystem:
    disk = MemoryFileSystem()
    disk.make_directory(DIRECTORY)
    for name in files:
        put(disk, file_names.join(DIRECTORY, name), name.encode(), sync=True)
    disk.sync_directory("/")
    disk.sync_directory(DIRECTORY)
    return disk


def plan_of(disk: MemoryFileSystem) -> SwapPlan:
    return plan_swaps(disk.list(DIRECTORY), lambda base: base + 100)


def logs_after_power_cuts(start: MemoryFileSystem) -> set[tuple[str, ...]]:
    """The original names of the files that remain, after opening the log was stopped by a power cut at any change."""
    found: set[tuple[str, ...]] = set()
    for _, disk in crash_points(lambda disk: carry_out(plan_of(disk), disk, DIRECTORY), start):
        for seed in POWER_CUTS:
            left = disk.crash(seed)
            carry_out(plan_of(left), left, DIRECTORY)
            found.add(
                tuple((get(left, file_names.join(DIRECTORY, name)) or b"").decode() for name in left.list(DIRECTORY))
            )
    return found


def test_no_power_cut_while_a_swap_is_finished_brings_an_original_back() -> None:
    """The merged segment 0 replaces 0 and 50."""
    new, merged = (
        file_names.segment_file(0, file_names.LOG + file_names.SWAP),
        file_names.segment_file(50, file_names.LOG),
    )
    disk = a_disk(file_names.segment_file(0, file_names.LOG), merged, new)
    assert logs_after_power_cuts(disk) == {(new,)}


def test_no_power_cut_while_a_swap_is_undone_makes_it_look_finished() -> None:
    """Without the ``.cleaned`` files, which are removed last, part of the new segments would replace all of them."""
    files = tuple(file_names.segment_file(base, file_names.LOG) for base in (0, 50, 100))
    unfinished = (
        file_names.segment_file(0, file_names.LOG + file_names.CLEANED),
        file_names.segment_file(100, file_names.LOG + file_names.SWAP),
    )
    assert logs_after_power_cuts(a_disk(*files, *unfinished)) == {files}
