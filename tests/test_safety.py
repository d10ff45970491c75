"""What a log directory that somebody tampered with must not be able to do, and what nobody is shown unasked."""

from __future__ import annotations

import ast
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.storage import LogManager
from pyspark_commitlog.storage.directory.admin import delete_topic
from pyspark_commitlog.storage.directory.topics_file import decode_topics
from pyspark_commitlog.storage.dump.one_file import dump_file
from pyspark_commitlog.storage.dump.options import DumpFindings, DumpOptions
from pyspark_commitlog.storage.errors import CorruptionError, InvalidTopicError, LogStoreError, NotALogDirError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.v2 import BatchFields
from pyspark_commitlog.storage.maintenance.outcome import OutcomeStatus
from pyspark_commitlog.storage.maintenance.partitions import (
    compact_partitions,
    in_this_process,
    rebuild_partitions,
    retain_partitions,
    verify_partitions,
)
from pyspark_commitlog.storage.maintenance.run import ConfigOverrides, MaintenanceRun
from pyspark_commitlog.storage.maintenance.selecting import select_partitions
from pyspark_commitlog.storage.reading.damaged import salvaged_records
from tests.support.logs.building import append, records, rows
from tests.torture.damage.damaging import damage, sign_batches
from tests.torture.suite import Run

ROOT = Path(__file__).parents[1]
SECRET = b"PIN 4711"
ESCAPES = ["../../etc", "..", ".", "a/b", "a\0b", "a b", "", "ä", "t" * 250]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Of a topic with one record."""
    path = tmp_path / "logs"
    with LogManager.open(str(path), create=True) as manager:
        manager.create_topic("t", partitions=1, configs={"cleanup.policy": "compact,delete"})
        manager.open_log("t", 0).append_records(records([b"a record"], keys=[b"key"]))
    return path


# Paths


@pytest.mark.parametrize("name", ESCAPES)
def test_no_topic_leaves_the_directory_by_its_name(directory: Path, name: str) -> None:
    with LogManager.open(str(directory)) as manager, pytest.raises(InvalidTopicError):
        manager.create_topic(name, partitions=1)


@pytest.mark.parametrize("name", ESCAPES)
def test_topics_json_with_such_a_name_is_damaged(name: str) -> None:
    topic = {"id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": 1, "configs": {}}
    with pytest.raises(CorruptionError, match="the content is not what this engine writes"):
        decode_topics(json.dumps({"version": 1, "topics": {name: topic}}).encode())


def test_topics_json_that_is_nested_without_end_is_damaged() -> None:
    with pytest.raises(CorruptionError, match="the content is not what this engine writes"):
        decode_topics(b'{"version": 1, "topics": ' + b"[" * 200_000)


def test_a_file_that_is_a_link_is_not_followed(directory: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.log"
    (log,) = directory.glob("t-0/*.log")
    log.rename(outside)
    log.symlink_to(outside)
    before = outside.read_bytes()
    with LogManager.open(str(directory)) as manager:
        with pytest.raises((LogStoreError, OSError), match="symbolic links"):
            rows(manager.open_reader("t", 0))
        with pytest.raises((LogStoreError, OSError), match="symbolic links"):
            append(manager.open_log("t", 0), b"more")
    assert outside.read_bytes() == before


def test_a_partition_that_is_a_link_is_not_followed_by_anything(directory: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (directory / "t-0").rename(outside)
    (directory / "t-0").symlink_to(outside)
    before = {path.name: path.read_bytes() for path in outside.iterdir()}
    with LogManager.open(str(directory)) as manager:
        for use in (manager.open_log, manager.open_reader, manager.open_watcher):
            with pytest.raises(NotALogDirError, match="is a link"):
                use("t", 0)
        with pytest.raises(NotALogDirError, match="is a link"):
            delete_topic(manager, "t")
        selection = select_partitions(manager, ["t"], ConfigOverrides())
    run = MaintenanceRun(str(directory))
    for work in (retain_partitions, compact_partitions, rebuild_partitions, verify_partitions):
        (outcome,) = [each for each in work(run, selection, in_this_process) if each.topic == "t"]  # type: ignore[operator]
        assert outcome.status is OutcomeStatus.FAILED
        assert "is a link" in str(outcome)
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == before


# Rights


@pytest.mark.parametrize(("umask", "file_mode", "directory_mode"), [(0o077, 0o600, 0o700), (0o027, 0o640, 0o750)])
def test_files_and_directories_have_the_rights_that_the_umask_leaves(
    tmp_path: Path, umask: int, file_mode: int, directory_mode: int
) -> None:
    before = os.umask(umask)
    try:
        with LogManager.open(str(tmp_path / "logs"), create=True) as manager:
            manager.create_topic("t", partitions=1)
            append(manager.open_log("t", 0), b"a record")
    finally:
        os.umask(before)
    made = [tmp_path / "logs", *(tmp_path / "logs").rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {directory_mode}
    assert {path.stat().st_mode & 0o777 for path in made if path.is_file()} == {file_mode}


# Code in data


def test_nothing_that_reads_a_log_unpickles_or_evaluates() -> None:
    banned = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "eval", "exec", "compile", "__import__"}
    found = []
    for path in sorted((ROOT / "storage").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                named = {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                named = {(node.module or "").partition(".")[0]}
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                named = {node.func.id}
            else:
                continue
            found += [f"{path.relative_to(ROOT)}:{node.lineno}: {name}" for name in named & banned]
    assert found == []


# What is told


def told_of(directory: Path) -> Iterator[str]:
    """Every error and finding that a damaged partition gives."""
    filesystem = LocalFileSystem()
    told: list[CorruptionError] = []
    with LogManager.open(str(directory)) as manager:
        try:
            with manager.open_reader("t", 0) as reader:
                list(salvaged_records(reader, 0, 100, told.append))
                rows(reader)
        except LogStoreError as error:
            yield str(error)
        yield from map(str, told)
        selection = select_partitions(manager, ["t"], ConfigOverrides())
        yield from map(str, verify_partitions(MaintenanceRun(str(directory)), selection, in_this_process))
        for path in sorted(directory.glob("t-0/*.*")):
            try:
                yield from (
                    "\n".join(lines) for lines in dump_file(str(path), DumpOptions(), DumpFindings(), filesystem)
                )
            except LogStoreError as error:
                yield str(error)
        try:
            append(manager.open_log("t", 0), b"more")
        except LogStoreError as error:
            yield str(error)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_errors_findings_and_log_lines_show_nothing_of_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, codec: Codec
) -> None:
    caplog.set_level(logging.DEBUG)
    run = Run(5, tmp_path, count=25)
    for case in run.cases():
        directory = tmp_path / f"logs-{case.number}"
        with LogManager.open(str(directory), create=True) as manager:
            manager.create_topic("t", partitions=1)
            manager.open_log("t", 0).append_records(
                records([SECRET] * 20, keys=[SECRET] * 20), BatchFields(codec=codec)
            )
        (log,) = directory.glob("t-0/*.log")
        damaged = damage(case.chance, log.read_bytes())
        log.write_bytes(sign_batches(damaged) if case.chance.random() < 0.5 else damaged)
        for text in told_of(directory):
            for shown in (SECRET.decode(), SECRET.hex(), "4711"):
                assert shown not in text
        run.passed()
    assert "4711" not in caplog.text


def test_what_is_refused_is_told_without_its_content(directory: Path) -> None:
    with LogManager.open(str(directory)) as manager, pytest.raises(LogStoreError) as refused:
        append(manager.open_log("t", 0), SECRET)  # has no key, which compaction needs
    assert "4711" not in str(refused.value)


def test_a_failed_operation_names_itself_and_its_file(directory: Path) -> None:
    (log,) = directory.glob("t-0/*.log")
    with LocalFileSystem().open(str(log), "read") as file, pytest.raises(OSError, match=r"write: .*\.log") as caught:
        file.write(0, b"x")
    assert caught.value.filename == str(log)
