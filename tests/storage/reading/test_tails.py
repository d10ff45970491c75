"""Bytes behind the last batch of a segment that another one follows: damage, for whatever gets past them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyspark_commitlog import follow, read_table
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.clock import SystemClock
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.directory.admin import alter_configs
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import CorruptionError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.damaged import salvaged_records
from pyspark_commitlog.storage.reading.follower import LogFollower
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.segment.walk import LogContext
from pyspark_commitlog.storage.transfer.to_bucket import copy_to_bucket
from pyspark_commitlog.storage.verify.findings import Severity
from pyspark_commitlog.storage.verify.log import verify_log
from tests.support.gateway import WireClient, fetch_fields, serving
from tests.support.logs.building import NOW_MS, append, replicated
from tests.support.stores.memory_store import MemoryStore

TAILS = {
    "some bytes": b"garbage",
    "many bytes": bytes(range(1, 200)),
    "zeros": b"\0" * 100,
    "the start of a batch": bytes(replicated(b"x" * 100, base_offset=4))[:80],
    "an earlier batch again": bytes(replicated(b"x", base_offset=0)),
}
FIRST, NEXT, END = 0, 4, 8


@pytest.fixture(params=[{}, {"cleanup.policy": "compact,delete"}], ids=["kept", "compacted"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A directory with topic ``t``: two segments of 4 records, a second apart, the second one active."""
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("t", partitions=1, configs={"index.interval.bytes": "0"})
        opened = manager.open_log("t", 0)
        for number in range(END):
            if number == NEXT:
                opened.roll()
            append(opened, b"%d" % number, timestamps=NOW_MS + number * 1000)
        if request.param:
            alter_configs(manager, "t", request.param)
    return tmp_path / "log"


@pytest.fixture(params=TAILS.values(), ids=TAILS)
def damaged(log: Path, request: pytest.FixtureRequest) -> Path:
    damage(log, request.param)
    return log


def damage(log: Path, tail: bytes) -> None:
    with segment(log).open("ab") as file:
        file.write(tail)


def segment(log: Path, base: int = FIRST) -> Path:
    return log / "t-0" / f"{base:020}.log"


def reading(log: Path, look: Callable[[LogReader], object]) -> object:
    with LogManager.open(str(log)) as manager, manager.open_reader("t", 0) as reader:
        return look(reader)


def by_records(log: Path) -> object:
    return reading(log, lambda reader: list(reader.records(FIRST, END)))


def by_records_from_the_next_segment_on(log: Path) -> object:
    return reading(log, lambda reader: list(reader.records(NEXT, END)))


def by_fetch_at_the_next_segment(log: Path) -> object:
    return reading(log, lambda reader: reader.read(NEXT))


def by_slice_at_the_next_segment(log: Path) -> object:
    return reading(log, lambda reader: reader.slice(NEXT, 1 << 20))


def by_time(log: Path) -> object:
    return reading(log, lambda reader: reader.offset_for_timestamp(NOW_MS + NEXT * 1000))


def by_decided(log: Path) -> object:
    def look(reader: LogReader) -> object:
        with LogFollower(reader.context, reader.checkpoints) as follower:
            return list(follower.decided_from(FIRST))

    return reading(log, look)


def by_read_table(log: Path) -> object:
    return read_table(log, "t")


def by_follow(log: Path) -> object:
    return list(follow(log, "t", start="earliest", timeout=0))


def by_copy(log: Path) -> object:
    target = open_root("memory://bucket", create=True, store=MemoryStore(), check=lambda _: [])
    with LogManager.open(str(log)) as source:
        return list(copy_to_bucket(source, target))


READERS = [
    by_records,
    by_records_from_the_next_segment_on,
    by_fetch_at_the_next_segment,
    by_slice_at_the_next_segment,
    by_time,
    by_decided,
    by_read_table,
    by_follow,
    by_copy,
]


@pytest.mark.parametrize("read", READERS)
def test_bytes_behind_the_last_batch_are_damage_with_file_and_position(
    read: Callable[[Path], object], log: Path, damaged: Path
) -> None:
    sound = segment(log).stat().st_size
    with pytest.raises(CorruptionError) as error:
        read(damaged)
    assert error.value.path == str(segment(damaged))
    assert error.value.position is not None
    assert 0 < error.value.position < sound


@pytest.mark.parametrize("read", READERS)
def test_a_sound_log_is_read(read: Callable[[Path], object], log: Path) -> None:
    assert read(log)


def test_the_records_before_the_damage_are_read(log: Path) -> None:
    damage(log, b"garbage")
    found: list[int] = []
    with LogManager.open(str(log)) as manager:
        parts = manager.open_reader("t", 0).records(FIRST, END)
        found += next(parts).offsets.tolist()
        with pytest.raises(CorruptionError):
            next(parts)
    assert found == [0, 1, 2, 3]
    assert read_table(log, "t", end=NEXT).num_rows == NEXT
    assert read_table(log, "t", start=NEXT + 1).num_rows == END - NEXT - 1


def test_a_log_whose_last_segment_is_empty_does_not_end_before_the_damage_in_silence(damaged: Path) -> None:
    with segment(damaged, NEXT).open("r+b") as file:
        file.truncate(0)
    (damaged / "t-0" / f"{END:020}.snapshot").unlink()
    (damaged / "recovery-point-offset-checkpoint").unlink()
    with pytest.raises(CorruptionError, match=segment(damaged).name):
        read_table(damaged, "t")


def test_a_reader_that_passes_damage_reports_it_once_and_reads_all_else(damaged: Path) -> None:
    reported: list[CorruptionError] = []
    with LogManager.open(str(damaged)) as manager, manager.open_reader("t", 0) as reader:
        found = salvaged_records(reader, FIRST, END, reported.append, isolation=Isolation.READ_UNCOMMITTED)
        offsets = [offset for records in found for offset in records.offsets.tolist()]
    assert offsets == list(range(END))
    assert [each.path for each in reported] == [str(segment(damaged))]


def test_verify_finds_it(damaged: Path) -> None:
    context = LogContext(str(damaged / "t-0"), LogConfig(), SystemClock(), LocalFileSystem(), writable=False)
    found = verify_log(context).of(Severity.DAMAGE)
    assert [each.path for each in found] == [str(segment(damaged))]


@pytest.mark.parametrize("version", [1, 4, 11])
@pytest.mark.parametrize("tail", [TAILS["some bytes"], TAILS["zeros"]])
def test_a_gateway_serves_what_is_before_it_and_then_the_error(log: Path, tail: bytes, version: int) -> None:
    sound = segment(log).read_bytes()
    damage(log, tail)
    with serving(log) as gateway, WireClient(gateway) as client:

        def fetched(offset: int) -> tuple[int, bytes]:
            answer = client.ask(1, version, **fetch_fields("t", offset)).responses[0].partitions[0]
            return int(answer.error_code), answer.records or b""

        error, records = fetched(FIRST)
        assert error == 0
        assert records == sound or version < 4
        assert fetched(NEXT) == (2, b"")
        assert fetched(NEXT + 1)[0] == 0


def test_a_damaged_last_batch_is_no_such_damage_and_is_reported_where_it_is_read(log: Path) -> None:
    data = bytearray(segment(log).read_bytes())
    data[-1] ^= 1
    segment(log).write_bytes(data)
    assert read_table(log, "t", start=NEXT).num_rows == END - NEXT
    with pytest.raises(CorruptionError, match="checksum"):
        read_table(log, "t")
