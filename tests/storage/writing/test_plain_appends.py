"""Batches that are written together: the same files, producers and offsets as by appends of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from pyspark_commitlog.storage.errors import StorageError
from pyspark_commitlog.storage.kernels.produce.tables import Found, ProduceTables
from pyspark_commitlog.storage.recovery.producer_state import Producer
from pyspark_commitlog.storage.writing.append_info import AppendInfo
from pyspark_commitlog.storage.writing.checks.checked_batch import check_batch
from pyspark_commitlog.storage.writing.log import Log
from pyspark_commitlog.storage.writing.plain_appends import begin_plain
from tests.storage.writing.test_log_checked_appends import DIRECTORY, Pair
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs import building
from tests.support.logs.building import NOW_MS, open_log, plain, rows
from tests.support.produce_pairs import produce_frame

LAZY = {"flush_messages": 2**62}


def append_some(log: Log, batches: list[bytes], *, sync: bool) -> list[int]:
    """Appends the first ones together, as far as that goes; returns their offsets."""
    appends, offsets = begin_plain(log, sync=sync), list[int]()
    if appends is None:
        return []
    for each in map(plain, batches):
        if not appends.may_take(each):
            break
        offsets.append(appends.take(each))
    if appends.count:
        appends.write()
    appends.end()
    return offsets


def append_runs(log: Log, batches: list[bytes], *, sync: bool) -> list[int]:
    """Appends the first ones of requests with a batch each, in runs, as far as that goes; returns their offsets."""
    appends, offsets = begin_plain(log, sync=sync), list[int]()
    if appends is None:
        return []
    tables, found = found_requests(batches)
    while len(offsets) < len(found.frames):
        first = found.batches[len(offsets)]
        taken = appends.take_run(tables, len(offsets), len(found.frames), first, 0)
        if not taken:
            break
        offsets += taken
    if appends.count:
        appends.write()
    appends.end()
    return offsets


def found_requests(batches: list[bytes]) -> tuple[ProduceTables, Found]:
    """Requests as a kernel finds them, up to the first that is not plain; no checksum is damaged."""
    tables = ProduceTables()
    tables.add_partition(b"t", 0)
    tables.set_limits(0, batch_bytes_max=10**6, needs_keys=False, before_ms=10**6, after_ms=10**6, codecs=[0])
    data = b"".join(produce_frame(Random(0), 0, [("t", [(0, each)])]) for each in batches)
    tables.begin(1)
    tables.room[: len(data)] = data
    tables.add_connection(len(data), len(batches))
    found = tables.find(NOW_MS)
    tables.set_whole([True] * len(found.batches))
    return tables, found


IN_TRANSACTIONS = (3, 4)  # producers


def drawn(chance: Random, sequences: dict[int, int], transactional: float) -> bytes:
    """A batch; ``transactional``: how likely it is of a transaction."""
    count = chance.choice([1, 1, 3, 20])
    values = [bytes(chance.choice([0, 10, 90])) for _ in range(count)]
    times = [NOW_MS + chance.randrange(-5, 2000) for _ in range(count)]
    is_transactional = chance.random() < transactional
    producer = chance.choice(IN_TRANSACTIONS if is_transactional else [-1, 1, 2])
    if producer < 0:
        return building.batch(*values, timestamps=times).tobytes()
    at = sequences.get(producer, 0)
    is_gap = chance.random() < 0.05
    sequences[producer] = at + (0 if is_gap else count)
    return building.batch(
        *values,
        timestamps=times,
        producer_id=producer,
        base_sequence=at + is_gap,
        transactional=is_transactional or (producer == 2 and chance.random() < 0.02),
    ).tobytes()


def end_some(chance: Random, pair: Pair) -> None:
    """Ends a transaction in both logs, now and then."""
    if chance.random() < 0.3:
        producer, is_commit = Producer(chance.choice(IN_TRANSACTIONS), 0), chance.random() < 0.5
        for log in (pair.full, pair.few):
            log.end_transaction(producer, commit=is_commit, now_ms=NOW_MS)
            log.sync()


SETTINGS: list[dict[str, object]] = [
    {},
    LAZY,
    {"flush_messages": 30},
    {**LAZY, "segment_bytes": 3000, "index_interval_bytes": 100},
    {**LAZY, "segment_index_bytes": 60, "index_interval_bytes": 0},
    {**LAZY, "segment_ms": 1500},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("append", [append_some, append_runs])
def test_files_and_offsets_are_the_same_as_of_one_by_one(
    append: Callable[..., list[int]], seed: int, settings: dict[str, object]
) -> None:
    chance, sequences, together = Random(seed), dict[int, int](), 0
    pair = Pair(segment_jitter_ms=0, **settings)
    is_lazy = "flush_messages" in settings
    for _ in range(40):
        end_some(chance, pair)
        batches = [drawn(chance, sequences, 0.02 if is_lazy else 0.4) for _ in range(chance.choice([1, 2, 10]))]
        one_by_one = [pair.full.append_checked([check_batch(each, pair.full.context.config)])[0] for each in batches]
        offsets = append(pair.few, batches, sync=is_lazy)
        together += len(offsets)
        rest = [check_batch(each, pair.few.context.config) for each in batches[len(offsets) :]]
        found = [pair.few.append_checked([each])[0] for each in rest]
        assert offsets == [each.first_offset for each in one_by_one[: len(offsets)] if isinstance(each, AppendInfo)]
        assert list(map(repr, found)) == list(map(repr, one_by_one[len(offsets) :]))
        assert pair.few.producers.entries() == pair.full.producers.entries()
        assert pair.contents(0) == pair.contents(1)
    assert together > 10
    pair.close()


def test_a_failed_write_stops_the_log() -> None:
    disk = FaultyFileSystem(MemoryFileSystem())
    log = open_log(DIRECTORY, filesystem=disk, **LAZY)
    log.append_checked([check_batch(building.batch(b"first").tobytes(), log.context.config)])
    appends = begin_plain(log, sync=True)
    assert appends is not None
    appends.take(plain(building.batch(b"second").tobytes()))
    disk.rules.append(fail("write", "*.log"))
    with pytest.raises(StorageError):
        appends.write()
    appends.end()
    assert begin_plain(log, sync=True) is None
    assert log.log_end_offset == 1


def test_who_appended_in_between_is_read_first(tmp_path: Path) -> None:
    one, other = open_log(tmp_path / "t-0", **LAZY), open_log(tmp_path / "t-0", **LAZY)
    for number, log in enumerate((one, other, one)):
        assert begin_plain(log, sync=True) is None
        log.append_checked([check_batch(building.batch(b"%d" % number).tobytes(), log.context.config)])
    assert append_some(one, [building.batch(b"3").tobytes()], sync=True) == [3]
    other.refresh()
    assert [value for _, value in rows(other)] == [b"0", b"1", b"2", b"3"]
    one.close()
    other.close()


def test_nothing_is_begun_while_another_holds_the_lock(tmp_path: Path) -> None:
    one, other = open_log(tmp_path / "t-0", **LAZY), open_log(tmp_path / "t-0", **LAZY)
    one.append_checked([check_batch(building.batch(b"v").tobytes(), one.context.config)])
    with other.exclusively():
        assert begin_plain(one, sync=True) is None
    one.close()
    other.close()
