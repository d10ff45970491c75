"""The power goes at every step of what clients ask of a gateway: what was answered is there afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest

from pyspark_commitlog.gateway.groups.member import JoinResult
from pyspark_commitlog.gateway.groups.offsets import Commit
from pyspark_commitlog.gateway.partitions.file_partition import FilePartition
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.storage import (
    GROUP_METADATA_TOPIC,
    AppendInfo,
    Isolation,
    LogManager,
    OffsetCommitValue,
    Producer,
    TopicPartition,
    check_batch,
    write_marker,
)
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.disk.power_cuts import Effort
from tests.support.groups import Bench
from tests.support.logs import building
from tests.support.logs.building import plain

LOGS, T0 = "/logs", TopicPartition("t", 0)
IDEMPOTENT, TRANSACTIONAL = 5, 6  # producers


class Story:
    """Requests of clients, served without sockets and threads; remembers what was asked and what was answered."""

    def __init__(self, disk: MemoryFileSystem) -> None:
        self.bench = Bench(disk, directory=LOGS).started()
        self.manager = self.bench.manager
        self.data = FilePartition("t", 0, self.manager.open_log("t", 0))
        self.offsets = FilePartition(GROUP_METADATA_TOPIC, 0, self.manager.open_log(GROUP_METADATA_TOPIC, 0))
        self.batches: list[list[bytes]] = []  # all that were sent, in order
        self.answered = 0  # of them
        self.committed: list[bytes] = []  # values of transactions that were answered as committed
        self.asked_offsets: list[int | None] = [None]
        self.offset: int | None = None  # answered
        self.member: JoinResult | None = None
        self._sequences = {IDEMPOTENT: 0, TRANSACTIONAL: 0}

    def _values(self, count: int) -> list[bytes]:
        first = sum(map(len, self.batches))
        self.batches.append([b"%d" % number for number in range(first, first + count)])
        return self.batches[-1]

    def _encoded(self, sizes: Sequence[int], producer_id: int) -> list[bytes]:
        """Batches of so many records."""
        found = []
        for size in sizes:
            data = building.batch(
                *self._values(size),
                producer_id=producer_id,
                base_sequence=self._sequences[producer_id],
                transactional=producer_id == TRANSACTIONAL,
            )
            self._sequences[producer_id] += size
            found.append(data.tobytes())
        return found

    def produce(self, sizes: Sequence[int], producer_id: int = IDEMPOTENT) -> None:
        """One group of the appender: batches of so many records, one sync."""
        self._append(self._encoded(sizes, producer_id))

    def produce_together(self, sizes: Sequence[int], producer_id: int = IDEMPOTENT) -> None:
        """One turn: batches in one write, as far as that goes, and one sync."""
        batches, appends = self._encoded(sizes, producer_id), self.data.begin_plain()
        taken = 0
        if appends is not None:
            for data in batches:
                batch = plain(data)
                if not appends.may_take(batch):
                    break
                appends.take(batch)
                taken += 1
            if taken:
                appends.write()
            self.data.end_plain(appends)
        self._append(batches[taken:])

    def _append(self, batches: Sequence[bytes]) -> None:
        checked = [check_batch(data, self.data.config) for data in batches]
        results = self.data.append(checked) if checked else []
        self.data.sync()
        assert all(isinstance(each, AppendInfo) for each in results)
        self.answered = len(self.batches)

    def append_beside(self) -> None:
        """Another process appends."""
        with LogManager.open(LOGS, clock=self.bench.clock, filesystem=self.bench.disk) as other:
            other.open_log("t", 0).append_records(building.records(self._values(2)))
            self.answered = len(self.batches)

    def join(self) -> None:
        """A member joins, and gets its assignment."""
        (self.member,) = self.bench.stable("a")

    def commit(self) -> None:
        """The member commits an offset, or a client without a group does."""
        self._ask_offset()
        if self.bench.commit(self._asked, self.member) is ErrorCode.none:
            self.offset = self._asked

    def _ask_offset(self) -> None:
        self._asked = (self.asked_offsets[-1] or 0) + 1
        self.asked_offsets.append(self._asked)

    def transact(self, *, together: bool = False) -> None:
        """A transaction with records and an offset, ended by markers; its state in the log has tests of its own.

        ``together``: its batches are written in a turn, and so are its markers, as far as that goes.
        """
        (self.produce_together if together else self.produce)((2, 1), TRANSACTIONAL)
        values = [value for batch in self.batches[-2:] for value in batch]
        self._ask_offset()
        generation, member_id = (-1, "") if self.member is None else (self.member.generation, self.member.member_id)
        commit = Commit("g", generation, member_id, None, {T0: OffsetCommitValue(self._asked, "", 0)})
        codes: list[ErrorCode] = []
        producer = Producer(TRANSACTIONAL, 0)
        self.bench.coordinator.offsets.commit_transactional(
            commit, producer, lambda: None, lambda found: codes.extend(found.values())
        )
        assert codes == [ErrorCode.none]
        marker = partial(write_marker, producer=producer, commit=True, coordinator_epoch=0, now_ms=0)
        for led in (self.offsets, self.data):
            at_once = led.do_at_once([marker], (), ()) if together else None
            assert (led.change([marker]) if at_once is None else at_once[0]) == [None]
            led.sync()
        self.committed += values
        self.offset = self._asked


Step = Callable[[Story], object]
STEPS: dict[str, Step] = {
    "a batch": lambda story: story.produce((1,)),
    "a group of batches": lambda story: story.produce((2, 1, 3)),
    "batches together": lambda story: story.produce_together((1, 2, 1)),
    "another process": Story.append_beside,
    "a member": Story.join,
    "an offset": Story.commit,
    "a transaction": Story.transact,
    "a transaction together": lambda story: story.transact(together=True),
}


def check_power_cuts(steps: Sequence[str], effort: Effort, segment_bytes: int = 400) -> None:
    """Takes the steps, with the power going at each change of the disk, and looks at what is there."""
    start = MemoryFileSystem()
    with LogManager.open(LOGS, create=True, filesystem=start) as manager:
        manager.create_topic("t", partitions=1, configs={"segment.bytes": str(segment_bytes)})
        manager.create_topic(GROUP_METADATA_TOPIC, partitions=1)
    stories: list[Story | None] = [None]

    def program(disk: MemoryFileSystem) -> None:
        stories[0] = None
        story = stories[0] = Story(disk)
        for name in steps:
            STEPS[name](story)

    for where, left in effort.cut(program, start):
        check(stories[0], left, where)


def check(story: Story | None, left: MemoryFileSystem, where: str) -> None:
    """What was answered is there; of what was only asked, whole batches in order, or nothing."""
    bench = Bench(left, directory=LOGS).started()
    with bench.manager as manager:
        log = manager.open_log("t", 0)
        found = [value for _, value in building.rows(log, Isolation.READ_UNCOMMITTED)]
        if story is None:
            assert found == [], where
            return
        ends = range(story.answered, len(story.batches) + 1)
        whole = [[value for batch in story.batches[:end] for value in batch] for end in ends]
        assert found in whole, f"{where}: {found} of {story.batches}, {story.answered} answered"
        committed = {value for _, value in building.committed(log)}
        assert committed.issuperset(story.committed), where
        offset = bench.fetched()
        assert offset in story.asked_offsets[story.asked_offsets.index(story.offset) :], f"{where}: {offset}"
        if story.member is not None:
            assert bench.heartbeat(story.member) is ErrorCode.none, where


@pytest.mark.parametrize(
    "steps",
    [
        ("a batch", "a group of batches", "another process", "a batch"),
        ("a batch", "batches together", "batches together", "another process", "batches together"),
        ("an offset", "a member", "an offset", "an offset"),
        ("a batch", "an offset", "a transaction", "a batch", "a transaction"),
        ("a batch", "a transaction together", "batches together", "a transaction together"),
    ],
    ids=" ".join,
)
def test_what_was_answered_before_a_power_cut_is_there(steps: Sequence[str]) -> None:
    check_power_cuts(steps, Effort(every=3))
