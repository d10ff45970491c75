"""Clients that do what they like in any order, and then behave: their group must become stable again."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from pyspark_commitlog.gateway.groups.group import State
from pyspark_commitlog.gateway.groups.member import JoinResult, Leaving, SyncResult
from pyspark_commitlog.protocol.bodies import ErrorCode
from tests.support.groups import PROTOCOLS, SESSION_MS, Bench, G

STEPS = 150
TO_BEGIN_AGAIN = (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id)


class Client:
    """A consumer; each of its requests has a name of its own, under which its answer will be."""

    def __init__(self, name: str, instance_id: str | None) -> None:
        self.name, self.instance_id = name, instance_id
        self.member_id = ""
        self.joined: JoinResult | None = None
        self.synced: SyncResult | None = None
        self.protocols = PROTOCOLS
        self.waits_for: str | None = None
        self._requests = 0

    def join(self, bench: Bench) -> None:
        self.joined = self.synced = None
        bench.join(
            self._request("join"),
            self.member_id,
            client_id=self.name,
            instance_id=self.instance_id,
            protocols=self.protocols,
            requires_member_id=self.instance_id is None,
        )

    def sync(self, bench: Bench) -> None:
        assert self.joined is not None
        assignments = {member_id: f"for {member_id}".encode() for member_id, _, _ in self.joined.members}
        bench.sync(self._request("sync"), self.joined, assignments, instance_id=self.instance_id)

    def _request(self, kind: str) -> str:
        self._requests += 1
        self.waits_for = f"{kind} {self._requests} of {self.name}"
        return self.waits_for

    def take_answer(self, bench: Bench) -> None:
        answer = None if self.waits_for is None else bench.answers[self.waits_for]
        if answer is None:
            return
        self.waits_for = None
        if isinstance(answer, JoinResult):
            self.member_id = "" if answer.error in TO_BEGIN_AGAIN else answer.member_id
            self.joined = None if answer.error else answer
        elif answer.error:
            self.member_id = "" if answer.error in TO_BEGIN_AGAIN else self.member_id
            self.joined = None
        else:
            self.synced = answer

    def behave(self, bench: Bench) -> None:
        """Does what a client does next."""
        self.take_answer(bench)
        if self.waits_for is not None:
            return
        if self.joined is None:
            self.join(bench)
        elif self.synced is None:
            self.sync(bench)
        elif error := bench.heartbeat(self.joined, instance_id=self.instance_id):
            self.member_id = "" if error in TO_BEGIN_AGAIN else self.member_id
            self.join(bench)

    def misbehave(self, bench: Bench, random: Random) -> None:
        """Does anything that a client may do, at a time when it should not."""
        self.take_answer(bench)
        kind = random.randrange(7)
        if kind == 0:
            self.member_id = ""  # was killed, and starts again
            self.join(bench)
        elif kind == 1:
            self.protocols = (("range", bytes([random.randrange(3)])), ("x", b""))[: random.randint(1, 2)]
            self.join(bench)
        elif kind == 2 and self.joined is not None:
            self.sync(bench)
        elif kind == 3 and self.joined is not None:
            bench.heartbeat(self.joined, instance_id=self.instance_id)
        elif kind == 4 and self.joined is not None:
            self._requests += 1
            by = f"{self._requests} of {self.name}"
            bench.commit(random.randrange(100), self.joined, by=by, instance_id=self.instance_id)
        elif kind == 5:
            bench.leave(Leaving(self.member_id, self.instance_id))
        else:
            self.behave(bench)


def walked(random: Random) -> tuple[Bench, list[Client]]:
    settings = {"offsets_retention_check_interval_ms": 1 << 40}  # an empty group is not forgotten
    bench = Bench(group_initial_rebalance_delay_ms=random.choice((0, 3_000)), **settings).started()
    clients = [Client(f"c{number}", f"i{number}" if number % 3 == 0 else None) for number in range(5)]
    for _ in range(STEPS):
        kind = random.randrange(12)
        if kind == 0:
            bench.disk_thread.waits = True
        elif kind == 1:
            bench.disk_thread.work()
        elif kind == 2:
            bench.home.advance(random.choice((1, 100, 3_000, SESSION_MS)))
        elif kind == 3:
            for client in clients:
                client.behave(bench)
        else:
            random.choice(clients).misbehave(bench, random)
    bench.disk_thread.work()
    return bench, clients


def settle(bench: Bench, clients: list[Client]) -> None:
    """Lets clients behave for two minutes."""
    for _ in range(120):
        for client in clients:
            client.behave(bench)
        bench.home.advance(1_000)


@pytest.mark.parametrize("seed", range(30))
def test_a_group_becomes_stable_whatever_happened_before(seed: int) -> None:
    bench, clients = walked(Random(seed))
    settle(bench, clients)
    group = bench.coordinator.group(G)
    assert group.state is State.STABLE
    assert {client.member_id for client in clients} == set(group.members)
    assert {client.joined.generation for client in clients if client.joined} == {group.generation}
    for client in clients:
        assert client.synced is not None
        assert client.synced.assignment == group.members[client.member_id].assignment
        assert client.synced.assignment == f"for {client.member_id}".encode()
    assert bench.stored is not None
    assignments = {each.id: each.assignment for each in group.members.values()}
    stored_at_ms = bench.stored.current_state_timestamp  # before the assignments came
    assert bench.stored == replace(group.stored(assignments), current_state_timestamp=stored_at_ms)
    check_restart(bench, clients)
    check_silence(bench)


def check_restart(bench: Bench, clients: list[Client]) -> None:
    after = bench.restarted()
    for client in clients:
        assert client.joined is not None
        assert after.heartbeat(client.joined, instance_id=client.instance_id) is ErrorCode.none


def check_silence(bench: Bench) -> None:
    """When all fall silent, the group is empty, and no timer holds a member."""
    bench.home.advance(10 * 60_000)
    assert bench.state == "Empty"
    assert bench.stored is not None
    assert bench.stored.members == ()
    assert bench.home.timers == 1  # for expired offsets
