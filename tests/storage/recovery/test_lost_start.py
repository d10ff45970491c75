"""A log that lost its first segments: an index that nobody deleted stays, and the loss is reported again and again."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.verify.findings import Kind
from pyspark_commitlog.storage.verify.log import CheckpointedOffsets, verify_log
from tests.support.logs.building import append, open_log, open_reader, rows


@pytest.fixture
def marks(tmp_path: Path) -> KeptInMemory:
    """Of a log with segments at offsets 0, 2, 4, and one without records at 6; the first two lack their ``.log``."""
    marks = KeptInMemory()
    with open_log(tmp_path, marks) as log:
        for n in range(6):
            append(log, b"%d" % n)
            if n % 2:
                log.roll()
        log.checkpoint()
    for base in (0, 2):
        (tmp_path / file_names.segment_file(base, file_names.LOG)).unlink()
    return marks


def found(directory: Path, marks: KeptInMemory) -> list[tuple[Kind, tuple[int, int] | None]]:
    with open_reader(directory, marks) as reader:
        findings = verify_log(reader.context, CheckpointedOffsets(*marks.read()[:2])).findings
    return [(each.kind, each.lost) for each in findings]


def indexes(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*[02].*index"))


def test_lost_first_segments_are_damage_and_no_writer_removes_their_trace(tmp_path: Path, marks: KeptInMemory) -> None:
    before = indexes(tmp_path)
    for n in range(2):
        assert found(tmp_path, marks) == [(Kind.LOST_START, (0, 3))]
        with open_log(tmp_path, marks) as log:
            append(log, b"later %d" % n)
            log.checkpoint()
            assert [offset for offset, _ in rows(log)] == list(range(4, 7 + n))
    assert (indexes(tmp_path), len(before)) == (before, 4)


def test_deleting_the_lost_records_makes_the_log_sound(
    tmp_path: Path, marks: KeptInMemory, caplog: pytest.LogCaptureFixture
) -> None:
    removed = indexes(tmp_path)
    with open_log(tmp_path, marks) as log:
        log.delete_records(4)
    with open_log(tmp_path, marks):
        pass
    said = [Path(each.split(": removed")[0]).name for each in caplog.messages if "removed this file" in each]
    assert sorted(said) == removed  # each once
    assert (indexes(tmp_path), found(tmp_path, marks)) == ([], [])


def test_the_index_of_a_segment_that_was_being_deleted_is_removed(tmp_path: Path, marks: KeptInMemory) -> None:
    for base in (0, 2):
        (tmp_path / (file_names.segment_file(base, file_names.LOG) + file_names.DELETED)).write_bytes(b"")
    assert {kind for kind, _ in found(tmp_path, marks)} == {Kind.ORPHAN_INDEX}
    with open_log(tmp_path, marks, file_delete_delay_ms=0):
        pass
    assert (indexes(tmp_path), found(tmp_path, marks)) == ([], [])


def test_the_index_of_a_segment_without_records_is_no_trace(tmp_path: Path, marks: KeptInMemory) -> None:
    for name in indexes(tmp_path):
        (tmp_path / name).write_bytes(bytes(24))
    assert {kind for kind, _ in found(tmp_path, marks)} == {Kind.ORPHAN_INDEX}
