"""A group's lag: in offsets as Kafka counts them, in time by the records' own timestamps."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.format.internal.internal_topics import (
    GROUP_METADATA_TOPIC,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from pyspark_commitlog.storage.groups.lag import GroupLags, LogLooks, lag_ms, log_figures
from pyspark_commitlog.storage.groups.offsets import CommittedOffset, GroupOffsets
from tests.support.clock import ManualClock
from tests.support.logs.building import NOW_MS, append, end_transaction, records, write_transactional
from tests.support.logs.directories import directory_with_internal_topics

PLACE = ("t", 0)


@pytest.fixture
def manager(tmp_path: Path) -> LogManager:
    """With an empty topic t of one partition; the clock is ten seconds after NOW_MS."""
    path = directory_with_internal_topics(tmp_path)
    manager = LogManager.open(path, clock=ManualClock(NOW_MS + 10_000))
    manager.create_topic("t", partitions=1)
    return manager


def behind_ms(manager: LogManager, offset: int) -> int | None:
    with manager.open_reader(*PLACE) as log:
        return lag_ms(log, offset, manager.clock.now_ms())


def test_the_oldest_record_that_was_not_read_counts(manager: LogManager) -> None:
    log = manager.open_log(*PLACE)
    append(log, b"a", b"b", timestamps=[NOW_MS, NOW_MS + 1000])
    append(log, b"c", timestamps=NOW_MS + 4000)
    assert [behind_ms(manager, offset) for offset in range(4)] == [10_000, 9_000, 6_000, 0]


def test_an_empty_log_and_an_offset_above_its_end_are_no_lag(manager: LogManager) -> None:
    assert behind_ms(manager, 0) == 0
    append(manager.open_log(*PLACE), b"a")
    assert behind_ms(manager, 7) == 0


def test_a_record_of_the_future_does_not_make_the_lag_negative(manager: LogManager) -> None:
    append(manager.open_log(*PLACE), b"a", timestamps=NOW_MS + 60_000)
    assert behind_ms(manager, 0) == 0


def test_a_record_without_a_time_has_no_age(manager: LogManager) -> None:
    append(manager.open_log(*PLACE), b"a", timestamps=-1)
    assert behind_ms(manager, 0) is None


def test_deleted_records_are_not_waited_for(manager: LogManager) -> None:
    log = manager.open_log(*PLACE)
    append(log, b"a", b"b", timestamps=[NOW_MS, NOW_MS + 1000])
    log.delete_records(1)
    assert behind_ms(manager, 0) == 9_000


def test_aborted_records_and_markers_leave_nothing_to_read(manager: LogManager) -> None:
    log = manager.open_log(*PLACE)
    write_transactional(log, 1, 0, b"x")
    end_transaction(log, 1, commit=False)
    assert behind_ms(manager, 0) == 0
    append(log, b"a", timestamps=NOW_MS + 3000)
    assert behind_ms(manager, 0) == 7_000


def test_what_an_open_transaction_holds_back_waits(manager: LogManager) -> None:
    log = manager.open_log(*PLACE)
    append(log, b"a", timestamps=NOW_MS + 2000)
    write_transactional(log, 1, 0, b"x")
    append(log, b"b", timestamps=NOW_MS + 3000)
    assert [behind_ms(manager, offset) for offset in (0, 1, 2)] == [8_000, 10_000, 7_000]


def test_a_look_sees_what_was_appended_and_rolled_since_the_last(manager: LogManager) -> None:
    looks = LogLooks(manager)
    log = manager.open_log(*PLACE)
    sizes = []
    for _ in range(3):
        append(log, b"value")
        with looks.look(PLACE) as seen:
            figures = log_figures(PLACE, seen)
        sizes.append((figures.log_end_offset, figures.size))
    assert sizes == [(1, sizes[0][1]), (2, 2 * sizes[0][1]), (3, 3 * sizes[0][1])]
    log.roll()
    append(log, b"value")
    with looks.look(PLACE) as seen:
        assert log_figures(PLACE, seen)[2:] == (0, 4, 4, 4 * sizes[0][1], 2)


def test_partitions_that_came_are_listed(manager: LogManager) -> None:
    looks = LogLooks(manager)
    with looks.look(PLACE):
        pass
    manager.create_topic("u", partitions=2)
    assert {PLACE, ("u", 0), ("u", 1)} <= {*looks.partitions()}


def write_group(manager: LogManager, value: GroupMetadataValue) -> None:
    log = manager.open_log(GROUP_METADATA_TOPIC, 0)
    log.append_records(records([value.encode()], keys=[GroupMetadataKey("g").encode()]))


def member(assignment: bytes) -> MemberMetadata:
    return MemberMetadata("c-1", "c", "/host", 1000, b"", assignment)


def test_a_member_shows_its_partitions_also_where_nothing_was_committed(manager: LogManager) -> None:
    append(manager.open_log(*PLACE), b"a")
    assignment = b"\x00\x01" + b"\x00\x00\x00\x01" + b"\x00\x01t" + b"\x00\x00\x00\x01" + b"\x00\x00\x00\x00"
    write_group(manager, GroupMetadataValue("consumer", 1, "range", "c-1", (member(assignment),)))
    [group] = GroupLags(manager).groups()
    assert (group.name, group.state, group.protocol) == ("g", "Stable", "range")
    [lag] = GroupLags(manager).lags(group)
    assert (lag.topic, lag.partition, lag.committed, lag.lag, lag.lag_ms) == ("t", 0, None, None, None)
    assert lag.log is not None
    assert lag.member is not None
    assert (lag.log.log_end_offset, lag.member.consumer_id, lag.member.host) == (1, "c-1", "/host")


@pytest.mark.parametrize(
    ("protocol_type", "assignment"),
    [("consumer", b""), ("consumer", b"\x00\x00\x7f"), ("connect", b"\x00\x01" + b"\xff" * 20)],
)
def test_an_assignment_that_is_not_a_consumers_is_no_partition(
    manager: LogManager, protocol_type: str, assignment: bytes
) -> None:
    write_group(manager, GroupMetadataValue(protocol_type, 1, "p", "c-1", (member(assignment),)))
    [group] = GroupLags(manager).groups()
    assert [each.partitions for each in group.members] == [()]
    assert GroupLags(manager).lags(group) == []


def test_single_offsets_are_forgotten_and_the_group_stays(manager: LogManager) -> None:
    groups = GroupOffsets(manager)
    groups.commit("g", {PLACE: CommittedOffset(1), ("u", 0): CommittedOffset(2)})
    assert groups.delete("g", [PLACE])
    assert groups.fetch("g") == {("u", 0): CommittedOffset(2)}
    assert not groups.delete("g", [PLACE])
