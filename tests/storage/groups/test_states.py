"""Groups of the newer protocols: the tools of a Kafka 4.3.1 broker compared with the broker's directory."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.format.internal.group_records import GroupRecordKey, GroupRecordKind as Kind
from pyspark_commitlog.storage.groups.lag import GroupLags
from pyspark_commitlog.storage.groups.offsets import GroupOffsets
from pyspark_commitlog.storage.groups.states import GroupDescription, described_groups
from tests.support.clock import ManualClock
from tests.support.logs.building import NOW_MS

ARCHIVE = Path(__file__).parents[2] / "golden" / "groups" / "kafka-4.tar.xz"


@pytest.fixture(scope="module")
def kafka_4(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``said.json``, and the log directory while consumers ran (``live/log``) and after (``final/log``)."""
    root = tmp_path_factory.mktemp("kafka-4")
    with tarfile.open(ARCHIVE) as packed:
        packed.extractall(root, filter="data")
    return root


def groups_of(directory: Path) -> dict[str, GroupDescription]:
    with LogManager.open(str(directory), clock=ManualClock(NOW_MS)) as manager:
        return {each.name: each for each in GroupLags(manager).groups()}


def listed_by_the_broker(text: str) -> dict[str, tuple[str, str, str]]:
    """Type, protocol and state by group: ``new-a|Optional[Consumer]|consumer|Optional[Stable];``."""
    rows = [row.split("|") for row in text.rstrip(";").split(";")]
    return {name: (type_[9:-1], protocol, state[9:-1]) for name, type_, protocol, state in rows}


def test_types_protocols_and_states_are_those_of_the_broker(kafka_4: Path) -> None:
    said = listed_by_the_broker(json.loads((kafka_4 / "said.json").read_text())["classic upgraded"])
    found = groups_of(kafka_4 / "live" / "log")
    assert {name: (each.type, each.protocol_type, each.state) for name, each in found.items()} == said


def test_members_are_as_printed_by_the_brokers_tools(kafka_4: Path) -> None:
    said = json.loads((kafka_4 / "said.json").read_text())["tools"]
    [text] = [each["stdout"] for each in said if "--members" in each["arguments"]]
    rows = {row[1]: row for row in (line.split() for line in text.splitlines()[2:])}
    found = groups_of(kafka_4 / "live" / "log")["new-a"]
    assert found.protocol == "uniform"
    assert {each.consumer_id for each in found.members} == set(rows)
    for member in found.members:
        row = [each for each in rows[member.consumer_id] if each != "static-2"]
        assert (member.host, member.client_id, len(member.partitions)) == (row[2], row[3], int(row[4]))
        assert (member.epoch, shown(member.partitions), shown(member.target)) == (int(row[5]), row[6], row[8])
    assert {each.client_id: each.instance_id for each in found.members} == {"a1": None, "a2": "static-2"}


def shown(partitions: tuple[tuple[str, int], ...]) -> str:
    """As Kafka 4 prints them: ``n-in:3;n-other:0,1``."""
    topics = sorted({topic for topic, _ in partitions})
    return ";".join(f"{name}:{','.join(str(n) for topic, n in partitions if topic == name)}" for name in topics)


def test_a_group_whose_members_left_is_empty_and_keeps_its_offsets(kafka_4: Path) -> None:
    found = groups_of(kafka_4 / "final" / "log")
    assert {name: each.state for name, each in found.items() if name != "new-a"} == dict.fromkeys(
        ("classic-b", "new-regex", "share-e", "share-s"), "Empty"
    )
    assert (found["classic-b"].type, len(found["classic-b"].offsets)) == ("Consumer", 4)
    [static] = found["new-a"].members  # left for a while: the group waits for it
    assert (found["new-a"].state, static.instance_id, static.epoch) == ("Reconciling", "static-2", -2)


def test_topics_that_are_not_here_have_their_ids(kafka_4: Path, tmp_path: Path) -> None:
    directory = shutil.copytree(kafka_4 / "live" / "log", tmp_path / "log")
    for each in directory.glob("n-other-*"):
        shutil.rmtree(each)
    partitions = [partition for each in groups_of(directory)["new-a"].members for partition in each.partitions]
    assert sorted({topic for topic, _ in partitions}) == ["n-in", "uU0zWdG9S7Cds20y9nEDBQ"]


# Records, one by one


def varint_string(text: str | None) -> bytes:
    return b"\0" if text is None else bytes([len(text) + 1]) + text.encode()


def member(assignor: str | None = None) -> bytes:
    names = varint_string(None) + varint_string(None) + varint_string("client") + varint_string("/host")
    return b"\0\0" + names + b"\1" + b"\1" + b"\0\0\0\1" + varint_string(assignor) + b"\0"


def group(epoch: int) -> bytes:
    return b"\0\0" + epoch.to_bytes(4, "big") + b"\0"


def current(epoch: int, state: int = 0) -> bytes:
    return b"\0\0" + epoch.to_bytes(4, "big", signed=True) + bytes(4) + bytes([state]) + b"\1\1\0"


def described(**by_name: Mapping[GroupRecordKey, bytes]) -> dict[str, GroupDescription]:
    contents = {key: data for found in by_name.values() for key, data in found.items()}
    return {each.name: each for each in described_groups(contents, dict)}


def consumer_group(
    epoch: int, assigned: int | None, *members: tuple[int, int], assignors: tuple[str | None, ...] = ()
) -> dict[GroupRecordKey, bytes]:
    found = {GroupRecordKey(Kind.CONSUMER_GROUP, "g"): group(epoch)}
    if assigned is not None:
        found[GroupRecordKey(Kind.CONSUMER_TARGET, "g")] = group(assigned)
    for n, (of_member, state) in enumerate(members):
        found[GroupRecordKey(Kind.CONSUMER_MEMBER, "g", f"m{n}")] = member(assignors[n] if assignors else None)
        found[GroupRecordKey(Kind.CONSUMER_MEMBER_CURRENT, "g", f"m{n}")] = current(of_member, state)
    return found


@pytest.mark.parametrize(
    ("state", "found"),
    [
        ("Empty", consumer_group(3, 3)),
        ("Stable", consumer_group(3, 3, (3, 0), (3, 0))),
        ("Assigning", consumer_group(4, 3, (3, 0))),
        ("Assigning", consumer_group(1, None, (0, 0))),
        ("Reconciling", consumer_group(3, 3, (3, 0), (2, 0))),
        ("Reconciling", consumer_group(3, 3, (3, 0), (3, 1))),
        ("Reconciling", consumer_group(3, 3, (3, 2))),
    ],
)
def test_the_state_of_a_consumer_group_follows_from_its_epochs(state: str, found: dict[GroupRecordKey, bytes]) -> None:
    assert described(g=found)["g"].state == state


def test_the_strategy_is_the_one_most_members_ask_for() -> None:
    found = consumer_group(1, 1, (1, 0), (1, 0), (1, 0), (1, 0), assignors=("range", "mine", "range", None))
    assert described(g=found)["g"].protocol == "range"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({GroupRecordKey(Kind.CONSUMER_GROUP, "g"): b"\0\1later"}, id="a version of a later release"),
        pytest.param({GroupRecordKey(Kind.CONSUMER_MEMBER, "g", "m0"): b"\0\0\1"}, id="a torn member"),
        pytest.param({GroupRecordKey(Kind.CONSUMER_GROUP, "g"): None}, id="no record of the group"),
    ],
)
def test_a_record_that_does_not_decode_makes_its_group_unknown_and_no_other(
    change: dict[GroupRecordKey, bytes | None],
) -> None:
    found = {key: data for key, data in {**consumer_group(3, 3, (3, 0)), **change}.items() if data is not None}
    other = {key._replace(group="other"): data for key, data in consumer_group(3, 3, (3, 0)).items()}
    assert {name: each.state for name, each in described(g=found, other=other).items()} == {
        "g": "Unknown",
        "other": "Stable",
    }


def test_a_streams_group_is_not_ready_before_its_topology_is_validated() -> None:
    topology = GroupRecordKey(Kind.STREAMS_GROUP, "s"), GroupRecordKey(Kind.STREAMS_TOPOLOGY, "s")
    names = varint_string(None) + varint_string(None) + varint_string("client") + varint_string("/host")
    members = {
        GroupRecordKey(Kind.STREAMS_MEMBER, "s", "m"): b"\0\0" + names + bytes(8) + b"\2p" + b"\xff" + b"\1\0",
        GroupRecordKey(Kind.STREAMS_MEMBER_CURRENT, "s", "m"): b"\0\0\0\0\0\1" + bytes(5) + b"\1" * 6 + b"\0",
        GroupRecordKey(Kind.STREAMS_TARGET, "s"): group(1),
        topology[1]: b"\0\0\0\0\0\5\1\0",
    }
    for validated, state in ((b"\0", "NotReady"), (b"\1\0\4\0\0\0\5", "Stable"), (b"\1\0\4\0\0\0\4", "NotReady")):
        found = {**members, topology[0]: b"\0\0\0\0\0\1" + bytes(8) + validated}
        assert (described(s=found)["s"].type, described(s=found)["s"].state) == ("Streams", state)


# Deleting


def test_deleting_a_group_forgets_each_of_its_records_in_the_order_a_coordinator_loads_them(
    kafka_4: Path, tmp_path: Path
) -> None:
    directory = shutil.copytree(kafka_4 / "live" / "log", tmp_path / "log")
    with LogManager.open(str(directory), clock=ManualClock(NOW_MS)) as manager:
        for name in ("new-a", "share-s"):
            before = manager.open_log(*GroupOffsets(manager).partition_of(name)).log_end_offset
            assert GroupOffsets(manager).delete(name)
            with manager.open_reader(*GroupOffsets(manager).partition_of(name)) as log:
                [written] = log.records(before, log.log_end_offset)
            assert written.keys is not None
            assert written.values is not None
            assert set(written.values.to_list()) == {None}
            kinds = [int.from_bytes((data or b"")[:2]) for data in written.keys.to_list()]
            expected = {"new-a": [1] * 6 + [8, 8, 7, 7, 5, 5, 6, 3], "share-s": [14, 13, 10, 12, 15, 11]}
            assert kinds == expected[name]
        assert sorted(GroupOffsets(manager).groups()) == ["classic-b", "new-regex", "share-e"]
