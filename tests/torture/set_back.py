"""Files that are lost, torn or set back under a streaming query: every row once, or an error that says why.

A case is a history of one query, its checkpoint and its log, on a disk in memory and without Spark (``inline_query``):
files come, the query runs, its process is killed, the power goes; copies are made of the log, of the checkpoint, of
both, and one of them is put back, whole or a partition or a file of it; side files are lost or torn; a partition comes
from another log; the log is moved. Changes come between runs and in the middle of one.

After each run that ended well, and gave the sink a batch, the topic must hold each row of the input once. One that
failed must have had a reason: it ends the case, and nothing may be in the topic twice.

Exempt is what nothing can tell: the log is put back in the very moment in which the checkpoint's note of it is lost
too, and the process that remembers. Such a case ends there, and is counted.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import cast

from pyspark_commitlog.storage import LogManager, LogStoreError
from tests.pipeline.inline_query import BeforeBatch, InlineQuery, SparkError, put_right, rows_of
from tests.pipeline.inline_spark import PARTITIONS, TOPIC
from tests.support.disk_model import Unsynced
from tests.support.log_directories import memory_disk_with_topics
from tests.support.memory_filesystem import MemoryFileSystem, PowerCut
from tests.support.trees import copy_file, copy_tree, is_directory
from tests.torture.suite import Run, Suite

STEPS = 12  # of a history, at most
CHANGES_MAX = 400  # of the disk, until a power cut: some micro-batches
ELSEWHERE = 1000  # the first file of another log
INTERNAL = ("__consumer_offsets-0", "__transaction_state-0")
SIDECARS = (".index", ".timeindex", ".snapshot", ".txnindex", "leader-epoch-checkpoint", "partition.metadata")


@dataclass(frozen=True)
class Copied:
    """Copies made at one moment, while nobody wrote."""

    path: str
    log: bool
    checkpoint: bool


class ExemptError(Exception):
    """Nothing that is left can tell what was done."""


class History(list[str]):
    """The steps so far; told in full, since a case is short."""

    def __str__(self) -> str:
        return "; ".join(self)


class World:
    """One query and what befalls it."""

    def __init__(self, chance: Random, steps: History) -> None:
        self.chance = chance
        self.steps = steps
        self.disk = memory_disk_with_topics("/log", TOPIC, PARTITIONS).copy()
        self.log_dir = "/log"
        self.query = InlineQuery(self.disk)
        self.files = 0
        self.copies: list[Copied] = []
        self.reasons: list[str] = []  # for which the query may be refused
        self.forgotten = False  # the checkpoint's note is lost, and no batch came since

    def live(self) -> str:
        """How it ended."""
        self.run()
        for _ in range(self.chance.randint(3, STEPS)):
            try:
                self.chance.choices(*zip(*self.step_weights(), strict=True))[0]()
            except (LogStoreError, SparkError) as error:
                self.check_refused(error)
                return "refused"
            except ExemptError:
                return "exempt"
        return "changed" if self.reasons else "sound"

    def step_weights(self) -> list[tuple[Callable[[], None], int]]:
        return [
            (self.run, 6),
            (self.run_with_changes, 3),
            (self.kill, 2),
            (self.cut_power, 4),
            (self.copy, 4),
            (self.change, 4),
            (self.move, 1),
        ]

    # Runs

    def run(self) -> None:
        """Some new files, or none; to the end."""
        self.files += self.chance.choice((0, 1, 1, 2, 3))
        self.steps.append(f"run to file {self.files}")
        self.run_and_check()

    def run_with_changes(self) -> None:
        """Something changes while the query is between two batches."""
        self.files += self.chance.randint(1, 3)
        batch_offset = self.chance.randint(0, 2)
        seen: list[int] = []

        def before_batch(batch: int) -> None:
            seen.append(batch)
            if len(seen) == batch_offset + 1:
                self.change()

        self.steps.append(f"run to file {self.files} with a change before its batch {batch_offset}")
        self.run_and_check(before_batch)

    def kill(self) -> None:
        """The process, between two runs."""
        self.steps.append("kill")
        self.restart(self.disk.copy())

    def cut_power(self) -> None:
        """Or kill the process, in the middle of a run, which goes on afterwards."""
        self.files += self.chance.randint(1, 3)
        unsynced = self.chance.choice(("lost", "kept", "chance", "killed"))
        self.steps.append(f"run to file {self.files}, cut: {unsynced}")
        self.disk.cut_power_at(self.chance.randint(1, CHANGES_MAX))
        with suppress(PowerCut):
            self.query.run(range(self.files), per_batch=self.chance.randint(1, 2))
        self.restart(
            self.disk.copy()
            if unsynced == "killed"
            else self.disk.crash(self.chance.randrange(1 << 30), unsynced=cast("Unsynced", unsynced))
        )
        put_right(self.query)
        self.run_and_check()

    def restart(self, disk: MemoryFileSystem) -> None:
        self.disk = disk
        self.query = InlineQuery(disk, log_dir=self.log_dir)

    # What is copied, lost, torn, put back

    def copy(self) -> None:
        log, checkpoint = self.chance.choice(((True, False), (False, True), (True, True), (True, True)))
        copied = Copied(f"/copies/{len(self.copies)}", log, checkpoint)
        self.steps.append(f"copy {'log ' * log}{'checkpoint ' * checkpoint}to {copied.path}")
        if log:
            copy_tree(self.disk, self.log_dir, f"{copied.path}/log")
        if checkpoint:
            copy_tree_with_hidden(self.disk, "/cp", f"{copied.path}/cp")
        self.copies.append(copied)

    def change(self) -> None:
        self.chance.choice(
            (self.put_back, self.put_back_part, self.spoil_side_file, self.spoil_note, self.come_from_elsewhere)
        )()

    def put_back(self) -> None:
        """The log, the checkpoint, or both of one moment."""
        if not self.copies:
            return
        copied = self.chance.choice(self.copies)
        self.steps.append(f"put back {copied.path}")
        if copied.log and self.forgotten:
            raise ExemptError
        if copied.log:
            copy_tree(self.disk, f"{copied.path}/log", self.log_dir)
        if copied.checkpoint:
            copy_tree_with_hidden(self.disk, f"{copied.path}/cp", "/cp")
        if not (copied.log and copied.checkpoint):
            self.reasons.append("one of the two was put back")
        # A process that lives on remembers what the log had.
        self.reasons.append("put back under a process") if self.query.driver.kept else None

    def put_back_part(self) -> None:
        """One partition's directory of an older log, with or without the files at the root."""
        with_log = [copied for copied in self.copies if copied.log]
        if not with_log:
            return
        copied = self.chance.choice(with_log)
        partition = self.chance.choice((*(f"{TOPIC}-{n}" for n in range(PARTITIONS)), *INTERNAL))
        with_root = bool(self.chance.randrange(2))
        self.steps.append(f"put back {partition}{' and the root' * with_root} of {copied.path}")
        copy_tree(self.disk, f"{copied.path}/log/{partition}", f"{self.log_dir}/{partition}")
        if with_root:
            for name in self.root_files(f"{copied.path}/log"):
                copy_file(self.disk, f"{copied.path}/log/{name}", f"{self.log_dir}/{name}")
        self.reasons.append(f"{partition} was put back")

    def spoil_side_file(self) -> None:
        """One that says what the partitions say as well."""
        paths = [f"{self.log_dir}/{name}" for name in self.root_files(self.log_dir)]
        for name in self.disk.list(self.log_dir):
            if is_directory(self.disk, f"{self.log_dir}/{name}"):
                inside = self.disk.list(f"{self.log_dir}/{name}")
                paths += [f"{self.log_dir}/{name}/{file}" for file in inside if file.endswith(SIDECARS)]
        path = self.chance.choice(paths)
        if path.endswith("/topics.json"):
            self.reasons.append("the settings of topics are nowhere else")
        self.spoil(path)

    def spoil_note(self) -> None:
        """Of the checkpoint: a log of which nothing is remembered is believed."""
        if is_directory(self.disk, "/cp/commitlog"):
            for name in self.disk.list("/cp/commitlog"):
                self.spoil(f"/cp/commitlog/{name}")
                self.reasons.append("a note was spoilt")
                self.forgotten = True

    def spoil(self, path: str) -> None:
        way = self.chance.choice(("lose", "tear", "empty", "set back"))
        self.steps.append(f"{way} {path}")
        older = path.replace(self.log_dir, f"{self.chance.choice(self.copies).path}/log", 1) if self.copies else path
        if way == "lose":
            self.disk.remove(path)
        elif way == "set back" and self.disk.status(older) is not None:
            copy_file(self.disk, older, path)
        elif way != "set back":
            with self.disk.open(path, "write") as file:
                file.truncate(0 if way == "empty" else self.chance.randint(0, file.size()))

    def root_files(self, directory: str) -> list[str]:
        names = self.disk.list(directory)
        return [n for n in names if not n.startswith(".") and not is_directory(self.disk, f"{directory}/{n}")]

    def come_from_elsewhere(self) -> None:
        """A partition's directory of another log, whose producer ids and offsets are the same, in place of ours."""
        with LogManager.open("/other", create=True, filesystem=self.disk) as manager:
            if TOPIC not in manager.topics():
                manager.create_topic(TOPIC, partitions=PARTITIONS)
        other = InlineQuery(self.disk, log_dir="/other", checkpoint="/other-cp")
        other.run(range(ELSEWHERE, ELSEWHERE + self.files + 2))
        partition = f"{TOPIC}-{self.chance.randrange(PARTITIONS)}"
        self.steps.append(f"put {partition} of another log")
        copy_tree(self.disk, f"/other/{partition}", f"{self.log_dir}/{partition}")
        self.reasons.append(f"{partition} comes from elsewhere")

    def move(self) -> None:
        self.steps.append("move")
        target = f"/log{len(self.steps)}"
        self.disk.rename(self.log_dir, target)
        self.disk.sync_directory("/")
        self.log_dir = target
        self.restart(self.disk.copy())

    # What must hold

    def run_and_check(self, before_batch: BeforeBatch = lambda _: None) -> None:
        """What comes from another log may be there beside the query's rows, where it had none in that partition yet."""
        before = self.query.batches
        self.query.run(range(self.files), per_batch=self.chance.randint(1, 2), before_batch=before_batch)
        if self.query.batches == before:
            return
        self.forgotten = False
        found = [row for row in self.query.driver.content() if int(row.partition("-")[0]) < ELSEWHERE]
        expected = rows_of(range(self.files))
        assert found == expected, f"the run ended well: {difference(found, expected)}"

    def check_refused(self, error: LogStoreError | SparkError) -> None:
        assert self.reasons, f"refused without a reason: {error!r}"
        self.steps.append(f"refused: {error}")
        with suppress(LogStoreError):
            twice = [
                row
                for row, count in Counter(InlineQuery(self.disk, log_dir=self.log_dir).driver.content()).items()
                if count > 1
            ]
            assert not twice, f"refused, and twice there: {twice}"


def copy_tree_with_hidden(disk: MemoryFileSystem, source: str, target: str) -> None:
    """A checkpoint: Hadoop's checksums are hidden files."""
    copy_tree(disk, source, target)


def difference(found: list[str], expected: list[str]) -> str:
    missing, surplus = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    return f"{len(missing)} rows missing, {len(surplus)} too many: {[*missing][:3]}, {[*surplus][:3]}"


def run(run: Run) -> None:
    logging.disable(logging.WARNING)  # of every cut
    try:
        for case in run.cases():
            steps = History()
            with run.watching(case, steps):
                run.note(World(case.chance, steps).live())
            run.passed()
    finally:
        logging.disable(logging.NOTSET)


SUITE = Suite("histories", 10_000, run)
