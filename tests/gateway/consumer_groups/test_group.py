"""ConsumerGroup beside the records that a real Kafka 4.3.1 wrote: the same bytes, and the same steps."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_commitlog.gateway.consumer_groups.group import ConsumerGroup
from pyspark_commitlog.gateway.consumer_groups.heartbeat import Heartbeat, beaten
from pyspark_commitlog.gateway.consumer_groups.member import MemberState
from pyspark_commitlog.gateway.consumer_groups.partitions import Part, Topic
from pyspark_commitlog.storage import GroupRecordKey, decode_record, encode_record
from pyspark_commitlog.storage.format.internal.state_records import read_group_key
from tests.support.kafka.broker_dirs import open_manager, rows, stage

CONSUMER_KINDS = {*range(3, 9), 16}
N_IN, N_OTHER = "uRyKMmBwQX2PTvxh3frynA", "uU0zWdG9S7Cds20y9nEDBQ"
CATALOG = {"n-in": Topic("n-in", N_IN, (0, 1, 2, 3)), "n-other": Topic("n-other", N_OTHER, (0, 1))}
A1, A2 = "y4QRMeOWRq6M4o8UZ-R5jQ", "PDVef_nhQA6u6IY-1lqQ8A"
NOT_OURS = ("metadataHash", "assignmentTimestamp")  # a hash of Kafka's own; a time

Fields = dict[str, Any]


@pytest.fixture(scope="module")
def written() -> list[tuple[GroupRecordKey, bytes | None]]:
    """All records of consumer groups, in the order in which the broker wrote them."""
    found = []
    with open_manager(stage("4-new-groups/final") / "log") as manager:
        for partition in (0, 1):
            with manager.open_reader("__consumer_offsets", partition) as reader:
                for row in rows(reader):
                    key = read_group_key(row[3] or b"")
                    if isinstance(key, GroupRecordKey) and key.kind in CONSUMER_KINDS:
                        found.append((key, row[4]))
    return found


def test_records_of_all_kinds_are_written_byte_for_byte(written: list[tuple[GroupRecordKey, bytes | None]]) -> None:
    values = [(key.kind, value) for key, value in written if value is not None]
    assert {kind for kind, _ in values} == CONSUMER_KINDS - {4}  # 4.3.1 writes that kind no more
    for kind, value in values:
        assert encode_record(kind, decode_record(kind, value)) == value


def test_a_group_of_the_broker_is_read_and_stored_unchanged(
    written: list[tuple[GroupRecordKey, bytes | None]],
) -> None:
    records: dict[GroupRecordKey, bytes] = {}
    for key, value in written:
        records.pop(key, None)
        if value is not None and key.group == "new-a":
            records[key] = value
    group = ConsumerGroup.restored("new-a", records)
    (static,) = group.members.values()
    assert (static.instance_id, static.epoch, static.state, len(static.assigned)) == ("static-2", -2, 0, 6)
    group.keep(static)
    group.keep_current(static)
    assert group.take_changes() == []


def shown(key: GroupRecordKey, value: bytes | None) -> tuple[int, str | None, Fields | None]:
    """A record with its topics sorted, and without what is Kafka's own."""
    if value is None:
        return int(key.kind), key.name, None
    fields = {name: each for name, each in decode_record(key.kind, value).items() if name not in NOT_OURS}
    for name, each in fields.items():
        if name in ("topicPartitions", "assignedPartitions"):
            fields[name] = sorted(each, key=lambda topic: str(topic["topicId"]))
    return int(key.kind), key.name, fields


class Steps:
    """The group as we keep it, and the records that each step writes."""

    def __init__(self) -> None:
        self.group = ConsumerGroup("new-a")
        self.records: list[tuple[GroupRecordKey, bytes | None]] = []

    def beat(self, member: str, epoch: int, client: str, owned: set[Part] | None = None, **more: Any) -> None:
        given = {"client_id": client, "client_host": "/127.0.0.1", "owned": None if owned is None else frozenset(owned)}
        beat = Heartbeat("new-a", member, epoch, **given, **more)
        beaten(self.group, beat, CATALOG, assignor="uniform", now_ms=1)
        self.note()

    def note(self) -> None:
        self.records += [(each.key, each.value) for each in self.group.take_changes()]


def test_members_that_come_and_go_leave_the_records_that_the_broker_wrote(
    written: list[tuple[GroupRecordKey, bytes | None]],
) -> None:
    steps, joining = Steps(), {"rebalance_timeout_ms": 300_000, "regex": ""}
    first = [Part(N_IN, each) for each in range(4)]
    others = [Part(N_OTHER, each) for each in range(2)]
    steps.beat(A1, 0, "a1", set(), topics=("n-in",), **joining)
    static = {"topics": ("n-in", "n-other"), "instance_id": "static-2", "rack_id": "r1"}
    steps.beat(A2, 0, "a2", set(), **static, **joining)
    steps.beat(A2, 3, "a2", {*others})
    steps.beat(A1, 2, "a1")
    assert steps.group.members[A1].state is MemberState.UNREVOKED_PARTITIONS
    steps.beat(A1, 2, "a1", {*first[:3]})
    steps.beat(A2, 3, "a2")
    steps.group.remove([A1], CATALOG)
    steps.note()
    steps.beat(A2, 3, "a2")
    steps.group.leave_for_now(steps.group.members[A2])
    steps.note()
    ours = [shown(*each) for each in steps.records]
    theirs = [shown(*each) for each in written if each[0].group == "new-a"]
    # The broker writes the targets of one assignment in the order of a hash map.
    assert sorted(map(repr, ours)) == sorted(map(repr, theirs))
    assert [each[0] for each in ours] == [each[0] for each in theirs]
