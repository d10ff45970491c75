"""Recovery of one segment compared with Kafka's ``LogSegment.recover``, over all record sets, intact and damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.errors import CorruptRecordError, UnsupportedMagicError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.recovery.leader_epochs import LeaderEpochCache
from pyspark_commitlog.storage.recovery.producer_state_manager import ProducerStateManager
from pyspark_commitlog.storage.recovery.segment_recovery import LogState, Recovery, cut, recover
from pyspark_commitlog.storage.segment.walk import LogContext
from pyspark_commitlog.storage.segment.writer import LogSegment
from tests.support.clock import ManualClock
from tests.support.logs import building, record_sets

Found = tuple[int, int, int]  # truncatedBytes, validBytes, nextOffset

# Offsets are outside the checksum. If a batch does not end above its predecessor, later batches would get offsets a
# second time or be unreachable: the log is cut there. Kafka reads on, and fails if the offset is negative.
OFFSETS_GO_BACK: dict[str, Found] = {
    "corrupt-file-offsets-go-back": (187, 187, 103),
    "corrupt-v0-wrapper-offset-below-inner": (158, 43, 1001),
    "corrupt-v0-wrapper-offset-zero": (155, 46, 1001),
    "corrupt-v1-wrapper-offset-below-inner": (177, 60, 1001),
    "corrupt-v1-wrapper-offset-zero": (186, 57, 1001),
    "corrupt-v2-base-offset-changed": (133, 395, 22254),
    "corrupt-v2-base-offset-negative": (369, 119, 1002),
    "corrupt-v2-last-offset-delta-negative-crc-fixed": (399, 118, 1002),
    "corrupt-v2-last-offset-delta-too-large-crc-fixed": (111, 386, 1103),
}
# A marker that does not parse does not prevent the log from opening: a malformed one is the last batch kept, like other
# malformed ones in Kafka; one of an unknown type ends no transaction.
MARKERS_THAT_STOP_KAFKA: dict[str, Found] = {
    "corrupt-v2-control-key-null": (122, 195, 1003),
    "corrupt-v2-control-key-type-99": (0, 311, 1008),
    "corrupt-v2-control-key-type-minus-1": (0, 338, 1008),
}
# Whole batches of an unknown format; Kafka takes them for magic 2.
NEWER_FORMATS = ("corrupt-v2-magic-127", "corrupt-v2-magic-3", "corrupt-v2-magic-3-crc-fixed")
DIFFERENT = {**OFFSETS_GO_BACK, **MARKERS_THAT_STOP_KAFKA}


def recovered_by_kafka() -> list[str]:
    return [name for name in record_sets.names() if record_sets.load(name).get("recover") is not None]


def segment_of(directory: Path, name: str, config: LogConfig | None = None) -> LogSegment:
    context = LogContext(str(directory), config or LogConfig(), ManualClock(), LocalFileSystem())
    (directory / "00000000000000000000.log").write_bytes(record_sets.log_bytes(name).tobytes())
    return LogSegment(context, 0)


def recover_and_cut(segment: LogSegment, synced_offset: int = 0) -> Recovery:
    state = LogState(ProducerStateManager(segment.context.directory), LeaderEpochCache())
    recovery = recover(segment, state, synced_offset)
    cut(segment)
    return recovery


def test_segments_are_cut_where_kafka_cuts_them(tmp_path: Path) -> None:
    found: dict[str, Found] = {}
    expected: dict[str, Found] = {}
    for name in recovered_by_kafka():
        if name in NEWER_FORMATS:
            continue
        kafka = record_sets.load(name)["recover"]
        expected[name] = DIFFERENT.get(name) or (kafka["truncatedBytes"], kafka["validBytes"], kafka["nextOffset"])
        (tmp_path / name).mkdir()
        recovery = recover_and_cut(segment_of(tmp_path / name, name))
        size = (tmp_path / name / "00000000000000000000.log").stat().st_size
        found[name] = (recovery.truncated_bytes, size, recovery.next_offset)
    assert found == expected
    assert len(found) > 290


@pytest.mark.parametrize("name", sorted(DIFFERENT))
def test_where_we_differ_kafka_does_otherwise(name: str) -> None:
    kafka = record_sets.load(name)["recover"]
    assert (kafka.get("truncatedBytes"), kafka.get("validBytes"), kafka.get("nextOffset")) != DIFFERENT[name]


@pytest.mark.parametrize("name", NEWER_FORMATS)
def test_a_complete_batch_of_a_newer_format_is_reported_and_not_cut_off(tmp_path: Path, name: str) -> None:
    segment = segment_of(tmp_path, name)
    with pytest.raises(UnsupportedMagicError, match=r"0\.log, position \d+: message format (3|127)"):
        recover_and_cut(segment)
    assert (tmp_path / "00000000000000000000.log").read_bytes() == record_sets.log_bytes(name).tobytes()


def test_below_the_recovery_point_nothing_is_cut_off(tmp_path: Path) -> None:
    """The recovery point is one record above the last whole one: what follows was synced once."""
    tried = 0
    for name in recovered_by_kafka():
        if not name.startswith(("torn-", "corrupt-file-")):
            continue
        whole = recover_and_cut(segment_of(tmp_path, name))
        if whole.truncated_bytes:
            tried += 1
            segment = segment_of(tmp_path, name)
            sound = 0 if name == "corrupt-file-offsets-go-back" else whole.next_offset  # either of the two may be wrong
            with pytest.raises(CorruptRecordError, match=rf"sound only up to offset {sound},"):
                recover_and_cut(segment, synced_offset=whole.next_offset + 1)
            assert (tmp_path / "00000000000000000000.log").read_bytes() == record_sets.log_bytes(name).tobytes()
    assert tried > 20


@pytest.mark.parametrize("synced", range(7))
def test_a_batch_that_a_power_cut_left_without_its_base_offset_is_cut_off(tmp_path: Path, synced: int) -> None:
    """Its checksum is right, and its offsets seem to be among those that were synced."""
    path = tmp_path / "00000000000000000000.log"
    with building.open_log(tmp_path) as log:
        for value in range(6):
            log.append_records(building.records([b"%d" % value]))
    whole = path.read_bytes()
    size = len(whole) // 6
    path.write_bytes(whole + bytes(8) + whole[-size + 8 :])
    segment = LogSegment(LogContext(str(tmp_path), LogConfig(), ManualClock(), LocalFileSystem()), 0)
    recovery = recover_and_cut(segment, synced_offset=synced)
    assert (recovery.truncated_bytes, recovery.next_offset) == (size, 6)
    assert path.read_bytes() == whole


def test_a_dense_index_is_rebuilt_whatever_its_capacity(tmp_path: Path) -> None:
    """The log was written with a larger ``segment.index.bytes`` than it is recovered with."""
    tight = LogConfig.from_mapping({"segment.index.bytes": "16", "index.interval.bytes": "0"})
    segment = segment_of(tmp_path, "v2-many-small-batches", tight)
    recovery = recover_and_cut(segment)
    assert recovery.truncated_bytes == 0
    assert len(segment.offset_index) == len(record_sets.load("v2-many-small-batches")["batches"]) - 1
