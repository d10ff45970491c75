"""Ids that were given out: what one client has of them, and what ends them. And what a refused JoinGroup leaves."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_commitlog.gateway.groups.member import JoinResult
from pyspark_commitlog.gateway.groups.reservations import CLIENT_BYTES_MAX, LOOK_MS, RESERVATION_BYTES
from pyspark_commitlog.protocol.bodies import ErrorCode
from tests.support.groups import SESSION_MS, Bench, G


class Connection:
    """A client's connection."""

    is_closed = False


@pytest.fixture
def bench() -> Bench:
    return Bench().started()


def reserved(bench: Bench, client: Connection, name: str = "a", **changes: Any) -> str:
    """The id that a client gets."""
    answer = bench.join(name, requires_member_id=True, client=client, **changes)
    assert answer is not None
    assert answer.error is ErrorCode.member_id_required
    return answer.member_id


def groups(bench: Bench) -> list[str]:
    return list(bench.coordinator._groups.by_name)


def pending(bench: Bench, group: str = G) -> list[str]:
    return list(bench.coordinator.group(group).pending)


def test_an_id_ends_with_the_connection_that_got_it(bench: Bench) -> None:
    gone, here = Connection(), Connection()
    lost, kept = reserved(bench, gone), reserved(bench, here)
    gone.is_closed = True
    bench.home.advance(LOOK_MS)
    assert pending(bench) == [kept]
    assert bench.join("a", lost) == JoinResult(ErrorCode.unknown_member_id, lost)
    assert bench.join("a", kept) is None  # it joins


@pytest.mark.parametrize("names", [[G], [f"group-{number}" for number in range(7)]], ids=["one group", "several"])
def test_a_connection_has_few_ids_however_many_it_asks_for(bench: Bench, names: list[str]) -> None:
    client, other = Connection(), Connection()
    first = reserved(bench, other, group="other")
    given = [reserved(bench, client, group=names[number % len(names)]) for number in range(500)]
    kept = [each for name in groups(bench) if name in names for each in pending(bench, name)]
    assert sum(map(len, kept)) + RESERVATION_BYTES * len(kept) <= CLIENT_BYTES_MAX
    assert sorted(kept) == sorted(given[-len(kept) :])
    assert pending(bench, "other") == [first]


def test_a_connection_has_fewer_ids_with_long_names(bench: Bench) -> None:
    client = Connection()
    given = [reserved(bench, client, "c" * 30_000) for _ in range(50)]
    assert pending(bench) == given[-2:]


def test_an_id_with_which_a_member_joined_counts_no_longer(bench: Bench) -> None:
    client = Connection()
    for number in range(200):
        name = f"member {number}"
        bench.join(name, reserved(bench, client, name), client=client)
    bench.home.advance(LOOK_MS)
    assert len(bench.coordinator.group(G).members) == 200
    assert not bench.coordinator.membership.rebalancing.reservations._of_clients


def test_ids_that_were_given_out_count_among_the_members_a_group_may_have() -> None:
    bench = Bench(group_max_size=2).started()
    ids = [reserved(bench, Connection()) for _ in range(2)]
    refused = JoinResult(ErrorCode.group_max_size_reached, "")
    assert bench.join("c", requires_member_id=True) == refused
    assert [bench.join(each, each) for each in ids] == [None, None]
    assert bench.join("c", requires_member_id=True) == refused
    bench.home.advance(0)
    assert bench.join("c", requires_member_id=True) == refused
    assert len(bench.coordinator.group(G).members) == 2


def test_a_group_of_which_only_ids_were_given_out_is_forgotten_with_them(bench: Bench) -> None:
    reserved(bench, Connection())
    assert groups(bench) == [G]
    bench.home.advance(SESSION_MS)
    assert groups(bench) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"protocols": ()},
        {"protocol_type": ""},
        {"session_timeout_ms": 1},
        {"member_id": "unknown"},
        {"member_id": "unknown", "instance_id": "i"},
        {"protocols": (), "requires_member_id": True},
        {"protocols": (), "instance_id": "i"},
    ],
    ids=str,
)
def test_a_join_that_was_refused_leaves_nothing(bench: Bench, changes: dict[str, Any]) -> None:
    timers = bench.home.timers
    answer = bench.join("a", changes.pop("member_id", ""), group="refused", **changes)
    assert answer is not None
    assert answer.error is not ErrorCode.none
    assert groups(bench) == []
    assert bench.home.timers == timers


def test_a_join_while_a_command_changes_the_group_leaves_nothing(bench: Bench) -> None:
    class InUse:
        def take(self, group: str) -> bool:
            return False

    bench.coordinator._groups.in_use = InUse()  # type: ignore[assignment]
    assert bench.join("a") == JoinResult(ErrorCode.coordinator_load_in_progress, "")
    assert groups(bench) == []


def test_a_group_whose_members_have_left_stays(bench: Bench) -> None:
    (a,) = bench.stable("a")
    bench.leave(a)
    assert bench.join("a", "unknown") == JoinResult(ErrorCode.unknown_member_id, "unknown")
    assert groups(bench) == [G]
    assert bench.state == "Empty"
