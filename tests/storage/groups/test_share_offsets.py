"""Progress of share groups: snapshots, updates, and what is not known."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from pyspark_commitlog.storage.clock import SystemClock
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import InvalidRecordError, LogStoreError
from pyspark_commitlog.storage.groups.offsets import keyed_batches
from pyspark_commitlog.storage.groups.share_offsets import SHARE_STATE_TOPIC, ShareOffset, ShareOffsets

TOPIC_ID = base64.urlsafe_b64encode(bytes(15) + b"\7").rstrip(b"=").decode()


def key(kind: int, partition: int, group: str = "g") -> bytes:
    return bytes([0, kind, 0, len(group)]) + group.encode() + bytes(15) + b"\7" + partition.to_bytes(4, "big")


def int64(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def tags(finished: int | None) -> bytes:
    return b"\0" if finished is None else b"\1\0\4" + finished.to_bytes(4, "big")


def snapshot(epoch: int, start_offset: int, finished: int | None = None) -> bytes:
    return b"\0\0" + epoch.to_bytes(4, "big") + bytes(8) + int64(start_offset) + bytes(16) + b"\1" + tags(finished)


def update(epoch: int, start_offset: int, finished: int | None = None) -> bytes:
    return b"\0\0" + epoch.to_bytes(4, "big") + bytes(4) + int64(start_offset) + b"\1" + tags(finished)


def fetched(
    directory: Path, *records: tuple[bytes, bytes | None], failures: list[LogStoreError] | None = None
) -> dict[tuple[str, int], ShareOffset]:
    with LogManager.open(str(directory), create=True, clock=SystemClock()) as manager:
        manager.create_topic(SHARE_STATE_TOPIC, partitions=1)
        log = manager.open_log(SHARE_STATE_TOPIC, 0)
        log.append_encoded(keyed_batches(records, 1, LogConfig()))
        return ShareOffsets(manager).fetch("g", failures)


@pytest.mark.parametrize(
    ("records", "expected", "lag"),
    [
        pytest.param([(0, snapshot(0, -1))], ShareOffset(None, None), None, id="nothing was read"),
        pytest.param([(0, snapshot(0, 5, 2))], ShareOffset(5, 2), 13, id="a snapshot"),
        pytest.param([(0, snapshot(0, -1)), (1, update(0, 7, 1))], ShareOffset(7, 1), 12, id="an update"),
        pytest.param([(0, snapshot(0, 5, 2)), (1, update(0, -1, 9))], ShareOffset(5, 9), 6, id="of the count only"),
        pytest.param([(0, snapshot(0, 5, 2)), (1, update(0, 7))], ShareOffset(7, 2), 11, id="of the offset only"),
        pytest.param([(1, update(0, 7, 1)), (0, snapshot(1, 9, 0))], ShareOffset(9, 0), 11, id="an older update"),
        pytest.param([(0, snapshot(0, 5))], ShareOffset(5, None), None, id="a broker before 4.2: no count"),
    ],
)
def test_an_update_counts_over_the_snapshot_of_its_epoch(
    records: list[tuple[int, bytes]], expected: ShareOffset, lag: int | None, tmp_path: Path
) -> None:
    found = fetched(tmp_path, *((key(kind, 3), value) for kind, value in records))
    assert found == {(TOPIC_ID, 3): expected}
    assert expected.lag(20) == lag


def test_other_groups_and_deleted_partitions_are_left_out(tmp_path: Path) -> None:
    records = [(key(0, 0), snapshot(0, 1, 0)), (key(0, 1), snapshot(0, 2, 0)), (key(0, 0, "other"), snapshot(0, 3, 0))]
    assert fetched(tmp_path, *records, (key(0, 1), None)) == {(TOPIC_ID, 0): ShareOffset(1, 0)}


def test_a_record_that_does_not_decode_is_an_error_and_hides_no_other_partition(tmp_path: Path) -> None:
    records = [(key(0, 0), snapshot(0, 1, 0)), (key(0, 1), b"\0\1later")]
    failures: list[LogStoreError] = []
    assert fetched(tmp_path, *records, failures=failures) == {(TOPIC_ID, 0): ShareOffset(1, 0)}
    [failure] = failures
    assert isinstance(failure, InvalidRecordError)
    assert f"__share_group_state: group 'g', {TOPIC_ID}-1: ShareSnapshotValue has version 1" in str(failure)
