"""The state of producers, which a reader loads when it first needs it: from snapshots that may be gone by then."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from tests.support.logs.building import append, open_log, open_reader, write_transactional


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log with an open transaction from offset 1 on, and with several producer snapshots."""
    log = open_log(tmp_path)
    append(log, b"before")
    write_transactional(log, 7, 0, b"undecided")
    for _ in range(2):
        log.roll()
        append(log, b"after")
    log.close()
    return tmp_path


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The directories that are listed."""
    found: list[str] = []
    inner = LocalFileSystem.list

    def list_directory(self: LocalFileSystem, path: str) -> list[str]:
        found.append(path)
        return inner(self, path)

    monkeypatch.setattr(LocalFileSystem, "list", list_directory)
    return found


def test_the_directory_is_not_listed_again_for_snapshots_that_were_seen_when_the_log_was_opened(
    directory: Path, listed: list[str]
) -> None:
    with open_reader(directory) as reader:
        listed.clear()
        assert reader.last_stable_offset == 1
    assert listed == []


@pytest.mark.parametrize("is_only_the_newest", [True, False])
def test_snapshots_that_were_removed_since_are_not_missed(
    directory: Path, listed: list[str], caplog: pytest.LogCaptureFixture, *, is_only_the_newest: bool
) -> None:
    snapshots = sorted(directory.glob("*.snapshot"))
    assert len(snapshots) > 1
    with open_reader(directory) as reader:
        listed.clear()
        for each in snapshots[-1:] if is_only_the_newest else snapshots:
            each.unlink()
        assert reader.last_stable_offset == 1
    assert listed == [str(directory)]
    assert caplog.messages == []
