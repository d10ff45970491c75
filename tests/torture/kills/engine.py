"""Processes that write a log directory and are killed: at random, or right before a change of the disk drawn by chance.

Each child appends to a topic, to a compacted one and in transactions, rolls, compacts, retains and takes snapshots, and
tells what was acknowledged; SIGKILL ends it wherever it is. The parent then looks at what is there, and the next child
goes on with the same directory. Nothing acknowledged may be missing, nothing there twice, and nobody helps.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.tables import Bytes
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.retention.apply import retain
from pyspark_commitlog.storage.writing.log import Log
from tests.support.disk.faulty_filesystem import FaultyFileSystem, OperationName, Rule
from tests.support.logs.building import records
from tests.support.logs.transactions import PARTITIONS, TOPIC, Query, content, expected
from tests.torture.suite import Case, Run, Suite, quiet

KILLS_A_DIRECTORY = 40  # then a fresh one: checking stays quick
CHANGES_MAX = 150  # of the disk, until a child that is killed at one of them is
LIFE_S = 0.06  # a child that is killed at random lives so long at most, behind its start
CHANGES: set[OperationName] = {
    *("make_directory", "rename", "link", "remove", "set_modified", "sync_directory", "write", "truncate", "sync")
}
PRODUCER_ID = 7
KEYS = 7
PLAIN, COMPACTED = "plain", "compacted"
SMALL = {"segment.bytes": "1500", "segment.index.bytes": "600", "index.interval.bytes": "100"}
TOPICS = {
    PLAIN: {**SMALL, "retention.bytes": "6000", "file.delete.delay.ms": "0"},
    COMPACTED: {**SMALL, "cleanup.policy": "compact", "file.delete.delay.ms": "0"},
    TOPIC: {**SMALL, "segment.bytes": "3000"},
    "__consumer_offsets": {**SMALL, "cleanup.policy": "compact"},
    "__transaction_state": {**SMALL, "cleanup.policy": "compact"},
}


@dataclass
class Acknowledged:
    """What the children of a directory were told is done."""

    ends: dict[str, int] = field(default_factory=lambda: {PLAIN: 0, COMPACTED: 0})  # by topic, the log end
    batches: int = 0  # transactions


class DyingFileSystem(FaultyFileSystem):
    """Kills its process right before the n-th change of the disk."""

    def __init__(self, changes_left: int) -> None:
        super().__init__(LocalFileSystem())
        self._changes_left = changes_left

    def meet(self, operation: OperationName, *paths: str) -> Rule | None:
        if operation in CHANGES:
            self._changes_left -= 1
            if not self._changes_left:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().meet(operation, *paths)


class Child:
    """Writes until it is killed; ``tell`` says what is acknowledged."""

    def __init__(self, directory: str, chance: Random, changes_left: int, tell: Callable[[str], None]) -> None:
        filesystem = DyingFileSystem(changes_left)
        managers = [LogManager.open(directory, filesystem=filesystem) for _ in range(3)]
        self.manager, *rest = managers
        self.query = Query(filesystem, rest[0], rest[1])
        self.chance = chance
        self.tell = tell

    def run(self) -> None:
        self.query.start()
        for topic in (PLAIN, COMPACTED):
            self._send_again(self.manager.open_log(topic, 0))
        self.tell("started 0")
        steps = [*[self.append] * 6, self.roll, self.compact, self.retain, self.snapshot, self.transact, self.transact]
        while True:
            self.chance.choice(steps)()

    def _send_again(self, log: Log) -> None:
        """As a producer that was not answered."""
        if log.log_end_offset > log.log_start_offset:
            assert log.append(_numbered(log.log_end_offset - 1)).duplicate

    def append(self) -> None:
        for topic in (PLAIN, COMPACTED):
            log = self.manager.open_log(topic, 0)
            log.append(_numbered(log.log_end_offset))
            self.tell(f"{topic} {log.log_end_offset}")

    def roll(self) -> None:
        self.manager.open_log(self.chance.choice((PLAIN, COMPACTED)), 0).roll()

    def compact(self) -> None:
        Cleaner().clean(self.manager.open_log(COMPACTED, 0), None, self.manager.clock.now_ms())

    def retain(self) -> None:
        retain(self.manager.open_log(PLAIN, 0))

    def snapshot(self) -> None:
        log = self.manager.open_log(self.chance.choice((PLAIN, COMPACTED)), 0)
        log.write_snapshot()
        log.checkpoint()

    def transact(self) -> None:
        batch = self.query.done()
        if self.chance.randrange(5):
            self.query.run_batch(batch)
            self.tell(f"transactions {batch + 1}")
        else:
            self.query.abort_batch(batch)


def _numbered(n: int) -> Bytes:
    """The record of an offset: its number, under one of a few keys, as one idempotent producer sends it."""
    fields = v2.BatchFields(producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=n)
    columns = records([b"%d" % n + b"." * (n % 50)], keys=[b"%d" % (n % KEYS)], timestamps=int(time.time() * 1000))
    return v2.encode(columns, fields)


def run(run: Run) -> None:
    with quiet():  # of every cut
        for case in run.cases():
            with run.watching(case):
                _life(run, case)


def _life(run: Run, case: Case) -> None:
    """One directory, and many who write it and are killed."""
    path = run.directory / str(case.number)
    with LogManager.open(str(path), create=True) as manager:
        for topic, configs in TOPICS.items():
            manager.create_topic(topic, partitions=2 if topic == TOPIC else 1, configs=configs)
    acknowledged = Acknowledged()
    for _ in range(KILLS_A_DIRECTORY):
        _kill_one(run, str(path), case.chance, acknowledged)
        check(str(path), acknowledged)
        run.passed()
        if run.enough:
            break
    shutil.rmtree(path)


def _kill_one(run: Run, directory: str, chance: Random, acknowledged: Acknowledged) -> None:
    """Start a child, kill it, and note what it told."""
    at_a_change = bool(chance.randrange(2))
    changes_left, life_s = chance.randint(1, CHANGES_MAX) if at_a_change else 0, chance.random() * LIFE_S
    seed = chance.random()
    told, telling = os.pipe()
    child = os.fork()
    if not child:
        _be_a_child(directory, Random(seed), changes_left, telling)
    os.close(telling)
    with os.fdopen(told, "rb") as lines:
        told_so_far = [] if at_a_change else [lines.readline()]  # b"" where it died
        if not at_a_change:
            time.sleep(life_s)
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        lines_told = [*told_so_far, *lines.readlines()]
    run.note("at a change" if at_a_change else "at random")
    failures = [line.decode() for line in lines_told if line.startswith(b"!")]
    assert not failures, "\n".join(failures)
    assert os.WIFSIGNALED(status), f"a child ended by itself: {status}"
    for name, number in (line.split() for line in lines_told if line):
        _note(acknowledged, name.decode(), int(number))


def _note(acknowledged: Acknowledged, name: str, number: int) -> None:
    if name == "transactions":
        acknowledged.batches = max(acknowledged.batches, number)
    elif name in acknowledged.ends:
        acknowledged.ends[name] = max(acknowledged.ends[name], number)


def _be_a_child(directory: str, chance: Random, changes_left: int, telling: int) -> None:
    def tell(text: str) -> None:
        os.write(telling, f"{text}\n".encode())

    try:
        Child(directory, chance, changes_left, tell).run()
    except BaseException:
        tell("! " + traceback.format_exc().replace("\n", " | "))
    finally:
        os._exit(1)


def check(directory: str, acknowledged: Acknowledged) -> None:
    """What was acknowledged is there, once and in order, before anybody brought the directory into order and after."""
    with LogManager.open(directory) as manager:
        for opened in (manager.open_reader, manager.open_log):
            for topic in (PLAIN, COMPACTED):
                log = opened(topic, 0)
                assert log.log_end_offset >= acknowledged.ends[topic]
                check_numbers(log, topic)
        for partition in (0, 1):
            seen = content(manager, partition)
            assert seen in [expected(partition, range(acknowledged.batches + more)) for more in (0, 1)]
        query = Query(LocalFileSystem(), manager, manager).start()
        assert query.done() >= acknowledged.batches
        for topic, partition in PARTITIONS:
            assert content(manager, partition) == expected(partition, range(query.done()))
            log = manager.open_log(topic, partition)
            assert log.last_stable_offset == log.log_end_offset
        acknowledged.batches = query.done()  # more where a child was killed before it could tell
        query.coordinator.close()


def check_numbers(log: LogReader, topic: str) -> None:
    """Each record is at the offset of its number; of the compacted topic the newest of each key is there."""
    found = [
        (offset, int((value or b"").partition(b".")[0]))
        for part in log.records(log.log_start_offset, log.log_end_offset)
        if part.values is not None
        for offset, value in zip(part.offsets.tolist(), part.values.to_list(), strict=True)
    ]
    assert all(offset == number for offset, number in found)
    offsets = [offset for offset, _ in found]
    if topic == PLAIN:
        assert offsets == list(range(log.log_start_offset, log.log_end_offset))
    else:
        assert offsets == sorted(set(offsets))
        assert set(offsets) >= set(range(max(0, log.log_end_offset - KEYS), log.log_end_offset))


SUITE = Suite("kills", 10_000, run)
