"""Files that are lost, torn or set back under a streaming query: every row once, or an error that says why.

A case is a history of one query, its checkpoint and its log, on a disk in memory and without Spark (``inline_query``):
files come, the query runs, its process is killed, the power goes; copies are made of the log, of the checkpoint, of
both, and one of them is put back, whole or a partition or a file of it; side files are lost or torn; a partition comes
from another log; the log is moved. Changes come between runs and in the middle of one.

After each run that ended well, and gave the sink a batch, the topic must hold each row of the input once. One that
failed must have had a reason: it ends the case, and nothing may be in the topic twice.

Exempt is what nothing can tell: the log was put back, and the checkpoint's note of it is lost, in whatever order, and
the process that remembers. Spark's own entries are the same if a function did not call the sink for the batches in
between, and deleting the note is how a user accepts an older log. Such a case ends, and is counted, if a run ends well
and only rows that the log lost that way are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol, cast

from pyspark_commitlog.storage import (
    COORDINATOR_TOPICS,
    FileSystem,
    IdempotentProducer,
    LogManager,
    LogStoreError,
    Records,
)
from tests.pipeline.inline_query import BeforeBatch, InlineQuery, SparkError, put_right, rows_of
from tests.pipeline.inline_spark import PARTITIONS, TOPIC
from tests.support.disk.memory_filesystem import MemoryFileSystem, PowerCut
from tests.support.disk.trees import copy_file, copy_tree, is_directory
from tests.torture.suite import Run, Suite, quiet

CHANGES_MAX = 400  # of the disk, until a power cut: some micro-batches
ELSEWHERE = 1000  # the first file of another log
OTHERS = "other"  # begins the rows that are not the query's
REFUSALS = (LogStoreError, SparkError)
SIDECARS = (".index", ".timeindex", ".snapshot", ".txnindex", "leader-epoch-checkpoint", "partition.metadata")


@dataclass(frozen=True)
class Copied:
    """Copies made at one moment, while nobody wrote."""

    path: str
    log: bool
    checkpoint: bool


class Query(Protocol):
    """As ``InlineQuery``."""

    batches: int

    def run(self, files: Sequence[int], *, per_batch: int = 1, before_batch: BeforeBatch = lambda _: None) -> None: ...

    def content(self) -> list[str]: ...


class ExemptError(Exception):
    """Nothing that is left can tell what was done."""


class History(list[str]):
    """The steps so far; told in full, since a case is short."""

    def __str__(self) -> str:
        return "; ".join(self)


class World:
    """One query and what befalls it."""

    root = ""  # above all paths
    steps_max = 12

    def __init__(self, chance: Random, steps: History) -> None:
        self.chance = chance
        self.steps = steps
        self.disk: Any = self.make_disk()
        self.log_dir = f"{self.root}/log"
        self.checkpoint = f"{self.root}/cp"
        with LogManager.open(self.log_dir, create=True, filesystem=self.disk) as manager:
            make_topics(manager, internal_partitions=chance.choice((1, 1, 3)))
        self.query = self.start()
        self.files = 0
        self.produced: list[str] = []  # rows that others wrote into the topic
        self.copies: list[Copied] = []
        self.reasons: list[str] = []  # for which the query may be refused
        self.lost = Counter[str]()  # the query's rows that the log had before it alone was put back
        self.untold = Counter[str]()  # those of which nothing told when a batch came
        self.is_running = False  # the query, whose process remembers what it wrote

    def make_disk(self) -> FileSystem:
        return MemoryFileSystem()

    def start(self, checkpoint: str | None = None) -> Query:
        """The query in a new process."""
        return InlineQuery(self.disk, log_dir=self.log_dir, checkpoint=checkpoint or self.checkpoint)

    def live(self) -> str:
        """How it ended."""
        self.run()
        for _ in range(self.chance.randint(3, self.steps_max)):
            try:
                self.chance.choices(*zip(*self.step_weights(), strict=True))[0]()
            except REFUSALS as error:
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
            (self.crash, 4),
            (self.copy, 5),
            (self.change, 4),
            (self.produce, 1),
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
                self.is_running = True
                self.change()
                self.is_running = False
                self.untold |= self.lost_untold(remembers=batch_offset > 0)

        self.steps.append(f"run to file {self.files} with a change before its batch {batch_offset}")
        self.run_and_check(before_batch)

    def kill(self) -> None:
        """The process, between two runs."""
        self.steps.append("kill")
        self.restart()

    def crash(self) -> None:
        """The power goes, or the process is killed, in the middle of a run, which goes on afterwards."""
        self.files += self.chance.randint(1, 3)
        unsynced = self.chance.choice(("lost", "kept", "chance", "killed"))
        self.steps.append(f"run to file {self.files}, cut: {unsynced}")
        self.disk.cut_power_at(self.chance.randint(1, CHANGES_MAX))
        with suppress(PowerCut):
            self.query.run(range(self.files), per_batch=self.chance.randint(1, 2))
        if unsynced != "killed":
            self.disk = self.disk.crash(self.chance.randrange(1 << 30), unsynced=unsynced)
        self.restart()
        put_right(cast("InlineQuery", self.query))
        self.run_and_check()

    def restart(self) -> None:
        """Nothing of the process before is left, its locks neither."""
        self.disk = self.disk.copy()
        self.query = self.start()

    def produce(self) -> None:
        """Another program appends to the topic, and is answered."""
        values = [f"{OTHERS}-{len(self.steps)}-{n}" for n in range(self.chance.randint(1, 3))]
        partition = self.chance.randrange(PARTITIONS)
        self.steps.append(f"produce to partition {partition}")
        with LogManager.open(self.log_dir, filesystem=self.disk) as manager:
            records = Records.to_append([None] * len(values), [value.encode() for value in values], 1)
            IdempotentProducer(manager).append(TOPIC, partition, records)
        self.produced += values

    # What is copied, lost, torn, put back

    def copy(self) -> None:
        log, checkpoint = self.chance.choice(((True, False), (False, True), (True, True), (True, True)))
        copied = Copied(f"{self.root}/copies/{len(self.copies)}", log, checkpoint)
        self.steps.append(f"copy {'log ' * log}{'checkpoint ' * checkpoint}to {copied.path}")
        if log:
            copy_tree(self.disk, self.log_dir, f"{copied.path}/log")
        if checkpoint:
            copy_tree(self.disk, self.checkpoint, f"{copied.path}/cp", hidden=True)
        self.copies.append(copied)

    def change(self) -> None:
        changes = (self.spoil_side_file, self.spoil_note, self.fork, self.come_from_elsewhere, self.produce)
        back = (self.put_back, self.put_back_part) if self.copies else ()
        self.chance.choice((*changes, *back))()

    def put_back(self) -> None:
        """The log, the checkpoint, or both of one moment."""
        copied = self.chance.choice(self.copies)
        self.steps.append(f"put back {copied.path}")
        had = self.readable_rows()
        if copied.log:
            copy_tree(self.disk, f"{copied.path}/log", self.log_dir)
            self.produced.clear()
            self.lost = (self.lost | had) - self.readable_rows()
        if copied.checkpoint:
            copy_tree(self.disk, f"{copied.path}/cp", self.checkpoint, hidden=True)
        if copied.log and copied.checkpoint and not self.is_running:
            self.lost.clear()  # they are planned again
        else:
            self.reasons.append("one of the two was put back, or both under a process that remembers")

    def put_back_part(self) -> None:
        """One partition's directory of an older log, with or without the files at the root."""
        with_log = [copied for copied in self.copies if copied.log]
        if not with_log:
            return
        copied = self.chance.choice(with_log)
        partition = self.chance.choice(self.partitions(f"{copied.path}/log"))
        with_root = bool(self.chance.randrange(2))
        self.steps.append(f"put back {partition}{' and the root' * with_root} of {copied.path}")
        copy_tree(self.disk, f"{copied.path}/log/{partition}", f"{self.log_dir}/{partition}")
        if with_root:
            for name in self.root_files(f"{copied.path}/log"):
                copy_file(self.disk, f"{copied.path}/log/{name}", f"{self.log_dir}/{name}")
        self.produced.clear()
        self.reasons.append(f"{partition} was put back")

    def spoil_side_file(self) -> None:
        """One that says what the partitions say as well."""
        paths = [f"{self.log_dir}/{name}" for name in self.root_files(self.log_dir)]
        for name in self.partitions(self.log_dir):
            inside = self.disk.list(f"{self.log_dir}/{name}")
            paths += [f"{self.log_dir}/{name}/{file}" for file in inside if file.endswith(SIDECARS)]
        path = self.chance.choice(paths)
        if path.endswith("/topics.json"):
            self.reasons.append("the settings of topics are nowhere else")
        if path.endswith("/partition.metadata"):
            self.reasons.append("a partition does not say which topic it is of")
        self.spoil(path)
        if self.disk.status(path) is None and any("comes from elsewhere" in each for each in self.reasons):
            raise ExemptError  # it may have been the only file to say so

    def spoil_note(self) -> None:
        """Of the checkpoint: a log of which nothing is remembered is believed."""
        folder = f"{self.checkpoint}/commitlog"
        if is_directory(self.disk, folder):
            for name in self.disk.list(folder):
                self.spoil(f"{folder}/{name}")
                self.reasons.append("a note was spoilt")

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

    def partitions(self, directory: str) -> list[str]:
        names = self.disk.list(directory)
        return [n for n in names if not n.startswith(".") and is_directory(self.disk, f"{directory}/{n}")]

    def fork(self) -> None:
        """A copy of the checkpoint goes on by itself, on the same log, with one more file."""
        fork = f"{self.root}/forks/{len(self.steps)}"
        self.steps.append(f"fork the checkpoint to {fork}")
        copy_tree(self.disk, self.checkpoint, fork, hidden=True)
        self.files += 1
        self.run_fork(self.start(fork))

    def run_fork(self, fork: Query) -> None:
        expected = rows_of(range(self.files))
        self.untold |= self.lost_untold(remembers=False)
        try:
            fork.run(range(self.files))
            if fork.batches:
                self.check_rows(expected)
        except REFUSALS as error:
            self.check_refused(error, [*self.reasons, "while the query runs, the name is not free"])
        if fork.batches:
            self.reasons.append("a fork of the query wrote")

    def come_from_elsewhere(self) -> None:
        """A partition's directory of another log, whose producer ids and offsets are the same, in place of ours."""
        elsewhere = f"{self.root}/other"
        with LogManager.open(f"{elsewhere}/log", create=True, filesystem=self.disk) as manager:
            if TOPIC not in manager.topics():
                make_topics(manager, internal_partitions=1)
        other = InlineQuery(self.disk, log_dir=f"{elsewhere}/log", checkpoint=f"{elsewhere}/cp")
        other.run(range(ELSEWHERE, ELSEWHERE + self.files + 2))
        partition = f"{TOPIC}-{self.chance.randrange(PARTITIONS)}"
        self.steps.append(f"put {partition} of another log")
        copy_tree(self.disk, f"{elsewhere}/log/{partition}", f"{self.log_dir}/{partition}")
        self.produced.clear()
        self.reasons.append(f"{partition} comes from elsewhere")

    def move(self) -> None:
        self.steps.append("move")
        target = f"{self.root}/log{len(self.steps)}"
        self.disk.rename(self.log_dir, target)
        self.disk.sync_directory(self.root or "/")
        self.log_dir = target
        self.restart()

    # What must hold

    def run_and_check(self, before_batch: BeforeBatch = lambda _: None) -> None:
        """What comes from another log may be there beside the query's rows, where it had none in that partition yet."""
        before, expected = self.query.batches, rows_of(range(self.files))
        self.untold = self.lost_untold(remembers=False)
        self.query.run(range(self.files), per_batch=self.chance.randint(1, 2), before_batch=before_batch)
        if self.query.batches == before:
            return
        self.check_rows(expected)
        self.lost.clear()

    def check_rows(self, expected: list[str]) -> None:
        found, others = self.rows()
        missing = Counter(expected) - Counter(found)
        if missing and not missing - self.untold and not Counter(found) - Counter(expected):
            raise ExemptError
        assert found == expected, f"the run ended well: {difference(found, expected)}"
        assert not Counter(self.produced) - Counter(others), f"of others: {difference(others, self.produced)}"
        assert max(Counter(others).values(), default=1) == 1, f"of others: {difference(others, self.produced)}"

    def lost_untold(self, *, remembers: bool) -> Counter[str]:
        """The rows that the log lost, if neither the process ``remembers`` that it had them nor the checkpoint does."""
        folder = f"{self.checkpoint}/commitlog"
        if remembers or (is_directory(self.disk, folder) and self.disk.list(folder)):
            return Counter()
        return self.lost.copy()

    def readable_rows(self) -> Counter[str]:
        """The query's; none where the log is damaged."""
        with suppress(LogStoreError):
            return Counter(self.rows()[0])
        return Counter()

    def rows(self) -> tuple[list[str], list[str]]:
        """The query's, sorted, and those that others produced."""
        by_maker = [(row.partition("-")[0], row) for row in self.query.content()]
        mine = [row for maker, row in by_maker if maker != OTHERS and int(maker) < ELSEWHERE]
        return sorted(mine), [row for maker, row in by_maker if maker == OTHERS]

    def check_refused(self, error: Exception, reasons: Sequence[str] | None = None) -> None:
        assert reasons or self.reasons, f"refused without a reason: {error!r}"
        self.steps.append(f"refused: {error}")
        with suppress(LogStoreError):
            twice = [row for row, count in Counter(self.rows()[0]).items() if count > 1]
            assert not twice, f"refused, and twice there: {twice}"


def make_topics(manager: LogManager, internal_partitions: int) -> None:
    """Their indexes take next to no memory."""
    for name in (TOPIC, *COORDINATOR_TOPICS):
        configs = {**COORDINATOR_TOPICS.get(name, {}), "segment.index.bytes": "1000"}
        manager.create_topic(name, partitions=PARTITIONS if name == TOPIC else internal_partitions, configs=configs)


def difference(found: list[str], expected: list[str]) -> str:
    missing, surplus = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    return f"{len(missing)} rows missing, {len(surplus)} too many: {[*missing][:3]}, {[*surplus][:3]}"


def run(run: Run) -> None:
    with quiet():  # of every cut
        for case in run.cases():
            steps = History()
            with run.watching(case, steps):
                run.note(World(case.chance, steps).live())
            run.passed()


SUITE = Suite("histories", 10_000, run)
