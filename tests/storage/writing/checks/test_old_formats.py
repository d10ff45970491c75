"""Topics with an older message.format.version: what clients send is stored as message sets, as Kafka to 2.8 did."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pyspark_commitlog.storage import Codec, LogConfig, UnsupportedForMessageFormatError, format as formats
from pyspark_commitlog.storage.errors import CorruptRecordError, RecordTooLargeError
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.constants import TimestampType
from pyspark_commitlog.storage.format.legacy import messages
from pyspark_commitlog.storage.format.tables import Bytes, HeadersColumn
from pyspark_commitlog.storage.recovery.producer_state import Origin
from pyspark_commitlog.storage.writing.checks.batches import Validated, analyze, validate_and_assign_offsets
from pyspark_commitlog.storage.writing.checks.checked_batch import check_batch
from tests.storage.format.test_down_conversion import OLD_CODECS, batch, records, rows
from tests.support.logs import building

VERSIONS = {"0.8.0": 0, "0.8.2": 0, "0.9.0": 0, "0.10.0-IV0": 1, "0.10.2": 1, "0.11.0": 2, "1.0": 2, "3.0-IV1": 2}
NOW_MS = 9_000


def sent(magic: int, codec: Codec = Codec.NONE) -> Bytes:
    """Two records as a client of that format sends them."""
    if magic == 2:
        return batch(b"a", b"b", codec=codec)
    found: Bytes = formats.by_magic(magic).encode(records(b"a", b"b"), codec)
    return found


def appended(buffer: Bytes, version: str, *, origin: Origin = Origin.CLIENT, **settings: object) -> Validated:
    config = LogConfig(message_format_version=version, **settings)  # type: ignore[arg-type]
    return validate_and_assign_offsets(
        buffer,
        analyze(buffer, origin, config),
        start_offset=40,
        now_ms=NOW_MS,
        leader_epoch=2,
        origin=origin,
        config=config,
    )


@pytest.mark.parametrize(("version", "magic"), VERSIONS.items())
def test_a_version_stands_for_a_format(version: str, magic: int) -> None:
    assert LogConfig(message_format_version=version).record_magic == magic


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("from_magic", [0, 1, 2])
@pytest.mark.parametrize(("version", "magic"), [("0.8.2", 0), ("0.10.2", 1), ("0.11.0", 2)])
def test_every_format_is_converted_to_that_of_the_topic(
    version: str, magic: int, from_magic: int, codec: Codec
) -> None:
    found = appended(sent(from_magic, codec), version)
    times = [1000, 1001] if min(magic, from_magic) else [-1, -1]
    assert rows(found.buffer) == list(zip([40, 41], times, [b"a", b"b"], strict=True))
    headers = found.headers
    assert set(headers.table["magic"].tolist()) == {magic}
    assert headers.table["last_offset"][-1] == 41
    assert headers.codec[0] == codec
    assert len(headers) == (2 if magic < 2 and not codec else 1)
    formats.verify(found.buffer, headers)


def test_a_wrapper_of_the_topics_format_keeps_its_compressed_bytes() -> None:
    wrapper = sent(1, Codec.GZIP)
    stored = appended(wrapper, "0.10.2").buffer
    assert stored[26:].tobytes() == wrapper[26:].tobytes()
    again = appended(wrapper, "0.10.2", compression_type="lz4")
    assert again.headers.codec.tolist() == [Codec.LZ4]


def test_a_wrapper_whose_offsets_have_gaps_is_made_again() -> None:
    with_gap = records(b"a", b"b")
    with_gap = replace(with_gap, offsets=np.array([0, 5], dtype=np.int64))
    found = appended(formats.by_magic(1).encode(with_gap, Codec.GZIP), "0.10.2")
    assert [row[0] for row in rows(found.buffer)] == [40, 41]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_append_times_are_set_in_magic_1_and_have_no_place_in_magic_0(codec: Codec) -> None:
    found = appended(sent(1, codec), "0.10.2", message_timestamp_type="LogAppendTime")
    assert {row[1] for row in rows(found.buffer)} == {NOW_MS}
    assert set(found.headers.timestamp_type.tolist()) == {TimestampType.LOG_APPEND_TIME}
    formats.verify(found.buffer, found.headers)
    found = appended(sent(1, codec), "0.9.0", message_timestamp_type="LogAppendTime")
    assert {row[1] for row in rows(found.buffer)} == {-1}


def test_what_old_formats_cannot_hold_is_refused() -> None:
    with pytest.raises(UnsupportedForMessageFormatError, match=r"0\.10\.2.* producers"):
        appended(batch(b"a", producer_id=4, producer_epoch=0, base_sequence=0), "0.10.2")
    one = replace(records(b"a"), headers=HeadersColumn.repeated([(b"h", b"x")], 1))
    with_headers = v2.encode_batches(one, v2.BatchFields(), batch_bytes_max=2**20).buffer
    with pytest.raises(UnsupportedForMessageFormatError, match="record headers"):
        appended(with_headers, "0.8.2")


def test_a_damaged_message_in_a_wrapper_is_refused() -> None:
    inner = formats.by_magic(1).encode(records(b"a", b"b")).copy()
    inner[-1] ^= 1
    wrapper = messages.wrapper(1, inner, Codec.GZIP, None, 1, 1001, append_time=False)
    with pytest.raises(CorruptRecordError, match=r"checksum 0x\w{8} does not match 0x\w{8}"):
        appended(wrapper, "0.10.2")


def test_a_message_that_grows_beyond_the_limit_is_refused() -> None:
    small = batch(*[b""] * 40)
    with pytest.raises(RecordTooLargeError):
        appended(batch(*[b"\0"] * 40, codec=Codec.NONE), "0.10.2", max_message_bytes=30, max_decompressed_bytes=30)
    assert len(appended(small, "0.10.2", max_message_bytes=len(small)).headers) == 40


def test_coordinators_write_record_batches_whatever_the_topics_format() -> None:
    found = appended(batch(b"a"), "0.8.2", origin=Origin.COORDINATOR)
    assert found.headers.table["magic"].tolist() == [2]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize(("version", "magic"), [("0.8.2", 0), ("0.10.2", 1)])
def test_a_log_counts_records_in_wrappers_and_reads_them_again(
    tmp_path: Path, version: str, magic: int, codec: Codec
) -> None:
    with building.open_log(tmp_path, message_format_version=version, segment_bytes=300) as log:
        for index in range(10):
            info = log.append(batch(b"a", b"b", b"c", codec=codec))
            assert (info.first_offset, info.last_offset) == (3 * index, 3 * index + 2)
        assert len(list(log.segments)) > 1
    with building.open_log(tmp_path, message_format_version=version) as log:
        assert log.log_end_offset == 30
        assert building.rows(log) == list(enumerate([b"a", b"b", b"c"] * 10))
        assert set(magics(tmp_path)) == {magic}


def test_clients_of_the_gateway_are_converted_and_replicas_and_own_records_are_not(tmp_path: Path) -> None:
    with building.open_log(tmp_path, message_format_version="0.10.2") as log:
        checked = check_batch(batch(b"a").tobytes(), log.context.config)
        assert not checked.is_plain
        log.append_checked([checked])
        log.append(building.replicated(b"b", base_offset=1), origin=Origin.REPLICATION)
        log.append_records(building.records([b"c"]))
        assert building.rows(log) == [(0, b"a"), (1, b"b"), (2, b"c")]
        assert magics(tmp_path) == [1, 2, 2]


def magics(directory: Path) -> list[int]:
    """The magic of each batch in the files."""
    files = [np.fromfile(each, dtype=np.uint8) for each in sorted(directory.glob("*.log"))]
    return [magic for each in files for magic in formats.scan(each).headers.table["magic"].tolist()]
