"""Random schedules of groups of Kafka 4: nobody ever processes a partition that another member may process.

Members come, go, are paused and killed; answers are lost; topics grow; the coordinator starts again from what is on its
disk. A member behaves as Kafka's client: it takes what it is told, after it has given up the rest, and joins again when
it is fenced. A paused member processes nothing, until it has heard from the coordinator again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from pyspark_commitlog.gateway.consumer_groups.partitions import Part
from pyspark_commitlog.protocol.bodies import ErrorCode
from tests.support.groups import REBALANCE_MS, Bench, told

SESSION_MS = 45_000
FENCED = (ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id)
REGEX = "t.*"


@dataclass
class Client:
    """A consumer."""

    id: str
    instance_id: str | None
    subscription: str  # a topic, or REGEX
    epoch: int = 0
    owned: frozenset[Part] = frozenset()
    keeps: frozenset[Part] = frozenset()  # what it does not give up at once, though it was asked to
    is_paused: bool = False
    heard_ms: int = 0
    acknowledges: bool = False  # says what it owns, after it was told what to have
    is_unheard: bool = False  # an answer was lost: it says everything again


@dataclass
class World:
    """A group with its clients."""

    random: Random
    bench: Bench = field(default_factory=lambda: Bench().topics(t=3, tu=2).started())
    clients: dict[str, Client] = field(default_factory=dict)
    gone: dict[str, str | None] = field(default_factory=dict)  # static members that left for now
    names: int = 0
    losses: float = 0.1
    sizes: dict[str, int] = field(default_factory=lambda: {"t": 3, "tu": 2})

    def step(self) -> None:
        steps = [self.beat] * 12 + [self.come, self.come, self.leave, self.kill, self.pause, self.wait]
        steps += [self.grow, self.restart]
        self.random.choice(steps)()
        self.check()

    def come(self) -> None:
        if len(self.clients) >= 5:
            return
        self.names += 1
        name = f"m{self.names}"
        static = self.gone.pop(self.random.choice([*self.gone])) if self.gone and self.random.random() < 0.7 else None
        if static is None and self.random.random() < 0.3:
            static = f"i{self.names}"
        self.clients[name] = Client(name, static, self.random.choice(["t", "tu", REGEX]))
        self._send(self.clients[name])

    def beat(self) -> None:
        if self.clients:
            client = self.random.choice([*self.clients.values()])
            client.is_paused = False
            self._send(client)

    def leave(self) -> None:
        if self.clients:
            client = self.clients.pop(self.random.choice([*self.clients]))
            for_now = client.instance_id is not None and self.random.random() < 0.7
            self.bench.beat(client.id, -2 if for_now else -1, instance_id=client.instance_id)
            if for_now:
                self.gone[client.id] = client.instance_id

    def kill(self) -> None:
        if self.clients and self.random.random() < 0.5:
            del self.clients[self.random.choice([*self.clients])]

    def pause(self) -> None:
        if self.clients:
            self.random.choice([*self.clients.values()]).is_paused = True

    def wait(self) -> None:
        """Lets time pass: members that run send heartbeats in it."""
        for _ in range(self.random.randrange(1, 13)):
            self.bench.home.advance(5_000)
            for client in [*self.clients.values()]:
                if not client.is_paused:
                    self._send(client)
            self.check()

    def grow(self) -> None:
        name = self.random.choice([*self.sizes])
        self.sizes[name] = min(self.sizes[name] + 1, 6)
        self.bench.topics(**self.sizes)

    def restart(self) -> None:
        self.bench = Bench(self.bench.disk, now_ms=self.bench.clock.now_ms()).topics(**self.sizes).started()

    def _send(self, client: Client) -> None:
        joins = client.epoch == 0
        if client.keeps and self.random.random() < 0.7:
            client.keeps = frozenset()
            client.acknowledges = True
        says_all = joins or client.is_unheard
        fields: dict[str, Any] = {}
        if says_all or client.acknowledges:
            fields["owned"] = frozenset() if joins else client.owned | client.keeps
        if says_all:
            is_regex = client.subscription == REGEX
            what = {"regex": REGEX if is_regex else "", "topics": () if is_regex else (client.subscription,)}
            fields |= {"rebalance_timeout_ms": REBALANCE_MS, **what}
        result = self.bench.beat(client.id, client.epoch, instance_id=client.instance_id, **fields)
        assert result is not None
        if self.random.random() < self.losses:  # the answer is lost: the client asks again, and says everything
            client.is_unheard = True
            return
        client.heard_ms = self.bench.clock.now_ms()
        if result.error in FENCED:
            client.epoch, client.owned, client.keeps = 0, frozenset(), frozenset()
            return
        if result.error:
            assert result.error in (ErrorCode.unreleased_instance_id, ErrorCode.fenced_instance_id)
            del self.clients[client.id]
            return
        client.is_unheard = client.acknowledges = False
        client.epoch = result.epoch
        target = told(result)
        if target is not None:
            client.keeps = (client.owned | client.keeps) - target
            client.owned = target
            client.acknowledges = True

    def check(self) -> None:
        now_ms = self.bench.clock.now_ms()
        seen: dict[Part, str] = {}
        for client in self.clients.values():
            if client.is_paused or now_ms - client.heard_ms >= SESSION_MS:
                continue
            for part in client.owned | client.keeps:
                assert part not in seen, f"{client.id} and {seen[part]} both have {part}"
                seen[part] = client.id

    def settle(self) -> None:
        self.losses = 0
        for client in self.clients.values():
            client.is_paused = False
        for _ in range(40):
            self.bench.home.advance(5_000)
            for client in [*self.clients.values()]:
                self._send(client)
            self.check()

    def read(self) -> set[Part]:
        """The partitions that some client is to read."""
        wanted = {each.subscription for each in self.clients.values()}
        topics = self.bench.catalog.values()
        return {part for each in topics for part in each.parts if each.name in wanted or REGEX in wanted}


@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(each, marks=pytest.mark.only_all) for each in range(8, 60))]
)
def test_a_partition_never_has_two_owners_and_in_the_end_has_one(seed: int) -> None:
    world = World(Random(seed))
    for _ in range(150):
        world.step()
    world.settle()
    owned = [part for each in world.clients.values() for part in each.owned]
    assert sorted(owned) == sorted(world.read())
