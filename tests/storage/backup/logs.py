"""A log directory to back up, and comparisons of directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.storage import CommittedOffset, GroupOffsets, LogManager, TopicPartition
from pyspark_commitlog.storage.backup.checking import verify_backup
from pyspark_commitlog.storage.backup.cuts import find_cut
from pyspark_commitlog.storage.backup.places import BackupPlace, FolderPlace
from pyspark_commitlog.storage.backup.restoring import restore_backup
from pyspark_commitlog.storage.backup.taking import TakenBackup, take_backup
from pyspark_commitlog.storage.errors import CorruptionError
from pyspark_commitlog.storage.format import v2
from tests.support.logs.building import NOW_MS, end_transaction, records, write_transactional
from tests.support.logs.directories import directory_with_internal_topics

SEGMENTS = 3
ORDERS, PRICES = TopicPartition("orders", 0), TopicPartition("prices", 0)


def made(path: Path) -> Path:
    """Two topics with closed and active segments, an open transaction, and a group."""
    with LogManager.open(directory_with_internal_topics(path)) as manager:
        manager.create_topic("orders", partitions=2, configs={"retention.ms": "-1", "segment.index.bytes": "4000"})
        manager.create_topic("prices", partitions=1, configs={"cleanup.policy": "compact"})
        for number in range(2):
            log = manager.open_log("orders", number)
            for n in range(SEGMENTS):
                append(manager, number, n)
                write_transactional(log, 7, 2 * n, b"in", b"doubt")
                if n < SEGMENTS - 1:
                    end_transaction(log, 7, commit=n % 2 == 0)
                    log.roll()
        prices = manager.open_log("prices", 0)
        for n in range(4):
            prices.append(v2.encode(records([b"%d" % n], keys=[b"k%d" % (n % 2)]), v2.BatchFields()))
            prices.roll()
        GroupOffsets(manager).commit("readers", {ORDERS: CommittedOffset(4), PRICES: CommittedOffset(2)})
    return path


def append(manager: LogManager, number: int, n: int, size: int = 500) -> None:
    """A batch of four records, a part of which nothing compresses."""
    values = [b"%d" % n * size] * 4
    manager.open_log("orders", number).append(v2.encode(records(values, timestamps=NOW_MS + n), v2.BatchFields()))


def tree(path: Path) -> dict[str, bytes]:
    """The files of a directory but for locks, by their paths."""
    files = (each for each in sorted(path.rglob("*")) if each.is_file() and not each.name.startswith("."))
    return {str(each.relative_to(path)): each.read_bytes() for each in files}


def back_up(directory: Path, place: BackupPlace) -> TakenBackup:
    with LogManager.open(str(directory)) as manager, place.locked():
        return take_backup(manager, place)


def restored(place: BackupPlace, target: Path, wanted: str | int | None = None) -> dict[str, bytes]:
    """The content of a directory that is restored to ``target``."""
    restore_backup(place, find_cut(place, wanted), str(target))
    return tree(target)


def folder(path: Path) -> FolderPlace:
    return FolderPlace(str(path))


def check_flipped_bit_is_found(place: BackupPlace, path: Path, position: int, bit: int, target: Path) -> None:
    """Changes one bit of a backup's file: the check names the file, and so does a restore, which makes nothing."""
    data = path.read_bytes()
    flipped = bytearray(data)
    flipped[position] ^= 1 << bit
    path.write_bytes(flipped)
    (problem,) = verify_backup(place)
    assert str(path) in problem.what
    with pytest.raises(CorruptionError) as caught:
        restore_backup(place, find_cut(place), str(target))
    assert str(path) in str(caught.value)
    assert not target.exists()
    path.write_bytes(data)
