"""Backups at random moments under load, each restored and compared by hash with what the log was at that moment.

A case is a directory with writers (plain, idempotent, transactional), compaction, retention, and one that creates,
fills and deletes topics and commits offsets of a group, all in processes of their own. Backups are taken in between, in
a place that is encrypted in every second case; at times a process that takes one is killed. What the log was is known
from the files that the cut has put aside, which are hashed before anything is stored.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
from collections.abc import Callable
from multiprocessing.synchronize import Event
from pathlib import Path
from random import Random
from unittest import mock

from pyspark_commitlog.storage import CommittedOffset, GroupOffsets, LogManager, TopicPartition
from pyspark_commitlog.storage.backup import taking
from pyspark_commitlog.storage.backup.checking import verify_backup
from pyspark_commitlog.storage.backup.cuts import CutName, find_cut, list_cuts
from pyspark_commitlog.storage.backup.encryption import BackupKey, unlock_backup
from pyspark_commitlog.storage.backup.keeping import KeepRule, prune_backup
from pyspark_commitlog.storage.backup.places import BackupPlace, FolderPlace
from pyspark_commitlog.storage.backup.restoring import restore_backup
from pyspark_commitlog.storage.backup.taking import take_backup
from pyspark_commitlog.storage.directory.admin import delete_topic
from pyspark_commitlog.storage.directory.snapshots.manifest import SnapshotFile
from pyspark_commitlog.storage.directory.snapshots.taking import take_cut
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.verify.log import verify_log
from tests.support.logs.building import records
from tests.support.logs.directories import directory_with_internal_topics
from tests.torture.kills import processes
from tests.torture.kills.processes import FORK, TOPICS, WRITERS, Worker
from tests.torture.suite import Case, Run, Suite, quiet

CUTS = 10  # of a case
PASSING = "passing"
Hashes = dict[str, str]  # SHA-256 of each file, by its path


def pass_by(directory: str, stop: Event) -> int:
    """Topics that come and go, and a group that has always read what is there; returns how many topics were deleted."""
    deleted = 0
    with LogManager.open(directory) as manager:
        while not stop.is_set():
            name = f"{PASSING}-{deleted}"
            manager.create_topic(name, partitions=1, configs={"segment.index.bytes": "1000"})
            log = manager.open_log(name, 0)
            for n in range(3):
                log.append_records(records([b"%d" % n] * 5))
                GroupOffsets(manager).commit("readers", {TopicPartition(name, 0): CommittedOffset(log.log_end_offset)})
                log.roll()
            manager.clock.sleep_ms(30)
            delete_topic(manager, name)
            deleted += 1
    return deleted


def write_on(directory: str, writer: bytes, stop: Event, batches: int = 100) -> int:
    """Writes until it is stopped, or so many batches."""
    with LogManager.open(directory) as manager:
        logs = [manager.open_log(topic, 0) for topic in TOPICS]
        for n in range(batches):
            for log in logs:
                processes.append(log, writer, n)
            if stop.is_set():
                return n
            manager.clock.sleep_ms(20)
    return batches


def hashed_cut(manager: LogManager, folder: str, tell: Callable[[Hashes], None]) -> tuple[int, dict[str, SnapshotFile]]:
    taken_at_ms, files = take_cut(manager, folder)
    tell({path: sha256_of(Path(folder, path), each.size) for path, each in files.items()})
    return taken_at_ms, files


def sha256_of(path: Path, size: int | None = None) -> str:
    with path.open("rb") as file:
        return hashlib.sha256(file.read(-1 if size is None else size)).hexdigest()


def back_up(directory: str, place: BackupPlace) -> tuple[str, Hashes]:
    """Takes a backup; returns its name, and what it must bring back."""
    told: list[Hashes] = []
    with (
        mock.patch.object(taking, "take_cut", lambda manager, folder: hashed_cut(manager, folder, told.append)),
        LogManager.open(directory) as manager,
        place.locked(),
    ):
        return take_backup(manager, place).cut.name, told[0]


def killed(directory: str, place: BackupPlace, chance: Random, earlier: list[CutName]) -> bool:
    """Takes a backup in a process that is killed; returns whether that was before the end."""
    process = FORK.Process(target=back_up, args=(directory, place))
    process.start()
    assert process.pid is not None
    process.join(chance.random() * 0.4)
    os.kill(process.pid, signal.SIGKILL) if process.exitcode is None else None
    process.join()
    assert list_cuts(place)[: len(earlier)] == earlier, "a killed backup has taken an earlier one away"
    return len(list_cuts(place)) == len(earlier)


def check(run: Run, place: BackupPlace, name: str, wanted: Hashes) -> None:
    target = run.directory / "restored"
    restore_backup(place, find_cut(place, name), str(target))
    there = {str(path.relative_to(target)): sha256_of(path) for path in target.rglob("*") if path.is_file()}
    there.pop(".lock", None)
    assert there == wanted, {path for path in there.keys() | wanted.keys() if there.get(path) != wanted.get(path)}
    with LogManager.open(str(target)) as manager:
        for topic in manager.topics():
            if topic.startswith("__"):
                continue
            with manager.open_reader(topic, 0) as reader:
                findings = verify_log(reader.context).findings
                assert not findings, ", ".join(map(str, findings))
                committed = GroupOffsets(manager).fetch("readers").get(TopicPartition(topic, 0))
                assert committed is None or committed.offset <= reader.log_end_offset, topic
        for isolation in Isolation:
            list(processes.rows_of(manager.open_reader(processes.COMPACTED, 0), 0, isolation))
    shutil.rmtree(target)
    run.passed()


def live(run: Run, case: Case) -> None:
    directory, chance = run.directory / str(case.number), case.chance
    log_dir = directory_with_internal_topics(directory / "log")
    processes.make_topics(log_dir)
    place: BackupPlace = FolderPlace(str(directory / "backup"))
    if case.number % 2:
        place = unlock_backup(place, BackupKey.derived(chance.randbytes(32)))
    stop = FORK.Event()
    workers = [Worker.start(processes.maintain, log_dir, stop), Worker.start(pass_by, log_dir, stop)]
    workers += [Worker.start(write_on, log_dir, writer, stop) for writer in WRITERS]
    taken: dict[str, Hashes] = {}
    try:
        for _ in range(CUTS):
            stop.wait(chance.random() * 0.2)
            if chance.random() < 0.2:
                run.note("killed", killed(log_dir, place, chance, list_cuts(place)))
            name, taken[name] = back_up(log_dir, place)
    finally:
        stop.set()
    for worker in workers:
        worker.end()
    finish(run, chance, place, taken)
    shutil.rmtree(directory)


def finish(run: Run, chance: Random, place: BackupPlace, taken: dict[str, Hashes]) -> None:
    assert not [*verify_backup(place)]
    for name, wanted in taken.items():
        check(run, place, name, wanted)
    prune_backup(place, KeepRule.parse(f"last={chance.randint(1, 4)}"))
    assert not [*verify_backup(place)]
    newest = list_cuts(place)[-1].name
    if newest in taken:
        check(run, place, newest, taken[newest])


def run(run: Run) -> None:
    with quiet():
        processes.load_kernels(str(run.directory / "first"))
        for case in run.cases():
            with run.watching(case):
                live(run, case)


SUITE = Suite("cuts", 200, run)
