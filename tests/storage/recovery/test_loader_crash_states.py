"""The power fails at every change of an operation: the log opens again by itself, and nothing acknowledged is lost.

Every scenario runs once for each of its changes; the disk afterwards is one that the model of a disk allows, chosen by
seeds (tests/support/disk/disk_model.py). The suite tries a few; ``python -m tests.torture crash-states`` tries any
number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Self

import pytest

from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import CorruptRecordError
from pyspark_commitlog.storage.filesystem.operations import read_file
from pyspark_commitlog.storage.format.files import file_names
from pyspark_commitlog.storage.format.files.file_names import TopicPartition
from pyspark_commitlog.storage.format.files.index_entries import AbortedTxn, decode_aborted
from pyspark_commitlog.storage.groups.offsets import CommittedOffset, GroupOffsets
from pyspark_commitlog.storage.recovery.producer_state import Producer
from pyspark_commitlog.storage.writing.log import Log
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.disk.power_cuts import Effort
from tests.support.logs.building import batch, committed, end_transaction, rows, write_transactional

Rows = list[tuple[int, bytes | None]]
PRODUCER = 7


QUICK = Effort(every=4, seeds=1)


@dataclass
class Story:
    """What happens to one log, and what it may therefore hold after a power cut."""

    disk: MemoryFileSystem
    settings: dict[str, str]
    content: Rows = field(default_factory=list)  # acknowledged
    allowed: list[Rows] = field(default_factory=lambda: [[]])  # one of these is there after a crash
    sequence: int = 0
    batch_ends: list[int] = field(default_factory=list)  # offsets, of all batches that were not cut off

    def go_on(self, disk: MemoryFileSystem) -> Story:
        """Another process on a copy of the disk, after this one was killed; it has not opened anything yet."""
        return Story(disk, self.settings, self.content, [*self.allowed], self.sequence, [*self.batch_ends])

    def open(self) -> Self:
        self.manager = LogManager.open("/logs", create=True, clock=self.disk.clock, filesystem=self.disk)
        return self

    @property
    def log(self) -> Log:
        if "t" not in self.manager.topics():
            self.manager.create_topic("t", partitions=1, configs=self.settings)
        return self.manager.open_log("t", 0)

    def append(self, *values: bytes, is_acknowledged: bool = True) -> None:
        """One idempotent batch; ``is_acknowledged=False``: the topic's settings allow a later sync."""
        log = self.log
        written: Rows = list(enumerate(values, log.log_end_offset))
        self.allowed = [*self.allowed, self.allowed[-1] + written]
        log.append(batch(*values, producer_id=PRODUCER, base_sequence=self.sequence))
        self.sequence += len(values)
        self.batch_ends.append(log.log_end_offset)
        if is_acknowledged:
            self.acknowledged()

    def acknowledged(self) -> None:
        self.content = self.allowed[-1]
        self.allowed = [self.content]

    def sync(self) -> None:
        self.log.sync()
        self.acknowledged()

    def truncate_to(self, offset: int) -> None:
        """Removes a batch that reaches ``offset`` as a whole."""
        cut = [end for end in self.batch_ends if end > offset]
        self.batch_ends = [end for end in self.batch_ends if end <= offset]
        ends = [*reversed(cut), self.batch_ends[-1] if self.batch_ends else 0]
        self.allowed = [[row for row in self.allowed[-1] if row[0] < end] for end in ends]
        self.log.truncate_to(offset)
        self.acknowledged()
        self.sequence = self.log.next_sequence(Producer(PRODUCER, 0))

    def delete_records(self, offset: int) -> None:
        """Syncs first what was not synced before."""
        self.allowed = [*self.allowed, [row for row in self.allowed[-1] if row[0] >= offset]]
        self.log.delete_records(offset)
        self.acknowledged()


Steps = Callable[[Story], object]


def nothing(_: Story) -> None:
    pass


def some_records(story: Story) -> None:
    for n in range(3):
        story.append(b"first %d" % n, b"second %d" % n)
    story.sync()


def appending(story: Story) -> None:
    story.append(b"a" * 700, b"b" * 700)  # several blocks of the disk: a torn write leaves any of them
    story.append(b"c")


def rolling(story: Story) -> None:
    for n in range(4):
        story.append(b"%d" % n * 120)


def syncing(story: Story) -> None:
    for n in range(3):
        story.append(b"%d" % n * 300, is_acknowledged=False)
    story.sync()


def closing(story: Story) -> None:
    story.append(b"last")
    story.manager.close()


def truncating(story: Story) -> None:
    story.truncate_to(3)  # inside the second batch: it goes as a whole
    story.append(b"new")


def deleting_records(story: Story) -> None:
    story.delete_records(3)
    story.append(b"new")


@dataclass(frozen=True)
class Scenario:
    name: str
    before: Steps
    during: Steps
    settings: dict[str, str] = field(default_factory=dict)


SMALL = {"segment.bytes": "300", "index.interval.bytes": "0"}
PREALLOCATED = {"preallocate": "true", "index.interval.bytes": "0"}
LAZY = {"flush.messages": "1000000"}
SCENARIOS = [
    Scenario("creating the topic and appending to it", nothing, appending),
    Scenario("appending behind other records", some_records, appending, {"index.interval.bytes": "0"}),
    Scenario("appending into preallocated files", some_records, appending, {**PREALLOCATED, "segment.bytes": "2000"}),
    Scenario("rolling", some_records, rolling, SMALL),
    Scenario("rolling preallocated files", some_records, rolling, {**SMALL, **PREALLOCATED}),
    Scenario("syncing", some_records, syncing, {**LAZY, "index.interval.bytes": "0"}),
    Scenario("syncing over several segments", some_records, syncing, {**LAZY, "segment.bytes": "500"}),
    Scenario("closing", some_records, closing),
    Scenario("truncating", some_records, truncating),
    Scenario("truncating over several segments", some_records, truncating, SMALL),
    Scenario("deleting records", some_records, deleting_records, SMALL),
]


def fresh_disk(steps: Steps, settings: dict[str, str]) -> tuple[MemoryFileSystem, Story]:
    """A disk after some steps whose process was then killed, and the story so far."""
    disk = MemoryFileSystem()
    story = Story(disk, {"segment.index.bytes": "1000", **settings}).open()  # ten megabytes would be copied each time
    steps(story)
    return disk, story


def check_recovers(disk: MemoryFileSystem, story: Story, where: str) -> None:
    """Readers see what may be there; a writer repairs it, can continue, and finds the same again."""
    seen = read_without_writing(disk)
    assert seen is None or seen in story.allowed, where
    again = Story(disk, story.settings).open()
    found = rows(again.log)
    assert found in story.allowed, where
    info = again.log.append(batch(b"next"))
    again.log.sync()
    assert info.first_offset >= (found[-1][0] + 1 if found else 0), where
    killed = Story(disk.crash(0, unsynced="lost"), story.settings).open()
    assert rows(killed.log) == [*found, (info.first_offset, b"next")], where


def read_without_writing(disk: MemoryFileSystem) -> Rows | None:
    """What a reader sees before any writer; None if there is no topic yet, or it finds what recovery cuts off."""
    manager = LogManager.open("/logs", create=True, clock=disk.clock, filesystem=disk)
    if "t" not in manager.topics() or disk.status("/logs/t-0") is None:
        return None
    try:
        return rows(manager.open_reader("t", 0))
    except CorruptRecordError:
        return None


def check_scenario(scenario: Scenario, effort: Effort) -> None:
    start, before = fresh_disk(scenario.before, scenario.settings)
    stories: list[Story] = []

    def program(disk: MemoryFileSystem) -> None:
        stories.append(before.go_on(disk))
        stories[-1].open()
        scenario.during(stories[-1])

    for where, left in effort.cut(program, start):
        check_recovers(left, stories[-1], f"{scenario.name}: {where}")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_whatever_was_acknowledged_survives_a_power_cut(scenario: Scenario) -> None:
    check_scenario(scenario, QUICK)


def torn_tails() -> Iterator[tuple[MemoryFileSystem, Story]]:
    """Disks after a power cut, with something to recover."""
    for seed, settings in enumerate((SMALL, {**LAZY, "index.interval.bytes": "0"}, {**LAZY, "segment.bytes": "500"})):
        disk, story = fresh_disk(some_records, settings)
        for n in range(3):
            story.append(b"%d" % n * 200, is_acknowledged=False)
        yield disk.crash(seed), story


def check_recovery_can_be_interrupted(effort: Effort) -> None:
    for torn, story in torn_tails():
        for where, left in effort.cut(lambda disk: Story(disk, {}).open().log, torn):
            check_recovers(left, story, f"recovery: {where}")


def test_the_power_may_fail_again_while_a_log_recovers() -> None:
    check_recovery_can_be_interrupted(QUICK)


def abort_transactions(log: Log, count: int) -> None:
    """Writes one record in each of several transactions of a producer, and aborts them."""
    for n in range(count):
        write_transactional(log, 1, n, b"aborted")
        end_transaction(log, 1, commit=False)


def index_files(disk: MemoryFileSystem) -> dict[str, bytes]:
    """The entries of the indexes of closed segments, without those of segments that have none."""
    suffixes = (file_names.INDEX, file_names.TIME_INDEX, file_names.TXN_INDEX)
    names = [name for name in disk.list("/logs/t-0") if name.endswith(suffixes)]
    return {name: data for name in names if (data := read_file(disk, f"/logs/t-0/{name}", 1000).rstrip(b"\0"))}


def check_rebuild_can_be_interrupted(effort: Effort) -> None:
    def some_transactions(story: Story) -> None:
        abort_transactions(story.log, 4)
        story.log.roll()
        story.manager.close()

    whole, story = fresh_disk(some_transactions, SMALL)
    lost = sorted(name for name in whole.list("/logs/t-0") if name.endswith(file_names.INDEX))[0]
    start, right = whole.copy(), index_files(whole)
    start.remove(f"/logs/t-0/{lost}")
    start.sync_directory("/logs/t-0")
    for where, left in effort.cut(lambda disk: Story(disk, {}).open().log, start):
        Story(left, story.settings).open().manager.open_log("t", 0).close()
        assert index_files(left) == right, where


def test_a_rebuild_of_indexes_that_is_interrupted_is_made_again() -> None:
    check_rebuild_can_be_interrupted(Effort(with_kills=True))


@pytest.mark.parametrize("end", [Log.checkpoint, Log.close, Log.roll], ids=["checkpoint", "closing", "roll"])
def test_the_index_of_aborted_transactions_is_on_disk_below_the_recovery_point(end: Callable[[Log], None]) -> None:
    disk, story = fresh_disk(nothing, {})
    abort_transactions(story.log, 1)
    end(story.log)
    left = Story(disk.crash(0, unsynced="lost"), {}).open().log
    assert left.segments.first.txn_index.entries == [AbortedTxn(1, 0, 1, 2)]


def transactions_in(disk: MemoryFileSystem) -> list[AbortedTxn]:
    """The aborted transactions in the index of the only segment, by which Kafka tells their records."""
    return decode_aborted(read_file(disk, f"/logs/t-0/{file_names.segment_file(0, file_names.TXN_INDEX)}", 1000))


def check_recovery_point_may_rise(effort: Effort) -> None:
    def aborted(story: Story) -> None:
        abort_transactions(story.log, 3)
        story.log.sync()
        story.log.sync_aborted()

    start, story = fresh_disk(aborted, {"index.interval.bytes": "0"})
    end, right = story.log.log_end_offset, transactions_in(start)
    assert len(right) == 3
    for where, left in effort.cut(lambda disk: Story(disk, {}).open().log, start):
        with LogManager.open("/logs", clock=left.clock, filesystem=left) as other:
            other.write_recovery_points({TopicPartition("t", 0): end})
        Story(left, story.settings).open().manager.open_log("t", 0).close()
        assert transactions_in(left) == right, where


def test_another_process_may_raise_the_recovery_point_while_a_log_recovers() -> None:
    """Coordinators of 0.1.0 do, without the log's lock; they synced the log, and later openings believe the indexes."""
    check_recovery_point_may_rise(Effort(with_kills=True))


def check_retries(settings: dict[str, str], effort: Effort) -> None:
    """A producer without an answer sends its batch again, as often as necessary."""
    start, before = fresh_disk(some_records, settings)
    data = batch(b"once", b"only", producer_id=PRODUCER, base_sequence=before.sequence)

    def send(disk: MemoryFileSystem) -> None:
        Story(disk, {}).open().log.append(data.copy())

    for where, left in effort.cut(send, start):
        send(left)
        found = [value for _, value in rows(Story(left, {}).open().log)]
        assert found == [value for _, value in before.content] + [b"once", b"only"], where


@pytest.mark.parametrize("settings", [{}, SMALL], ids=["within a segment", "over segments"])
def test_a_batch_sent_again_after_a_power_cut_is_stored_once(settings: dict[str, str]) -> None:
    check_retries(settings, QUICK)


def transactions(log: Log) -> Iterator[tuple[int, Rows]]:
    """Steps; after each, the log end, and what readers of committed records may see from then on: it never shrinks."""
    write_transactional(log, 1, 0, b"aborted")
    write_transactional(log, 2, 0, b"committed")
    write_transactional(log, 1, 1, b"aborted too")
    yield 3, []
    end_transaction(log, 1, commit=False)
    yield 4, []
    end_transaction(log, 2, commit=True)
    yield 5, [(1, b"committed")]


def check_transactions(settings: dict[str, str], effort: Effort) -> None:
    done: list[tuple[int, Rows]] = []

    def program(disk: MemoryFileSystem) -> None:
        done[:] = [(0, [])]
        done.extend(transactions(Story(disk, {}).open().log))

    for where, left in effort.cut(program, fresh_disk(lambda story: story.log, settings)[0]):
        log = Story(left, {}).open().log
        log_end_offset, seen = done[-1]
        assert log.log_end_offset >= log_end_offset, where
        assert committed(log) in (seen, [(1, b"committed")]), where
        for producer_id in list(log.producers.ongoing.values()):  # the coordinator aborts what is open
            end_transaction(log, producer_id, commit=False)
        assert committed(log) in (seen, [(1, b"committed")]), where


@pytest.mark.parametrize("settings", [{}, {"segment.bytes": "200"}], ids=["within a segment", "over segments"])
def test_a_power_cut_shows_nothing_of_an_aborted_transaction(settings: dict[str, str]) -> None:
    check_transactions(settings, QUICK)


def check_group_commits(effort: Effort) -> None:
    first, second = {("t", 0): CommittedOffset(1), ("t", 1): CommittedOffset(10)}, {("t", 0): CommittedOffset(2)}
    acknowledged: list[dict[tuple[str, int], CommittedOffset]] = []

    def program(disk: MemoryFileSystem) -> None:
        acknowledged[:] = [{}]
        manager = LogManager.open("/logs", clock=disk.clock, filesystem=disk)
        for offsets in (first, second):
            GroupOffsets(manager).commit("g", offsets)
            acknowledged.append({**acknowledged[-1], **offsets})

    start = MemoryFileSystem()
    manager = LogManager.open("/logs", create=True, clock=start.clock, filesystem=start)
    manager.create_topic("__consumer_offsets", partitions=1, configs={"segment.index.bytes": "1000"})
    for where, left in effort.cut(program, start):
        found = GroupOffsets(LogManager.open("/logs", clock=left.clock, filesystem=left)).fetch("g")
        assert found in [{}, first, {**first, **second}][len(acknowledged) - 1 :][:2], where


def test_commits_of_a_group_survive_a_power_cut_together() -> None:
    check_group_commits(QUICK)
