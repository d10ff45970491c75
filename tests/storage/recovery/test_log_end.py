"""The end of a log without a recovery point: an unfinished write is skipped, anything else there is damage."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import CorruptionError
from tests.support.logs.building import append, open_log, rows

KEPT = [(0, b"first"), (1, b"second")]


def with_rest(directory: Path, rest: bytes | None = None, size: int | None = None) -> None:
    """Two records, and after them ``rest``, or the first ``size`` bytes of a third; alone in a log directory."""
    file = directory / "t-0" / f"{0:020d}.log"
    with open_log(directory / "t-0") as log:
        append(log, b"first")
        append(log, b"second")
        end = file.stat().st_size
        append(log, b"third")
    data = file.read_bytes()
    file.write_bytes(data[:end] + (data[end:][:size] if rest is None else rest))
    for snapshot in directory.glob("t-0/*.snapshot"):
        snapshot.unlink()


def read(directory: Path) -> list[tuple[int, bytes | None]]:
    with LogManager.open(str(directory)) as manager, manager.open_reader("t", 0) as reader:
        return rows(reader)


@pytest.mark.parametrize("size", [1, 8, 11, 12, 16, 17, 60, 61, -1])
def test_the_beginning_of_a_batch_is_skipped_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    with_rest(tmp_path, size=size)
    with caplog.at_level(logging.WARNING):
        assert read(tmp_path) == KEPT
    assert "skipping it as an unfinished write" in caplog.text


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(b"\0" * 7 + b"\2" + b"\0\0\0\5", id="a length too small for a batch, and nothing else"),
        pytest.param(b"\0" * 7 + b"\2" + b"\xff" * 4 + b"\0" * 3, id="a negative length, before the magic"),
        pytest.param(b"\0" * 7 + b"\2" + b"\0\0\1\0" + b"\0" * 4 + b"\3", id="a magic of the future, and nothing else"),
        pytest.param(b"\0" + b"\xff" * 16, id="as many bytes as lie up to the magic"),
    ],
)
def test_what_no_batch_begins_with_is_damage(tmp_path: Path, rest: bytes) -> None:
    with_rest(tmp_path, rest)
    with pytest.raises(CorruptionError, match="position"):
        read(tmp_path)
