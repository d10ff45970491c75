"""The files at the root of a log directory: its locks and its checkpoints."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import re
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from pyspark_commitlog.storage.directory.log_directory import TOPICS_FILE
from pyspark_commitlog.storage.errors import CorruptionError, LogDirLockedError, StorageError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format.files import checkpoints, file_names
from pyspark_commitlog.storage.reading.marks import Marks
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail
from tests.support.logs.building import append, rows
from tests.support.logs.directories import managed

SPAWN = multiprocessing.get_context("spawn")


# Locks


def hold_as_a_broker(path: str, answer: Connection) -> None:
    """Java's FileChannel.lock is this lock."""
    with Path(path).open("w") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            answer.send("refused")
            return
        answer.send("held")
        answer.recv()


def test_a_running_broker_keeps_writers_out_and_lets_readers_in(tmp_path: Path) -> None:
    with managed(tmp_path) as manager:
        manager.create_topic("t", partitions=1)
        append(manager.open_log("t", 0), b"a")
    here, there = SPAWN.Pipe()
    broker = SPAWN.Process(target=hold_as_a_broker, args=(str(tmp_path / file_names.LOCK_FILE), there))
    broker.start()
    assert here.recv() == "held"
    manager = managed(tmp_path)
    for write in (
        lambda: manager.open_log("t", 0),
        lambda: manager.create_topic("u", partitions=1),
        manager.check_writable,
    ):
        with pytest.raises(LogDirLockedError, match="a running Kafka broker holds this directory"):
            write()
    assert rows(manager.open_reader("t", 0)) == [(0, b"a")]
    here.send("stop")
    broker.join()
    append(manager.open_log("t", 0), b"b")


def test_a_broker_is_kept_out_while_any_of_us_writes_and_not_longer(tmp_path: Path) -> None:
    first, second = managed(tmp_path), managed(tmp_path)
    first.create_topic("t", partitions=1)
    second.open_log("t", 0)

    def broker() -> str:
        here, there = SPAWN.Pipe()
        process = SPAWN.Process(target=hold_as_a_broker, args=(str(tmp_path / file_names.LOCK_FILE), there))
        process.start()
        answer = str(here.recv())
        if answer == "held":
            here.send("stop")
        process.join()
        return answer

    first.close()
    assert broker() == "refused"
    second.close()
    assert broker() == "held"


def test_on_a_read_only_mount_what_writes_is_refused_and_says_how_to_copy(tmp_path: Path) -> None:
    with managed(tmp_path) as manager:
        manager.create_topic("t", partitions=1)
        append(manager.open_log("t", 0), b"a")
    disk = FaultyFileSystem(LocalFileSystem(), [fail("lock_shared_with_broker", error=errno.EROFS, lasting=True)])
    manager = managed(tmp_path, disk)
    said = f"{tmp_path} is read-only: `commitlog copy` takes a copy without writing there"
    for write in (
        lambda: manager.open_log("t", 0),
        lambda: manager.create_topic("u", partitions=1),
        manager.lock_brokers_out,
    ):
        with pytest.raises(StorageError, match=f"^{re.escape(said)}$"):
            write()
    assert rows(manager.open_reader("t", 0)) == [(0, b"a")]


# Checkpoints


def test_the_marks_of_a_log_are_in_the_checkpoints_that_kafka_reads(tmp_path: Path) -> None:
    with managed(tmp_path) as manager:
        manager.create_topic("t", partitions=2)
        for partition in range(2):
            append(manager.open_log("t", partition), b"a", b"b", b"c")
        manager.open_log("t", 1).delete_records(2)
    recovery_points = checkpoints.decode_offsets((tmp_path / file_names.RECOVERY_POINT_CHECKPOINT).read_bytes())
    log_starts = checkpoints.decode_offsets((tmp_path / file_names.LOG_START_OFFSET_CHECKPOINT).read_bytes())
    assert recovery_points == {("t", 0): 3, ("t", 1): 3}
    assert log_starts == {("t", 1): 2}


def test_a_damaged_checkpoint_costs_a_recovery_and_no_record(tmp_path: Path) -> None:
    with managed(tmp_path) as manager:
        manager.create_topic("t", partitions=1)
        append(manager.open_log("t", 0), b"a", b"b")
    (tmp_path / file_names.RECOVERY_POINT_CHECKPOINT).write_bytes(b"0\n2\nt 0 2\n")
    manager = managed(tmp_path)
    assert manager.marks(("t", 0)) == Marks()
    assert rows(manager.open_log("t", 0)) == [(0, b"a"), (1, b"b")]


def test_marks_of_other_partitions_are_kept(tmp_path: Path) -> None:
    first, second = managed(tmp_path), managed(tmp_path)
    first.write_marks({("t", 0): Marks(5, 1)})
    second.write_marks({("t", 1): Marks(7, 0)})
    first.write_marks({("t", 0): Marks(0, 0)})
    assert second.marks(("t", 0)) == Marks(0, 0)
    assert first.marks(("t", 1)) == Marks(7, 0)


def test_a_torn_topics_file_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    with managed(tmp_path) as manager:
        manager.create_topic("t", partitions=1)
        append(manager.open_log("t", 0), b"a")
    path = tmp_path / TOPICS_FILE
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(
        CorruptionError,
        match=f"^{path}: the content is not what this engine writes: .*restore the file, .* or remove it",
    ):
        managed(tmp_path).topic("t")
    path.unlink()
    assert rows(managed(tmp_path).open_reader("t", 0)) == [(0, b"a")]
