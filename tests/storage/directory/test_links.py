"""Links in a log directory: nothing is written, read or removed outside of it through them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyspark_commitlog.storage import LogManager, NotALogDirError, add_partitions, delete_topic
from pyspark_commitlog.storage.directory.manager import UNSTAGED_MAX
from pyspark_commitlog.storage.directory.snapshots.taking import take_snapshot
from pyspark_commitlog.storage.writing.log import Log


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory with somebody's file, of the name of one that a partition has."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "partition.metadata").write_text("somebody's")
    return folder


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.rglob("*") if path.is_file()}


def create(manager: LogManager) -> None:
    manager.create_topic("u", partitions=1)


def create_many(manager: LogManager) -> None:
    manager.create_topic("u", partitions=UNSTAGED_MAX + 1)


def enlarge(manager: LogManager) -> None:
    add_partitions(manager, "t", 2)


@pytest.mark.parametrize("target", ["a directory", "nothing", "a file"])
@pytest.mark.parametrize(("link", "change"), [("u-0", create), ("u-0", create_many), ("t-1", enlarge)])
def test_a_partition_is_not_made_through_a_link(
    tmp_path: Path, outside: Path, link: str, change: Callable[[LogManager], None], target: str
) -> None:
    targets = {"a directory": outside, "nothing": outside / "none", "a file": outside / "partition.metadata"}
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("t", partitions=1)
        (tmp_path / "log" / link).symlink_to(targets[target])
        with pytest.raises(NotALogDirError, match=f"{link} is a link"):
            change(manager)
        assert "u" not in manager.described_topics()
        assert manager.topic("t").partitions == (0,)
    assert content(outside) == {"partition.metadata": "somebody's"}
    assert not (outside / "none").exists()


def test_a_log_is_not_opened_through_a_link(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "t-0").symlink_to(outside)
    with pytest.raises(NotALogDirError, match="is a link"):
        Log.open(str(tmp_path / "t-0"))
    assert content(outside) == {"partition.metadata": "somebody's"}


@pytest.mark.parametrize(
    "name", ["u-0.0123456789abcdef0123456789abcdef-delete", "u-0.0123456789abcdef0123456789abcdef-delete/x"]
)
def test_a_deletion_removes_links_and_nothing_behind_them(tmp_path: Path, outside: Path, name: str) -> None:
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("t", partitions=1)
        link = tmp_path / "log" / name
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(outside)
        delete_topic(manager, "t")
    assert not link.is_symlink()
    assert content(outside) == {"partition.metadata": "somebody's"}


def test_a_snapshot_is_not_taken_through_a_link(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "snapshot.unfinished").symlink_to(outside)
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("t", partitions=1)
        with pytest.raises(NotALogDirError, match="is a link"):
            take_snapshot(manager, str(tmp_path / "snapshot"))
    assert content(outside) == {"partition.metadata": "somebody's"}


def test_the_log_directory_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "log").symlink_to(tmp_path / "disk")
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("t", partitions=1)
    assert (tmp_path / "disk" / "t-0" / "partition.metadata").exists()
