"""Reads of a directory whose earlier records are only in a broker's remote storage."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pyspark_commitlog.pipeline.read.batch import BatchReader
from pyspark_commitlog.pipeline.read.options import ReadOptions
from pyspark_commitlog.storage import OffsetOutOfRangeError
from tests.pipeline.read.plain_offsets import PlainReader
from tests.support.tiered import tiered_directory

SAID = "offsets 0 to 617 are only in the broker's remote storage, which is not read"


def parsed(directory: Path, **options: str) -> ReadOptions:
    return ReadOptions.parse({"path": str(directory), "subscribe": "t-plain", **options})


@pytest.mark.parametrize("options", [{}, {"startingTimestamp": "1"}, {"startingOffsets": '{"t-plain": {"0": 618}}'}])
def test_a_batch_that_begins_where_the_local_segments_do_warns_of_what_it_does_not_read(
    options: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = parsed(tiered_directory(tmp_path / "log"), **options)
    with caplog.at_level(logging.WARNING):
        [part] = BatchReader(found, found.columns.arrow_schema(found.columns.schema())).partitions()
    assert (part.start, part.end) == (618, 630)
    assert caplog.text.count(f"t-plain-0 is read from offset 618 on: {SAID}") == 1


def test_a_batch_that_begins_later_warns_of_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = parsed(tiered_directory(tmp_path / "log"), startingOffsets='{"t-plain": {"0": 620}}')
    with caplog.at_level(logging.WARNING):
        BatchReader(found, found.columns.arrow_schema(found.columns.schema())).partitions()
    assert "remote" not in caplog.text


def test_a_start_in_remote_storage_is_an_error_that_says_so(tmp_path: Path) -> None:
    found = parsed(tiered_directory(tmp_path / "log"), startingOffsets='{"t-plain": {"0": 3}}')
    reader = BatchReader(found, found.columns.arrow_schema(found.columns.schema()))
    with pytest.raises(OffsetOutOfRangeError, match=f"offset 3 of t-plain-0 is outside the log, .*; {SAID}"):
        reader.partitions()


def test_a_stream_that_begins_at_the_earliest_offset_warns_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = parsed(tiered_directory(tmp_path / "log"), startingOffsets="earliest")
    reader = PlainReader(found, found.columns.arrow_schema(found.columns.schema()))
    with caplog.at_level(logging.WARNING):
        assert reader.initialOffset() == {"t-plain": {"0": 618}}
        reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    reader.stop()
    assert caplog.text.count(SAID) == 1
