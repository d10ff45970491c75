"""Erasing records by their keys from one log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.erasure.keys import AskedKeys, KeyFinder
from pyspark_commitlog.storage.erasure.one_log import LogErasure, erase, preview
from pyspark_commitlog.storage.erasure.search import ErasedKeys, search
from pyspark_commitlog.storage.errors import CorruptRecordError, LogDirLockedError, OutOfOrderSequenceError
from pyspark_commitlog.storage.format import by_magic, decompressed_parts, v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.tables import Records
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.recovery.producer_state import Origin
from pyspark_commitlog.storage.writing.log import Log
from tests.support.clock import ManualClock
from tests.support.kafka.shapes import Row, to_records
from tests.support.logs import raw_scan
from tests.support.logs.building import NOW_MS, config, end_transaction, open_reader, records

ANN, IDA, ROSE = b"ann@example.org", b"ida@example.org", b"rose@example.org"
Found = tuple[int, int, bytes | None, bytes | None]


@contextmanager
def a_log(directory: Path, **settings: object) -> Iterator[Log]:
    with Log.open(str(directory / "p-0"), config(**settings), clock=ManualClock(NOW_MS)) as log:
        yield log


def write(log: Log, *keys: bytes | None, fields: v2.BatchFields | None = None) -> None:
    """A batch with a record of each key, and the log's end in its value."""
    end = log.log_end_offset
    values = [b"value %d of its batch %d" % (n, end) for n in range(len(keys))]
    times = [NOW_MS + 10 * n for n in range(len(keys))]
    log.append(v2.encode(records(values, keys=keys, timestamps=times), fields or v2.BatchFields()))


def found(log: LogReader, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> list[Found]:
    """Offset, time, key and value of every record."""
    rows: list[Found] = []
    for part in log.records(log.log_start_offset, log.log_end_offset, isolation=isolation):
        assert part.keys is not None
        assert part.values is not None
        columns = (part.offsets.tolist(), part.timestamps.tolist(), part.keys.to_list(), part.values.to_list())
        rows += zip(*columns, strict=True)
    return rows


def without(rows: Sequence[Found], *keys: bytes) -> list[Found]:
    return [row for row in rows if row[2] not in keys]


def erased(log: Log, *keys: bytes) -> LogErasure:
    return erase(log, KeyFinder(AskedKeys(frozenset(keys))), "a test")


def transactional(producer_id: int, base_sequence: int = 0) -> v2.BatchFields:
    return v2.BatchFields(producer_id=producer_id, producer_epoch=0, base_sequence=base_sequence, transactional=True)


@pytest.mark.parametrize("codec", list(Codec))
def test_no_byte_of_the_asked_keys_stays_and_all_other_records_keep_offset_time_and_headers(
    codec: Codec, tmp_path: Path
) -> None:
    headers = (("trace", b"1"), ("größe", None))
    with a_log(tmp_path) as log:
        for n in range(6):
            rows = [Row(b"v%d" % n, key, NOW_MS + n, headers) for key in (ANN, IDA, None, ROSE, b"")]
            log.append_records(to_records(rows), v2.BatchFields(codec=codec))
            if n % 2:
                log.roll()
        before = [each for part in log.records(0, 30) for each in _all_columns(part)]
        assert raw_scan.has(tmp_path, ANN)
        done = erased(log, ANN, b"")
        after = [each for part in log.records(0, 30) for each in _all_columns(part)]
        assert after == [each for each in before if each[2] not in (ANN, b"")]
        assert sum(each.records for each in done.replaced) == 12
        assert log.log_end_offset == 30
    assert not raw_scan.has(tmp_path, ANN)
    assert raw_scan.has(tmp_path, IDA)


def _all_columns(part: Records) -> list[tuple[object, ...]]:
    assert part.keys is not None
    assert part.values is not None
    assert part.headers is not None
    names, values = part.headers.keys.to_list(), part.headers.values.to_list()
    bounds = part.headers.offsets.tolist()
    headers = [list(zip(names[a:b], values[a:b], strict=True)) for a, b in pairwise(bounds)]
    columns = (part.offsets.tolist(), part.timestamps.tolist(), part.keys.to_list(), part.values.to_list(), headers)
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize(
    ("magic", "codec"),
    [(0, Codec.NONE), (0, Codec.GZIP), (0, Codec.SNAPPY), (1, Codec.NONE), (1, Codec.GZIP), (1, Codec.LZ4)],
)
def test_messages_of_older_formats_are_erased_too(magic: int, codec: Codec, tmp_path: Path) -> None:
    with a_log(tmp_path) as log:
        for n in range(4):
            rows = records([b"v%d" % n] * 3, keys=[ANN, IDA, ANN] if n % 2 else [ANN, ANN, ANN])
            rows.offsets[:] += log.log_end_offset
            log.append(by_magic(magic).encode(rows, codec), origin=Origin.REPLICATION)
            if n % 2:
                log.roll()
        before = found(log)
        erased(log, ANN)
        assert found(log) == without(before, ANN)
        assert len(found(log)) == 2
        assert log.log_end_offset == 12
    assert not raw_scan.has(tmp_path, ANN)
    with open_reader(tmp_path / "p-0") as reader:
        assert reader.log_end_offset == 12


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_segment_of_old_messages_that_all_go_is_empty_and_the_log_goes_on_after_it(
    codec: Codec, tmp_path: Path
) -> None:
    with a_log(tmp_path) as log:
        log.append(by_magic(1).encode(records([b"v"] * 2, keys=[ANN, ANN]), codec), origin=Origin.REPLICATION)
        erased(log, ANN)
        assert (tmp_path / "p-0" / "00000000000000000000.log").stat().st_size == 0
        log.refresh()
        assert log.log_end_offset == 2
        write(log, IDA)
        assert [row[:3:2] for row in found(log)] == [(2, IDA)]


def test_an_idempotent_producer_goes_on_after_its_last_batch_lost_all_records(tmp_path: Path) -> None:
    def batch(sequence: int) -> v2.BatchFields:
        return v2.BatchFields(producer_id=7, producer_epoch=0, base_sequence=sequence)

    with a_log(tmp_path) as log:
        write(log, ANN, ANN, fields=batch(0))
        erased(log, ANN)
    (tmp_path / "p-0" / "00000000000000000002.snapshot").unlink()  # so that only batches show what it wrote
    with a_log(tmp_path) as log:
        with pytest.raises(OutOfOrderSequenceError):
            write(log, IDA, fields=batch(5))
        write(log, IDA, fields=batch(2))
        assert [row[:3:2] for row in found(log)] == [(2, IDA)]


def test_records_of_an_open_transaction_are_erased_and_the_rest_is_committed_later(tmp_path: Path) -> None:
    with a_log(tmp_path) as log:
        write(log, IDA)
        write(log, ANN, ROSE, fields=transactional(1))
        done = erased(log, ANN)
        assert done.open_from == 1
        assert found(log, Isolation.READ_COMMITTED) == found(log)[:1]
        write(log, ANN, IDA, fields=transactional(1, 2))
        end_transaction(log, 1, commit=True)
        assert [row[2] for row in found(log, Isolation.READ_COMMITTED)] == [IDA, ROSE, ANN, IDA]


def test_aborted_records_are_erased_and_the_others_of_their_transaction_stay_hidden(tmp_path: Path) -> None:
    with a_log(tmp_path) as log:
        write(log, ANN, fields=transactional(1))
        write(log, ROSE, fields=transactional(1, 1))
        end_transaction(log, 1, commit=False)
        write(log, ANN, IDA)
        erased(log, ANN)
    assert not raw_scan.has(tmp_path, ANN)
    with open_reader(tmp_path / "p-0") as reader:
        assert [row[2] for row in found(reader, Isolation.READ_COMMITTED)] == [IDA]
        assert [row[2] for row in found(reader)] == [ROSE, IDA]


def test_a_compacted_log_keeps_its_tombstones_with_their_delete_horizons(tmp_path: Path) -> None:
    def rows(*pairs: tuple[bytes, bytes | None]) -> v2.EncodedBatches | np.ndarray:
        return v2.encode(records([value for _, value in pairs], keys=[key for key, _ in pairs]), v2.BatchFields())

    settings = {"cleanup_policy": "compact", "delete_retention_ms": 1000, "file_delete_delay_ms": 60_000}
    with a_log(tmp_path, **settings) as log:
        for pairs in ([(ANN, b"1"), (IDA, None)], [(ROSE, b"1"), (ANN, b"2")], [(ROSE, b"2")]):
            log.append(rows(*pairs))
            log.roll()
        clean_end = Cleaner().clean(log, None, NOW_MS).next_first_dirty_offset
        done = erased(log, ANN)
        assert [name for name in done.removed if ".log.deleted" in name]
        assert not raw_scan.has(tmp_path, ANN)
        assert [row[2:] for row in found(log)] == [(IDA, None), (ROSE, b"2")]
        log.append(rows((ROSE, b"3")))
        log.roll()
        Cleaner().clean(log, clean_end, NOW_MS + 1001)
        assert [row[2:] for row in found(log)] == [(ROSE, b"3")]


def test_segments_without_the_keys_stay_the_files_they_were(tmp_path: Path) -> None:
    with a_log(tmp_path) as log:
        write(log, IDA)
        log.roll()
        write(log, ANN)
        log.roll()
        before = (tmp_path / "p-0" / "00000000000000000000.log").stat()
        done = erased(log, ANN)
        assert [each.base_offset for each in done.replaced] == [1]
        assert (tmp_path / "p-0" / "00000000000000000000.log").stat().st_ino == before.st_ino


def test_keys_are_erased_from_the_first_window_that_has_one_and_what_precedes_it_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_commitlog.storage.erasure.one_log.WINDOW_BYTES", 200)
    with a_log(tmp_path) as log:
        for n in range(20):
            write(log, IDA, ANN if n > 12 else ROSE)
        before = found(log)
        done = erased(log, ANN)
        assert found(log) == without(before, ANN)
        assert done.replaced[0].records == 7


def test_sizes_and_hashes_are_those_of_the_files_also_where_windows_end_within_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("one_log", "search"):
        monkeypatch.setattr(f"pyspark_commitlog.storage.erasure.{module}.WINDOW_BYTES", 200)
    keys, path = AskedKeys(frozenset([ANN])), tmp_path / "p-0" / "00000000000000000000.log"
    with a_log(tmp_path) as log:
        for n in range(20):
            write(log, IDA, ANN if n > 12 else ROSE)
        log.roll()
        old = path.read_bytes()
        with open_reader(path.parent) as reader:
            (planned,) = preview(reader, KeyFinder(keys)).replaced
        (replaced,) = erased(log, ANN).replaced
        there = search(log, ErasedKeys(keys)).segments[0]
    new = path.read_bytes()
    assert planned[:5] == replaced[:5]
    assert replaced[1:3] == (len(old), sha256(old).hexdigest())
    assert replaced.bytes_after == len(new)
    assert (there.bytes, there.sha256) == (len(new), sha256(new).hexdigest())


def test_a_preview_counts_the_same_and_changes_nothing(tmp_path: Path) -> None:
    with a_log(tmp_path) as log:
        write(log, ANN, IDA)
        log.roll()
        write(log, ANN)
        before = {path: path.read_bytes() for path in (tmp_path / "p-0").iterdir()}
        finder = KeyFinder(AskedKeys(frozenset([ANN])))
        with open_reader(tmp_path / "p-0") as reader:
            would = preview(reader, finder)
        assert {path: path.read_bytes() for path in (tmp_path / "p-0").iterdir()} == before
        done = erased(log, ANN)
        assert [each[:4] for each in would.replaced] == [each[:4] for each in done.replaced]


def test_damage_is_reported_and_its_segment_is_not_replaced(tmp_path: Path) -> None:
    with a_log(tmp_path) as log:
        write(log, ANN, IDA)
        write(log, ROSE)
        log.roll()
    path = tmp_path / "p-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    synced = KeptInMemory(3)
    opened = Log.open(str(path.parent), config(), clock=ManualClock(NOW_MS), checkpoints=synced)
    with opened as log, pytest.raises(CorruptRecordError, match=path.name):
        erased(log, ANN)
    assert path.read_bytes() == data
    assert not [*(tmp_path / "p-0").glob("*.cleaned")]


def test_a_log_that_another_process_maintains_is_not_touched(tmp_path: Path) -> None:
    with a_log(tmp_path) as log, a_log(tmp_path) as other:
        write(log, ANN)
        with other.maintaining("compaction"), pytest.raises(LogDirLockedError):
            erased(log, ANN)
        assert found(log)[0][2] == ANN


def test_a_search_finds_records_below_the_log_start_and_in_the_active_segment(tmp_path: Path) -> None:
    keys = AskedKeys(frozenset([ANN]))
    with a_log(tmp_path) as log:
        write(log, ANN)
        write(log, IDA)
        log.delete_records(1)
        assert search(log, ErasedKeys(keys)).found == search(log, ErasedKeys(keys.salted())).found == 1
        erased(log, ANN)
        assert search(log, ErasedKeys(keys)).found == 0
        write(log, ANN)
        assert search(log, ErasedKeys(keys.salted())).found == 1


def test_batches_with_more_bytes_than_a_table_can_have_are_erased_from_and_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_log(tmp_path) as log:
        for number in range(12):
            rows = records([bytes([number]) * 400_000] * 2, keys=[ANN, IDA])
            log.append(v2.encode(rows, v2.BatchFields(codec=Codec.ZSTD)))
        before = found(log)
        monkeypatch.setattr(decompressed_parts, "INT32_MAX", 2**20)
        assert [each.records for each in erased(log, ANN).replaced] == [12]
        assert found(log) == without(before, ANN)
        content = search(log, ErasedKeys(AskedKeys(frozenset([ANN, IDA]))))
        assert [(each.records, each.found) for each in content.segments] == [(12, 12), (0, 0)]


def test_a_log_with_a_limit_of_index_entries_is_divided_where_it_does_not_fit(tmp_path: Path) -> None:
    settings = LogConfig.from_mapping({"segment.index.bytes": "24", "index.interval.bytes": "0"})
    with Log.open(str(tmp_path / "p-0"), settings, clock=ManualClock(NOW_MS)) as log:
        for _ in range(8):
            write(log, ANN, IDA)
        before = found(log)
        erased(log, ANN)
        assert found(log) == without(before, ANN)
