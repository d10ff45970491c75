"""Readers of an object store whose answers are damaged, and whose log moves on: Spark's batches, tables, ``cat``."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from pyspark_commitlog.arrow.table import read_table
from pyspark_commitlog.cli import app
from pyspark_commitlog.pipeline.read.batch import BatchReader
from pyspark_commitlog.pipeline.read.options import ReadOptions
from pyspark_commitlog.storage import EXIT_DAMAGED
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.files.filesystem import open_files
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.errors import CorruptionError
from pyspark_commitlog.storage.maintenance.bucket.consolidate import consolidate
from pyspark_commitlog.storage.reading.reader import LogReader
from tests.support.clock import ManualClock
from tests.support.logs.building import records
from tests.support.stores.damaging import Damage, DamagingStore, flipped, misled, zeroed
from tests.support.stores.filled import place_of
from tests.support.stores.filling import make_topic, write
from tests.support.stores.served import ServedStores

URL = "s3://memory/logs"
WANTED = [b"%d" % number for number in range(40)]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> DamagingStore:
    stores, store = ServedStores(monkeypatch), DamagingStore()
    store.url = URL
    stores.stores[URL] = store
    return store


@pytest.fixture
def log(store: DamagingStore) -> CommitLog:
    log = ServedStores.create(ServedStores.__new__(ServedStores), URL)
    make_topic(log, "t")
    for first in range(0, 40, 10):
        write(log, "t", {0: [records(WANTED[first : first + 10])]}, batch_bytes_max=120)
    return log


def by_spark(_: pytest.CaptureFixture[str]) -> list[bytes]:
    options = ReadOptions.parse({"path": URL, "subscribe": "t"})
    reader = BatchReader(options, options.columns.arrow_schema(options.columns.schema()))
    found = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [value for batch in found for value in batch.column("value").to_pylist()]


def by_table(_: pytest.CaptureFixture[str]) -> list[bytes]:
    table: pa.Table = read_table(URL, "t")
    found: list[bytes] = table.column("value").to_pylist()
    return found


def by_cat(capsys: pytest.CaptureFixture[str]) -> list[bytes]:
    code = app(["cat", "--log-dir", URL, "--topic", "t", "-e"], standalone_mode=False)
    printed = capsys.readouterr()
    if code == EXIT_DAMAGED:
        raise CorruptionError(printed.err)
    return printed.out.encode().split()


READERS = [by_spark, by_table, by_cat]
Reader = Callable[[pytest.CaptureFixture[str]], list[bytes]]


@pytest.mark.parametrize("damage", [flipped, misled, zeroed])
@pytest.mark.parametrize("read", READERS)
def test_an_answer_that_is_damaged_on_its_way_is_read_again(
    store: DamagingStore, log: CommitLog, read: Reader, damage: Damage, capsys: pytest.CaptureFixture[str]
) -> None:
    store.damage, store.times = damage, 1
    assert read(capsys) == WANTED
    assert store.times == 0


@pytest.mark.parametrize("read", READERS)
def test_what_stays_damaged_is_an_error(
    store: DamagingStore, log: CommitLog, read: Reader, capsys: pytest.CaptureFixture[str]
) -> None:
    store.damage, store.times = flipped, 1000
    with pytest.raises(CorruptionError):
        read(capsys)


@pytest.mark.parametrize("read", READERS)
def test_all_records_are_read_though_another_task_of_the_process_sees_new_commits(
    log: CommitLog, read: Reader, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Consolidation has given the name of the first file to a segment with fewer offsets."""
    taken, moves = LogReader._take, [consolidate]

    def taking(self: LogReader, *loaded: object) -> None:
        taken(self, *loaded)  # type: ignore[arg-type]
        if moves:
            size = place_of(log).parts[0].size
            moves.pop()(place_of(log), LogConfig(segment_bytes=size), ManualClock(), 0)
            open_files(URL)

    monkeypatch.setattr(LogReader, "_take", taking)
    assert read(capsys) == WANTED
    assert not moves
