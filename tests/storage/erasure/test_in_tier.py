"""Erasing from a log whose segments are in a tier too: no erased record may come back from there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.storage import LogManager, MaintenanceRun, TopicPartition, in_this_process, select_partitions
from pyspark_commitlog.storage.directory.admin import alter_configs, delete_records, delete_topic
from pyspark_commitlog.storage.erasure import one_log
from pyspark_commitlog.storage.erasure.certificate import Erasure
from pyspark_commitlog.storage.erasure.in_tier import OldCopy, TierCopies, joined
from pyspark_commitlog.storage.erasure.keys import AskedKeys, KeyFinder
from pyspark_commitlog.storage.erasure.operation import erase_partitions
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.legacy import v1
from pyspark_commitlog.storage.maintenance.run import ConfigOverrides
from pyspark_commitlog.storage.remote_metadata.topic import CONFIGS, MetadataTopic
from pyspark_commitlog.storage.segment.writer import LogSegment
from pyspark_commitlog.storage.tiering.copying import due_segments
from pyspark_commitlog.storage.tiers.address import tier_address
from pyspark_commitlog.storage.tiers.files.filesystem import TieredFiles
from pyspark_commitlog.storage.tiers.metadata_records import SegmentMetadata, SegmentState
from pyspark_commitlog.storage.tiers.opening import open_tier
from tests.storage.tiering.test_copying import DAY_MS, TIERED, Rows, Tier, manager_of
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.disk.power_cuts import Effort
from tests.support.logs.building import NOW_MS, records, rows

ANN, IDA = b"ann@example.org", b"ida@example.org"
KEYS = [[IDA, IDA], [ANN, IDA], [IDA, IDA], [ANN, ANN], [IDA, IDA]]  # of each segment; the last one is active
PLACE = TopicPartition("t", 0)
ALL = [(n, b"%d" % n) for n in range(10)]
LEFT = [row for row in ALL if row[0] not in {2, 6, 7}]
CLOSED = 8  # the offset of the active segment
FINISHED = SegmentState.COPY_SEGMENT_FINISHED


def filled() -> MemoryFileSystem:
    disk = MemoryFileSystem(ManualClock(NOW_MS))
    with manager_of(disk) as manager:
        manager.create_topic("__remote_log_metadata", partitions=1, configs=CONFIGS | {"segment.index.bytes": "120"})
        fill(manager)
    return disk.crash(0, unsynced="kept")


def fill(manager: LogManager) -> None:
    manager.create_topic("t", partitions=1, configs=TIERED | {"local.retention.ms": "1"})
    log = manager.open_log(*PLACE)
    for n, keys in enumerate(KEYS):
        values = [b"%d" % (2 * n + each) for each in range(2)]
        log.append(v2.encode(records(values, keys=keys, timestamps=NOW_MS - (5 - n) * DAY_MS), v2.BatchFields()))
        if n < len(KEYS) - 1:
            log.roll()


@dataclass
class Site(Tier):
    """A log with its tier, on a disk in memory, and certificates on a real one."""

    path: Path

    def erase(self, *keys: bytes, name: str = "certificate.json") -> dict[str, Any]:
        """Erases keys; returns the facts about the partition in the certificate, and whether that is complete."""
        asked = Erasure(AskedKeys(frozenset(keys or [ANN])), "a test", ("t",), str(self.path / name))
        run = MaintenanceRun("/logs", filesystem=self.disk, clock=ManualClock(NOW_MS))
        with run.manager() as manager:
            selection = select_partitions(manager, ["t"], ConfigOverrides())
        for outcome in erase_partitions(run, selection, in_this_process, asked):
            assert outcome.status.value == "done", str(outcome)
        content = json.loads(Path(asked.certificate).read_text())
        facts: dict[str, Any] = content["partitions"]["t-0"]
        assert facts["is_complete"] == content["is_complete"]
        return facts

    def all_rows(self) -> Rows:
        """The records that a reader of the log with its tier sees."""
        tier = open_tier("/tier", store=self.store)
        files = TieredFiles(tier_address("/tier")._replace(log="/logs"), tier, self.disk)
        with LogManager.open("/logs", filesystem=files) as manager, manager.open_reader(*PLACE) as reader:
            return rows(reader)

    def size_of(self, base: int) -> int:
        """Bytes of a local segment."""
        status = self.disk.status(f"/logs/t-0/{base:020}.log")
        assert status is not None
        return status.size

    def has_ann(self) -> list[str]:
        """The objects of the tier with the erased key."""
        return [key for key in self.objects() if ANN in bytes(self.store.get(key, limit=1 << 20))]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(filled(), tmp_path)


def spans(facts: dict[str, Any]) -> Sequence[tuple[int, int, bool]]:
    return [(each["first_offset"], each["last_offset"], each["is_deleted_next"]) for each in facts["in_tier"]]


def test_an_erased_record_does_not_come_back_from_the_tier(site: Site) -> None:
    site.copy()
    assert len(site.has_ann()) == 2
    facts = site.erase()
    assert not facts["is_complete"]
    assert spans(facts) == [(2, 3, True), (6, 7, True)]
    assert site.all_rows() == LEFT
    done = site.copy()  # also of the segment that the erasure has closed
    assert (done.copied, done.tier_start_offset, done.tier_end_offset) == (3, 0, 10)
    assert site.has_ann() == []
    facts = site.erase()
    assert (facts["is_complete"], facts["in_tier"], facts["records_erased"]) == (True, [], 0)
    site.retain()
    assert (site.local_rows(), site.all_rows()) == ([], LEFT)


def test_local_retention_keeps_what_the_tier_will_lose(site: Site) -> None:
    site.copy()
    site.erase()
    site.retain()
    assert site.local_rows() == LEFT[2:]
    assert site.all_rows() == LEFT
    site.copy()
    site.retain()
    assert site.all_rows() == LEFT


def test_copies_that_were_made_after_the_erasure_need_not_be_here_when_it_is_completed(site: Site) -> None:
    site.copy()
    site.erase()
    site.copy()
    site.retain()
    facts = site.erase()
    assert (facts["is_complete"], facts["in_tier"]) == (True, [])
    assert not site.erase(name="another.json")["is_complete"]


def test_copies_of_a_topic_that_was_made_again_are_not_those_of_the_earlier_run(site: Site) -> None:
    site.erase()
    with manager_of(site.disk) as manager:
        delete_topic(manager, "t")
        fill(manager)
    site.copy()
    site.retain()
    facts = site.erase()
    assert not facts["is_complete"]
    assert site.has_ann()


def test_the_copies_of_unchanged_segments_stay(site: Site) -> None:
    site.copy()
    before = site.states()
    site.erase()
    with manager_of(site.disk) as manager:
        due = due_segments(manager, PLACE, MetadataTopic(manager))
    assert (due.copied, due.tier_end_offset) == (3, 2)
    site.copy()
    assert len(before.keys() & site.states().keys()) == 2


def test_what_only_the_tier_has_is_named_and_the_certificate_is_not_complete(site: Site) -> None:
    site.copy()
    site.retain()
    facts = site.erase()
    assert not facts["is_complete"]
    assert spans(facts) == [(0, 1, False), (2, 3, False), (4, 5, False), (6, 7, False)]
    assert [*site.states().values()] == [FINISHED] * 4
    with manager_of(site.disk) as manager:
        list(delete_records(manager, {PLACE: CLOSED}))
    site.copy()
    assert site.erase()["is_complete"]


def test_a_report_names_adjacent_copies_together() -> None:
    copies = [OldCopy(0, 1, "a", False), OldCopy(2, 3, "b", False), OldCopy(4, 5, "c", True), OldCopy(8, 9, "d", True)]
    assert [each[:2] for each in joined(copies)] == [(0, 3), (4, 5), (8, 9)]
    assert "offsets 0 to 3 from before the erasure" in str(joined(copies)[0])


def test_a_log_without_a_tier_is_complete_at_once(site: Site) -> None:
    assert (site.erase()["is_complete"], site.states()) == (True, {})


def test_copies_from_before_an_erasure_that_marked_none_are_found_by_their_size(site: Site) -> None:
    site.copy()
    with manager_of(site.disk) as manager:
        one_log.erase(manager.open_log(*PLACE), KeyFinder(AskedKeys(frozenset([ANN]))), "an older version")
    facts = site.erase()
    assert not facts["is_complete"]
    assert spans(facts) == [(2, 3, False), (6, 7, False)]


def with_one_to_empty(emptied: int, path: Path) -> Site:
    """Three closed segments of a record each; only the ``emptied`` one has the key that will be erased."""
    disk = MemoryFileSystem(ManualClock(NOW_MS))
    with manager_of(disk) as manager:
        configs = TIERED | {"local.retention.ms": "1", "message.format.version": "0.10.0"}
        manager.create_topic("t", partitions=1, configs=configs)
        log = manager.open_log(*PLACE)
        for n in range(3):  # messages that lose all records disappear, unlike batches
            log.append(v1.encode(records([b"%d" % n], keys=[ANN if n == emptied else IDA], timestamps=NOW_MS)))
            log.roll()
    return Site(disk, path)


@pytest.mark.parametrize("emptied", [0, 1, 2])
def test_a_segment_that_an_erasure_has_emptied_leaves_no_gap_in_the_tier(emptied: int, tmp_path: Path) -> None:
    site, left = with_one_to_empty(emptied, tmp_path), [row for row in ALL[:3] if row[0] != emptied]
    site.copy()
    site.erase()
    assert site.size_of(emptied) == 0
    site.copy()
    assert site.has_ann() == []
    assert site.erase()["is_complete"]
    with manager_of(site.disk) as manager:
        log = manager.open_log(*PLACE)
        log.append(v1.encode(records([b"3"], keys=[IDA], timestamps=NOW_MS)))
        log.roll()
    assert site.copy().tier_end_offset == 4
    assert len(site.states()) == 3
    site.retain(days_later=1)
    assert (site.local_rows(), site.all_rows()) == ([], [*left, (3, b"3")])


@pytest.mark.parametrize("emptied", [0, 1])
def test_killed_while_the_offsets_of_an_emptied_segment_get_a_copy_leaves_no_record_twice(
    emptied: int, tmp_path: Path
) -> None:
    """The copy of the next segment is made again, with these offsets, and takes the place of the one before."""
    site, left = with_one_to_empty(emptied, tmp_path), [row for row in ALL[:3] if row[0] != emptied]
    site.copy()
    site.erase()
    start, states = site.disk.crash(0, unsynced="kept"), set()
    for where, disk in Effort(every=3, with_kills=True).cut(lambda each: Site(each, tmp_path).copy(), start):
        then = Site(disk, tmp_path)
        states.add(tuple(then.states().values()))
        assert then.copy().tier_end_offset == 3, where
        assert (then.all_rows(), [*then.states().values()]) == (left, [FINISHED] * 2), where
        assert len(then.objects()) == 2 * 5, where
    assert (FINISHED, FINISHED, SegmentState.COPY_SEGMENT_STARTED) in states


def test_no_copy_of_a_broker_is_marked(site: Site) -> None:
    site.copy()
    with manager_of(site.disk) as manager:
        log = manager.open_log(*PLACE)
        copies = TierCopies(manager, log, PLACE, is_ours=False)
        done = one_log.erase(log, KeyFinder(AskedKeys(frozenset([ANN]))), "a test", copies)
    assert [(each.first_offset, each.is_deleted_next) for each in done.in_tier] == [(2, False), (6, False)]
    assert [*site.states().values()] == [FINISHED] * 4


def test_no_copy_is_marked_while_copies_are_turned_off(site: Site) -> None:
    """The tier would lose what nobody copies to it again, and retention would wait for that for ever."""
    site.copy()
    with manager_of(site.disk) as manager:
        alter_configs(manager, "t", {"remote.log.copy.disable": "true"})
    assert spans(site.erase()) == [(2, 3, False), (6, 7, False)]
    assert [*site.states().values()] == [FINISHED] * 4


def test_copies_of_other_segments_are_not_compared_with_the_log(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """With thousands of segments and copies, each with each takes hours, and maintenance is locked out."""
    site.copy()
    compared, segments = list[int](), TierCopies._segments

    def counted(self: TierCopies, copy: SegmentMetadata) -> Iterator[tuple[LogSegment, range]]:
        compared.append(copy.start_offset)
        return segments(self, copy)

    monkeypatch.setattr(TierCopies, "_segments", counted)
    with manager_of(site.disk) as manager:
        TierCopies(manager, manager.open_log(*PLACE), PLACE).drop(range(2, 4))
    assert compared == [2]
    assert [*site.states().values()].count(FINISHED) == 3


def test_a_damaged_segment_keeps_its_copy(site: Site) -> None:
    site.copy()
    with site.disk.open(f"/logs/t-0/{6:020}.log", "write") as file:
        file.write(90, b"\xff")
    with pytest.raises(AssertionError, match="damaged"):
        site.erase()
    site.copy()
    assert [key for key in site.has_ann() if key.rpartition("/")[2].startswith(f"{6:020}")]


@pytest.mark.parametrize("setting", [{"retention.ms": str(5 * DAY_MS // 2)}, {"retention.bytes": "1"}])
def test_retention_of_the_tier_stops_where_only_the_log_has_records(setting: dict[str, str], site: Site) -> None:
    site.copy()
    site.erase()
    with manager_of(site.disk) as manager:
        alter_configs(manager, "t", setting | {"remote.log.copy.disable": "true"})
    assert site.copy().tier_start_offset == 4
    assert site.local_rows() == LEFT[2:]
    with manager_of(site.disk) as manager:
        alter_configs(manager, "t", {"remote.log.copy.disable": "false"})
    site.copy()
    assert site.has_ann() == []


class Killed(BaseException):
    """Ends the code of a process that was killed."""


def test_killed_before_a_segment_is_replaced_leaves_old_records_that_no_retention_deletes(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap_in(*_: Any) -> None:
        raise Killed

    site.copy()
    monkeypatch.setattr(one_log, "swap_in", swap_in)
    with pytest.raises(Killed):
        site.erase()
    assert [*site.states().values()].count(SegmentState.DELETE_SEGMENT_STARTED) == 1  # of the first one that has ANN
    then = Site(site.disk.copy(), site.path)
    then.retain()
    assert (then.local_rows(), then.all_rows()) == (ALL[2:], ALL)
    monkeypatch.undo()
    site.copy()
    assert site.all_rows() == ALL
    assert spans(site.erase()) == [(2, 3, True), (6, 7, True)]
    site.copy()
    assert (site.all_rows(), site.has_ann()) == (LEFT, [])


EFFORT = Effort(every=23, with_kills=True)


def test_a_crash_at_any_moment_loses_nothing_and_the_next_runs_complete_the_erasure(site: Site) -> None:
    site.copy()
    start, count = site.disk.crash(0, unsynced="kept"), 0

    def run(disk: MemoryFileSystem) -> None:
        each = Site(disk, site.path)
        each.erase(name="of-no-power-cut.json")
        each.retain()
        each.copy()
        each.retain()

    for where, disk in EFFORT.cut(run, start):
        left, certificate = Site(disk, site.path), f"after-{count}.json"
        before = left.all_rows()
        assert [row for row in before if row in LEFT] == LEFT, where
        assert [row for row in ALL if row in before] == before, where
        then = Site(disk.copy(), site.path)
        then.retain()
        assert then.all_rows() == before, where
        is_whole = left.local_rows()[:1] == LEFT[:1]
        left.erase(name=certificate)
        assert left.all_rows() == LEFT, where
        left.copy()
        assert left.has_ann() == [], where
        left.retain()
        assert left.erase(name=certificate)["is_complete"] == is_whole, where
        assert (left.all_rows(), left.local_rows()) == (LEFT, []), where
        count += 1
    assert count > 20
