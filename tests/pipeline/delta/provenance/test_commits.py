"""The next offsets that commits of a table record, found in Delta's files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.pipeline.delta.provenance.commits import local_commits, local_version, newest_recorded
from pyspark_commitlog.pipeline.delta.provenance.next_offsets import NextOffsets
from pyspark_commitlog.pipeline.rows.topic_ids import KnownOffsets
from pyspark_commitlog.storage import CorruptionError, TopicPartition
from tests.support.delta_log import ADDED, commit


def up_to(offset: int) -> NextOffsets:
    return NextOffsets(KnownOffsets({TopicPartition("t", 0): offset}, {"t": "id"}))


def recorded(table: Path) -> NextOffsets | None:
    version = local_version(table)
    assert version is not None
    return newest_recorded(local_commits(table, version))


@pytest.mark.parametrize(
    "after",
    [
        {"operation": "OPTIMIZE"},
        {"operation": "VACUUM END"},
        {"operation": "DELETE"},
        ADDED | {"operationMetrics": {"numOutputRows": "0"}},
    ],
    ids=["files compacted", "files removed", "rows deleted by a person", "a field added"],
)
def test_offsets_count_until_another_commit_adds_rows(tmp_path: Path, after: dict[str, Any]) -> None:
    commit(tmp_path, ADDED, ADDED | {"userMetadata": up_to(7).to_json()}, after)
    assert recorded(tmp_path) == up_to(7)


@pytest.mark.parametrize(
    "after",
    [ADDED, {"operation": "RESTORE"}, {"operation": "MERGE", "userMetadata": "by hand"}, {}],
    ids=["an older version of this package", "restored", "a person's note", "nothing known"],
)
def test_offsets_do_not_count_after_rows_of_unknown_origin(tmp_path: Path, after: dict[str, Any]) -> None:
    commit(tmp_path, ADDED | {"userMetadata": up_to(7).to_json()}, after)
    assert recorded(tmp_path) is None


def test_offsets_are_not_known_if_delta_removed_the_commit_that_has_them(tmp_path: Path) -> None:
    commit(tmp_path, ADDED | {"userMetadata": up_to(7).to_json()}, {"operation": "OPTIMIZE"})
    (tmp_path / "_delta_log" / f"{0:020d}.json").unlink()
    assert recorded(tmp_path) is None


def test_folder_without_a_table_has_no_version(tmp_path: Path) -> None:
    assert local_version(tmp_path) is None


def test_damaged_commit_is_reported_with_its_file(tmp_path: Path) -> None:
    commit(tmp_path, ADDED)
    file = tmp_path / "_delta_log" / f"{0:020d}.json"
    file.write_text('{"commitInfo":{"operation"', encoding="utf-8")
    with pytest.raises(CorruptionError, match=str(file)):
        recorded(tmp_path)
