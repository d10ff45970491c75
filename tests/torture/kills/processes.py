"""Writers, readers, compaction and retention in processes of their own on the same topics; each history is checked.

A case is a new directory, in which all live until so much is written. A writer numbers its records, in each topic from
0 on, so that a reader sees at once which are missing, duplicated or out of order.
"""

from __future__ import annotations

import multiprocessing
import shutil
import time
import traceback
from collections.abc import Callable, Iterator
from itertools import count
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from multiprocessing.synchronize import Event
from typing import NamedTuple

from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import OffsetOutOfRangeError
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.recovery.producer_state import Producer
from pyspark_commitlog.storage.retention.apply import retain
from pyspark_commitlog.storage.verify.log import verify_log
from pyspark_commitlog.storage.writing.log import Log
from tests.support.logs.building import records
from tests.torture.suite import Case, Run, Suite, quiet

FORK = multiprocessing.get_context("fork")  # of a parent that has nothing open
BATCHES = (60, 150)  # of each writer, at least and at most: enough for segments to be replaced and deleted
ENDS_S = 300  # until all processes must have ended
RECORDS = 2  # of a batch: one whose key is its own, one whose key comes again
COUNTERS = 7
BATCHES_A_TRANSACTION = 2
ABORTED_EVERY = 3  # transactions
PLAIN, IDEMPOTENT, TRANSACTIONAL = b"plain", b"idempotent", b"transactional"
WRITERS = (PLAIN, IDEMPOTENT, TRANSACTIONAL)
BATCHES_OF_A_PROCESS = {PLAIN: 7, IDEMPOTENT: 1000, TRANSACTIONAL: 20}  # until it starts again
PRODUCERS = {IDEMPOTENT: 2**40, TRANSACTIONAL: 2**40 + 1}
COMPACTED, DELETED = "compacted", "deleted"
SMALL = {"segment.bytes": "4000", "index.interval.bytes": "300", "segment.index.bytes": "2000", "flush.messages": "50"}
TOPICS = {
    # Removed at once, so that readers meet files that are gone.
    COMPACTED: {**SMALL, "cleanup.policy": "compact", "file.delete.delay.ms": "0"},
    DELETED: {**SMALL, "retention.bytes": "8000", "file.delete.delay.ms": "0"},
}


class Row(NamedTuple):
    offset: int
    writer: bytes
    is_own: bool  # its key occurs once
    batch: int

    @property
    def number(self) -> int:
        """Among all records of its writer."""
        return RECORDS * self.batch + (not self.is_own)


# Writing


def write(directory: str, writer: bytes, batches: int) -> int:
    """So many batches, whole transactions; how many there are. The logs are closed at times, while others go on."""
    for first in range(0, batches, BATCHES_OF_A_PROCESS[writer]):
        with LogManager.open(directory) as manager:
            logs = [manager.open_log(topic, 0) for topic in TOPICS]
            for n in range(first, min(first + BATCHES_OF_A_PROCESS[writer], batches)):
                for log in logs:
                    append(log, writer, n)
    return batches


def append(log: Log, writer: bytes, n: int) -> None:
    """The n-th batch of a writer; an idempotent one is sometimes sent twice."""
    keys: list[bytes | None] = [b"%s own %d" % (writer, n), b"%s counter %d" % (writer, n % COUNTERS)]
    columns = records([b"%d" % n] * RECORDS, keys=keys, timestamps=log.context.clock.now_ms())
    fields = v2.BatchFields()
    if writer in PRODUCERS:
        fields = v2.BatchFields(
            producer_id=PRODUCERS[writer],
            producer_epoch=0,
            base_sequence=RECORDS * n,
            transactional=writer == TRANSACTIONAL,
        )
    log.append_records(columns, fields)
    if writer == IDEMPOTENT and n % 5 == 0:
        assert log.append_records(columns, fields).duplicate
    if writer == TRANSACTIONAL and (n + 1) % BATCHES_A_TRANSACTION == 0:
        log.end_transaction(Producer(PRODUCERS[writer], 0), commit=is_committed(n))
        log.sync()


def is_committed(batch: int) -> bool:
    """Whether a transactional batch is."""
    return bool((batch // BATCHES_A_TRANSACTION) % ABORTED_EVERY)


# Maintenance


def maintain(directory: str, stop: Event) -> int:
    """Round after round; how many segments were replaced or deleted."""
    gone = 0
    with LogManager.open(directory) as manager:
        compacted, deleted = (manager.open_log(topic, 0) for topic in TOPICS)
        while not stop.is_set():
            result = Cleaner().clean(compacted, None, manager.clock.now_ms())
            gone += result.segments_before + len(retain(deleted).plan.removed)
            manager.clock.sleep_ms(10)  # who asks for a lock again at once may starve the others
    return gone


# Reading


def rows_of(reader: LogReader, start: int, isolation: Isolation) -> Iterator[Row]:
    for part in reader.records(start, reader.log_end_offset, isolation=isolation, fetch_bytes=4000):
        assert part.keys is not None
        assert part.values is not None
        columns = zip(part.offsets.tolist(), part.keys.to_list(), part.values.to_list(), strict=True)
        for offset, key, value in columns:
            writer, kind, _ = (key or b"").split()
            yield Row(offset, writer, kind == b"own", int(value or b""))


def expected(writer: bytes, isolation: Isolation, batches: int) -> list[int]:
    """The batches of a writer below a number that a reader may see."""
    is_filtered = writer == TRANSACTIONAL and isolation is Isolation.READ_COMMITTED
    return [n for n in range(batches) if not is_filtered or is_committed(n)]


class Compacted:
    """Reads the compacted topic from its beginning again and again."""

    def __init__(self, directory: str, isolation: Isolation) -> None:
        self.reader = LogManager.open(directory).open_reader(COMPACTED, 0)
        self.isolation = isolation
        self.seen = dict.fromkeys(WRITERS, 0)  # own batches at the last look
        self.newest: dict[bytes, dict[int, int]] = {}  # by writer, the batch that has each of its keys
        self._looks = 0

    def look(self) -> None:
        """Also from what was known two looks ago, whose files may be gone."""
        self._looks += 1
        if self._looks % 3 == 0:
            self.reader.refresh()
        found = [*rows_of(self.reader, 0, self.isolation)]
        offsets = [row.offset for row in found]
        assert offsets == sorted(set(offsets)), "records out of order, or twice"
        for writer in WRITERS:
            self._check(writer, [row for row in found if row.writer == writer])

    def _check(self, writer: bytes, rows: list[Row]) -> None:
        """Of the committed records; where aborted ones are shown at all, they go when they are compacted."""
        if writer == TRANSACTIONAL:
            assert self.isolation is Isolation.READ_UNCOMMITTED or all(is_committed(row.batch) for row in rows)
            rows = [row for row in rows if is_committed(row.batch)]
        own = [row.batch for row in rows if row.is_own]
        upto = own[-1] + 1 if own else 0
        committed = expected(writer, Isolation.READ_COMMITTED, upto)
        missing = sorted(set(committed) - set(own))
        assert own == committed, f"{self.isolation.value}, {writer!r}: batches {missing} of {upto} are missing"
        assert upto >= self.seen[writer], f"{writer!r}: what was seen is gone"
        self.seen[writer] = upto
        self.newest[writer] = {row.batch % COUNTERS: row.batch for row in rows if not row.is_own}


class Following:
    """Reads on where it stopped in the topic of which the beginning is deleted."""

    def __init__(self, directory: str, isolation: Isolation) -> None:
        self.reader = LogManager.open(directory).open_reader(DELETED, 0)
        self.isolation = isolation
        self.position = 0
        self.last = dict.fromkeys(WRITERS, -1)  # the number of the record last seen
        self._may_skip = dict.fromkeys(WRITERS, False)

    def look(self) -> None:
        """A log start that overtook it is told; nothing else is left out."""
        self.reader.refresh()
        try:
            for row in rows_of(self.reader, self.position, self.isolation):
                assert row.offset >= self.position, "a record twice"
                self._check(row)
                self.position = row.offset + 1
        except OffsetOutOfRangeError:
            self.reader.refresh()
            assert self.reader.log_start_offset > self.position
            self.position = self.reader.log_start_offset
            self._may_skip = dict.fromkeys(WRITERS, True)

    def _check(self, row: Row) -> None:
        """The records of a writer follow each other; where the log start overtook the reader, some may lack."""
        last, number = self.last[row.writer], row.number
        assert number > last, "a record twice, or out of order"
        assert self._shows(row.writer, row.batch), "an aborted record"
        following = next(n for n in count(last + 1) if self._shows(row.writer, n // RECORDS))
        assert number == following or self._may_skip[row.writer], "a record is missing"
        self._may_skip[row.writer] = False
        self.last[row.writer] = number

    def _shows(self, writer: bytes, batch: int) -> bool:
        return writer != TRANSACTIONAL or self.isolation is Isolation.READ_UNCOMMITTED or is_committed(batch)


def look_on(reader: Compacted | Following, stop: Event) -> int:
    """How often."""
    for looks in count(1):
        reader.look()
        if stop.is_set():
            return looks
        time.sleep(0.05)  # the writers need the machine more
    raise AssertionError


# All of them


class Worker(NamedTuple):
    """A process, and what it came to."""

    process: ForkProcess
    told: Connection

    @classmethod
    def start(cls, work: Callable[..., int], *arguments: object) -> Worker:
        told, telling = FORK.Pipe(duplex=False)
        process = FORK.Process(target=_tell, args=(telling, work, *arguments))
        process.start()
        telling.close()
        return cls(process, told)

    def end(self) -> int:
        """Its result; raises what it raised."""
        assert self.told.poll(ENDS_S), "it does not end"
        result = self.told.recv()
        self.process.join()
        assert isinstance(result, int), result
        return result


def _tell(telling: Connection, work: Callable[..., int], *arguments: object) -> None:
    result: int | None = None
    try:
        result = work(*arguments)
    finally:
        telling.send(traceback.format_exc() if result is None else result)


def _read(directory: str, kind: type[Compacted] | type[Following], isolation: Isolation, stop: Event) -> int:
    return look_on(kind(directory, isolation), stop)


def run(run: Run) -> None:
    with quiet():  # of segments that are looked for again
        load_kernels(str(run.directory / "first"))
        for case in run.cases():
            with run.watching(case):
                _life(run, case)


def make_topics(directory: str) -> None:
    with LogManager.open(directory, create=True) as manager:
        for topic, configs in TOPICS.items():
            manager.create_topic(topic, partitions=1, configs=configs)
            manager.open_log(topic, 0)


def load_kernels(directory: str) -> None:
    """Once, so that no child does."""
    make_topics(directory)
    with LogManager.open(directory) as manager:
        for topic in TOPICS:
            log = manager.open_log(topic, 0)
            for writer in WRITERS:
                append(log, writer, 0)
            log.end_transaction(Producer(PRODUCERS[TRANSACTIONAL], 0), commit=True)
            log.roll()
        Cleaner().clean(manager.open_log(COMPACTED, 0), None, manager.clock.now_ms())
    Compacted(directory, Isolation.READ_UNCOMMITTED).look()
    shutil.rmtree(directory)


def _life(run: Run, case: Case) -> None:
    directory = str(run.directory / str(case.number))
    make_topics(directory)
    stop, batches = FORK.Event(), case.chance.randrange(*BATCHES, BATCHES_A_TRANSACTION)
    others = [Worker.start(maintain, directory, stop)]
    for kind in (Compacted, Following):
        others += [Worker.start(_read, directory, kind, isolation, stop) for isolation in Isolation]
    writers = [Worker.start(write, directory, writer, batches) for writer in WRITERS]
    try:
        written = sum(writer.end() for writer in writers)
    finally:
        stop.set()
    gone, *looks = [other.end() for other in others]
    assert gone
    check(directory, batches)
    run.passed(written)
    run.note("looks of readers", sum(looks))
    run.note("segments replaced or deleted", gone)
    shutil.rmtree(directory)


def check(directory: str, batches: int) -> None:
    """At the end all that was written is there, however it is read, and all files are sound."""
    with LogManager.open(directory) as manager:
        for topic in TOPICS:
            findings = verify_log(manager.open_reader(topic, 0).context).findings
            assert not findings, ", ".join(map(str, findings))
    for isolation in Isolation:
        compacted, following = Compacted(directory, isolation), Following(directory, isolation)
        compacted.look()
        following.look()
        following.look()
        for writer in WRITERS:
            last = max(expected(writer, Isolation.READ_COMMITTED, batches))
            assert compacted.seen[writer] == last + 1, f"{writer!r}: {compacted.seen[writer]} of {last + 1} batches"
            newest = {n % COUNTERS: n for n in expected(writer, Isolation.READ_COMMITTED, batches)}
            assert compacted.newest[writer] == newest, f"{writer!r}: {compacted.newest[writer]} are not the newest"
            last = max(expected(writer, isolation, batches))
            is_deleted = following.last[writer] < 0  # all of it: the others wrote on
            assert is_deleted or following.last[writer] == RECORDS * (last + 1) - 1, (
                f"{writer!r}: {following.last[writer]}"
            )


SUITE = Suite("batches", 100_000, run)
