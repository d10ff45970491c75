"""``max.decompressed.bytes``: decoding refuses a batch that holds more, and states where and what to set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyspark_commitlog.storage.clock import SystemClock
from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.config import DECOMPRESSED_BYTES_MAX, LogConfig
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import (
    InvalidConfigError,
    InvalidRecordError,
    RecordTooLargeError,
    TableSizeError,
)
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format import decompressed_parts, scan, v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.format.internal import control_records
from pyspark_commitlog.storage.format.legacy import v1
from pyspark_commitlog.storage.format.tables import Bytes
from pyspark_commitlog.storage.reading.damaged import salvaged_records
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.recovery.producer_state import Origin
from pyspark_commitlog.storage.segment.walk import LogContext
from pyspark_commitlog.storage.verify.findings import Kind
from pyspark_commitlog.storage.verify.segment import SegmentToVerify, verify_segment
from tests.support.logs.building import NOW_MS, config, open_log, open_reader, records, rows

LIMIT = 2**21
TOLD = f"stream holds more than the {LIMIT} bytes allowed: raise max.decompressed.bytes"
CODECS = [codec for codec in Codec if codec is not Codec.NONE]


def encoded(value: bytes, codec: Codec) -> Bytes:
    return v2.encode(records([value], keys=[b"key"]), v2.BatchFields(codec=codec))


@pytest.fixture(params=CODECS, ids=lambda codec: codec.name.lower())
def bomb_at(request: pytest.FixtureRequest, tmp_path: Path) -> int:
    """The position of a batch that holds more than ``LIMIT``, after one that holds little, in a log with this codec."""
    with open_log(tmp_path, cleanup_policy="compact") as log:
        log.append(encoded(b"small", request.param))
        position = log.segments.active.size
        log.append(encoded(bytes(LIMIT), request.param))
        log.roll()
    return position


def message(path: Path, position: int) -> str:
    return f"{path / file_names.segment_file(0, file_names.LOG)}.*position {position}.*{TOLD}"


def test_reading_stops_before_it(tmp_path: Path, bomb_at: int) -> None:
    with pytest.raises(InvalidRecordError, match=message(tmp_path, bomb_at)):
        rows(open_reader(tmp_path, max_decompressed_bytes=LIMIT))
    assert rows(open_reader(tmp_path)) == [(0, b"small"), (1, bytes(LIMIT))]


def test_salvage_passes_over_it(tmp_path: Path, bomb_at: int) -> None:
    told: list[Exception] = []
    reader = open_reader(tmp_path, KeptInMemory(recovery_point=2), max_decompressed_bytes=LIMIT)
    found = [offset for part in salvaged_records(reader, 0, 2, told.append) for offset in part.offsets.tolist()]
    assert found == [0]
    (error,) = told
    assert TOLD in str(error)
    assert f"position {bomb_at}" in str(error)


@pytest.fixture
def of_several_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The values of a log whose batches are read at once, but have more bytes than one table can have."""
    monkeypatch.setattr(decompressed_parts, "INT32_MAX", 2**20)
    values = [bytes([number]) * 400_000 for number in range(5)]
    with open_log(tmp_path) as log:
        for value in values:
            log.append(encoded(value, Codec.ZSTD))
    return values


def test_batches_with_more_bytes_than_a_table_can_have_are_read_in_several(
    tmp_path: Path, of_several_tables: list[bytes]
) -> None:
    assert rows(open_reader(tmp_path)) == [*enumerate(of_several_tables)]
    reported: list[Exception] = []
    salvaged = salvaged_records(open_reader(tmp_path), 1, 5, reported.append)
    assert [offset for part in salvaged for offset in part.offsets.tolist()] == [1, 2, 3, 4]
    assert not reported


def test_one_batch_with_more_bytes_than_a_table_can_have_is_an_error(
    tmp_path: Path, of_several_tables: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decompressed_parts, "INT32_MAX", len(of_several_tables[0]) - 1)
    with pytest.raises(TableSizeError, match=r"position 0: .*decode fewer batches"):
        rows(open_reader(tmp_path))


def test_compaction_leaves_the_log_alone(tmp_path: Path, bomb_at: int) -> None:
    before = (tmp_path / file_names.segment_file(0, file_names.LOG)).read_bytes()
    with (
        open_log(tmp_path, cleanup_policy="compact", max_decompressed_bytes=LIMIT) as log,
        pytest.raises(InvalidRecordError, match=message(tmp_path, bomb_at)),
    ):
        Cleaner().clean(log, None, NOW_MS)
    assert (tmp_path / file_names.segment_file(0, file_names.LOG)).read_bytes() == before


def test_verification_reports_it(tmp_path: Path, bomb_at: int) -> None:
    context = LogContext(
        str(tmp_path), config(max_decompressed_bytes=LIMIT), SystemClock(), LocalFileSystem(), writable=False
    )
    segment = SegmentToVerify(0, following=2, is_compacted=True)
    (finding,) = verify_segment(context, segment).findings
    assert (finding.kind, finding.position) == (Kind.BAD_RECORDS, bomb_at)
    assert TOLD in str(finding)


@pytest.mark.parametrize("codec", CODECS)
def test_a_client_may_not_append_it(tmp_path: Path, codec: Codec) -> None:
    sent = encoded(bytes(LIMIT), codec)
    with open_log(tmp_path, max_decompressed_bytes=LIMIT) as log:
        with pytest.raises(InvalidRecordError, match=TOLD):
            log.append(sent)
        assert log.log_end_offset == 0
    with open_log(tmp_path) as log:
        assert log.append(sent).last_offset == 0


def test_messages_of_old_formats_are_bounded_too(tmp_path: Path) -> None:
    wrapper = v1.encode(records([bytes(LIMIT)], keys=[b"key"]), Codec.GZIP)
    with open_log(tmp_path, max_decompressed_bytes=LIMIT) as log:
        with pytest.raises(InvalidRecordError, match=TOLD):
            log.append(wrapper)
        log.append(wrapper, origin=Origin.REPLICATION)  # as a broker has it
        with pytest.raises(InvalidRecordError, match=message(tmp_path, 0)):
            rows(log)


@pytest.mark.parametrize("codec", CODECS)
def test_no_record_is_written_that_could_not_be_read_again(tmp_path: Path, codec: Codec) -> None:
    fields = v2.BatchFields(codec=codec)
    with open_log(tmp_path, max_decompressed_bytes=LIMIT) as log:
        with pytest.raises(RecordTooLargeError, match=f"record 1 .* max.decompressed.bytes lets readers take {LIMIT}"):
            log.append_records(records([b"", bytes(LIMIT)]), fields)
        largest = bytes(LIMIT - v2.RECORD_OVERHEAD_MAX)
        log.append_records(records([largest, b"more"]), fields)
        assert rows(log) == [(0, largest), (1, b"more")]


def test_a_control_batch_has_a_limit_of_its_own() -> None:
    padded = records([bytes(6) + bytes(control_records.CONTROL_BYTES_MAX)], keys=[bytes(4)])
    fields = v2.BatchFields(codec=Codec.ZSTD, producer_id=1, producer_epoch=0, transactional=True, control=True)
    batch = v2.encode(padded, fields)
    with pytest.raises(
        InvalidRecordError, match=f"more than the {control_records.CONTROL_BYTES_MAX} bytes allowed"
    ) as error:
        control_records.read_marker(batch, scan(batch).headers)
    assert error.value.position == 0


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        pytest.param({"max_decompressed_bytes": 0}, "max.decompressed.bytes = 0: must be .* from 1 to", id="none"),
        pytest.param(
            {"max_decompressed_bytes": DECOMPRESSED_BYTES_MAX + 1},
            "must be .* to 1082130432",
            id="more than is possible",
        ),
        pytest.param(
            {"max_decompressed_bytes": LIMIT, "max_message_bytes": LIMIT + 1},
            f"max.decompressed.bytes = {LIMIT}: must be at least max.message.bytes, which is {LIMIT + 1}",
            id="less than a batch may have uncompressed",
        ),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(settings: dict[str, int], told: str) -> None:
    with pytest.raises(InvalidConfigError, match=told):
        LogConfig(**settings)  # type: ignore[arg-type]
    assert LogConfig(max_message_bytes=np.iinfo(np.int32).max).max_decompressed_bytes == DECOMPRESSED_BYTES_MAX


def test_overrides_of_a_manager_count_before_the_settings_of_topics(tmp_path: Path) -> None:
    own = {"max.decompressed.bytes": str(LIMIT + 1), "retention.ms": "5"}
    with LogManager.open(str(tmp_path), create=True) as manager:
        manager.create_topic("t", partitions=1, configs=own)
        assert manager.config("t").max_decompressed_bytes == LIMIT + 1
    with LogManager.open(str(tmp_path), overrides={"max.decompressed.bytes": str(LIMIT)}) as manager:
        logs = manager.open_reader("t", 0), manager.open_watcher("t", 0), manager.open_log("t", 0)
        found = [log.context.config for log in logs] + [manager.config("t")]
        assert [(each.max_decompressed_bytes, each.retention_ms) for each in found] == [(LIMIT, 5)] * 4
