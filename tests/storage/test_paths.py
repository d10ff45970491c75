"""Addresses of other file systems are refused wherever a path is given, and ``file:`` means a local path."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from pyspark_commitlog.storage.directory.fs_check import check_filesystem
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.directory.snapshots.restoring import read_snapshot, restore_snapshot
from pyspark_commitlog.storage.directory.snapshots.taking import take_snapshot
from pyspark_commitlog.storage.dump.one_file import dump_file
from pyspark_commitlog.storage.dump.options import DumpFindings, DumpOptions
from pyspark_commitlog.storage.errors import InvalidConfigError
from pyspark_commitlog.storage.maintenance.outcome import OutcomeStatus, PartitionOutcome
from pyspark_commitlog.storage.maintenance.partitions import (
    compact_partitions,
    in_this_process,
    rebuild_partitions,
    retain_partitions,
    verify_partitions,
)
from pyspark_commitlog.storage.maintenance.run import MaintenanceRun
from pyspark_commitlog.storage.maintenance.selecting import select_partitions
from pyspark_commitlog.storage.paths import local_path
from tests.support.logs.building import records

OTHERS = (
    "hdfs:/log",
    "hdfs://nn/log",
    "s3a:/b/log",
    "s3a://b/log",
    "dbfs:/mnt/log",
    "abfss:log",
    "abfss://container@account.dfs.core.windows.net/log",
    "http://host/log",
    "my:log",
    "file://host/log",
)


@pytest.mark.parametrize("path", OTHERS)
def test_an_address_of_another_file_system_is_refused(path: str) -> None:
    with pytest.raises(InvalidConfigError, match="a log lives on a file system that every worker mounts"):
        local_path(path)


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/data/log", "/data/log"),
        ("data/log", "data/log"),
        ("", ""),
        ("./my:log", "./my:log"),
        ("data/a://b", "data/a://b"),
        (":log", ":log"),
        ("file:/data/log", "/data/log"),
        ("file:///data/log", "/data/log"),
        ("FILE:/data/log", "/data/log"),
        ("file://localhost/data/log", "/data/log"),
        ("file:/data/my%20log#1?", "/data/my log#1?"),
    ],
)
def test_a_local_path_is_accepted(path: str, named: str) -> None:
    assert local_path(path) == named


@pytest.mark.parametrize("path", ["file:log", "file:", "file://"])
def test_a_file_uri_without_an_absolute_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidConfigError, match="after file:, a path must begin with a slash"):
        local_path(path)


def test_a_password_in_an_address_is_not_repeated() -> None:
    with pytest.raises(InvalidConfigError) as raised:
        local_path("s3a://AKIA:secret@bucket/log")
    assert "secret" not in str(raised.value)
    assert "s3a://…@bucket/log" in str(raised.value)


def _snapshot(path: str) -> None:
    Path("log").mkdir()
    with LogManager.open("log", create=True) as manager:
        take_snapshot(manager, path)


def _dump(path: str) -> None:
    list(dump_file(path, DumpOptions(), DumpFindings()))


def _restore(path: str) -> None:
    _snapshot("taken")
    restore_snapshot("taken", path)


ENTRANCES: dict[str, Callable[[str], object]] = {
    "a manager": LogManager.open,
    "a manager that makes it": lambda path: LogManager.open(path, create=True),
    "a maintenance run": lambda path: MaintenanceRun(path).manager(),
    "a check of the file system": check_filesystem,
    "a snapshot that is read": read_snapshot,
    "a snapshot that is taken": _snapshot,
    "a snapshot that is restored": lambda path: restore_snapshot(path, "to"),
    "where a snapshot is restored to": _restore,
    "a dump": _dump,
}


@pytest.mark.parametrize("enter", ENTRANCES.values(), ids=ENTRANCES)
def test_every_entrance_of_the_engine_refuses_it_and_makes_nothing(
    enter: Callable[[str], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidConfigError, match="every worker mounts"):
        enter("hdfs:/log")
    assert {each.name for each in tmp_path.iterdir()} <= {"log", "taken"}


def test_a_file_uri_opens_the_directory_that_it_names(tmp_path: Path) -> None:
    with LogManager.open(f"file:{tmp_path}/log", create=True) as manager:
        manager.create_topic("t", partitions=1)
        assert manager.directory == f"{tmp_path}/log"
    assert (tmp_path / "log" / "t-0").is_dir()


@pytest.mark.parametrize("operation", [verify_partitions, rebuild_partitions, retain_partitions, compact_partitions])
@pytest.mark.parametrize("uri", ["file:{}", "file://{}", "FILE:{}/"])
def test_maintenance_of_a_file_uri_is_of_the_directory_that_it_names(
    operation: Callable[..., Iterable[PartitionOutcome]], uri: str, tmp_path: Path
) -> None:
    with LogManager.open(f"{tmp_path}/log", create=True) as manager:
        manager.create_topic("t", partitions=1)
        manager.open_log("t", 0).append_records(records([b"a"]))
    run = MaintenanceRun(uri.format(tmp_path / "log"), holder="test")
    with run.manager() as manager:
        chosen = select_partitions(manager, ["t"], run.overrides)
    (outcome,) = operation(run, chosen, in_this_process)
    assert outcome.status is OutcomeStatus.DONE, outcome
