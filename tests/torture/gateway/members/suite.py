"""Random schedules of a group of both protocols, beside one gateway or two over one directory that are killed.

Members of the classic and the consumer protocol, some of them static, come, leave, do not poll for a while, are
stopped and killed, while a producer writes, topics grow and a node is killed and started again. Then there is peace:
two members that read all topics take the place of all others. At any moment a member may process a partition it has
one owner; each record is read, and twice only if it was not committed; no commit goes back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import confluent_kafka as rdkafka
from confluent_kafka.admin import AdminClient, NewPartitions

from pyspark_commitlog.storage import LogManager
from tests.torture.gateway.clients import PATIENT, Client, Told, finish
from tests.torture.gateway.members.history import Place, committed, faults, is_forgotten, read_log, second_lookups
from tests.torture.gateway.members.lives import CLASSIC, CONSUMER, LIMIT_S, SERVED, Member
from tests.torture.gateway.server import Server
from tests.torture.suite import Run, Suite

TOPICS = {"one": 3, "two": 1}  # and their partitions at first
PARTITIONS_MAX = 8
ALL = ["one", "two"]
SUBSCRIPTIONS = (ALL, ALL, ["^(one|two)$"], ["one"])
MEMBERS_MAX = 6
EVENTS = 10
PAUSE_S = (0.2, 1.4)  # between two events
AWAY_S = (0.3, 6.0)  # how long a member is stopped, or does not poll
DOWN_S = (0.0, 0.0, 0.5, 1.5)  # between a node's kill and its start
SEND_EVERY_S = 0.02


class Schedule:
    """A group, its gateways and what happened to them."""

    def __init__(self, directory: Path, servers: list[Server], chance: Random) -> None:
        self.told = Told()
        self.partitions = dict(TOPICS)
        self.sent: dict[Place, dict[int, int]] = {}
        self.members: list[Member] = []
        self.gone: list[Member] = []
        self.stuck: list[Member] = []  # that did not leave
        self._directory, self._servers, self._chance = directory, servers, chance
        self._bootstrap = ",".join(each.bootstrap for each in servers)
        self._assignor = {"partition.assignment.strategy": chance.choice(("range", "roundrobin", "cooperative-sticky"))}
        self._count = 0
        self._go_on_s: dict[Member, float] = {}

    @property
    def all_members(self) -> list[Member]:
        return [*self.gone, *self.members]

    # What happens

    def come(self) -> None:
        """A member comes; a static one under an id that a dead one had, if there is one."""
        if len(self.members) < MEMBERS_MAX:
            protocol = self._chance.choice((CLASSIC, CONSUMER))
            self.enter(protocol, self._chance.choice(SUBSCRIPTIONS), is_static=self._chance.random() < 0.3)

    def enter(self, protocol: dict[str, Any], topics: list[str], *, is_static: bool = False) -> None:
        taken = {each.instance for each in self.members}
        free = [each for each in ("a", "b", "c") if each not in taken]
        instance = self._chance.choice(free) if is_static and free else None
        own = {**protocol, **self._assignor} if protocol is CLASSIC else protocol
        name = f"{self._count}-{protocol['group.protocol']}-{instance or ''}"
        self._count += 1
        own_chance = Random(self._chance.random())
        self.members.append(Member(name, self._directory, self._bootstrap, own_chance, topics, own, instance))

    def leave(self) -> None:
        if member := self._any():
            self._leaves(member)

    def kill(self) -> None:
        if member := self._any():
            self.members.remove(member)
            self.gone.append(member)
            member.kill()

    def stop(self) -> None:
        """A member's process is stopped, and goes on later."""
        if member := self._any():
            member.stop()
            self._go_on_s[member] = time.monotonic() + self._chance.uniform(*AWAY_S)

    def rest(self) -> None:
        if member := self._any():
            member.rest(self._chance.uniform(*AWAY_S))

    def grow(self) -> None:
        """A topic gets more partitions."""
        topic = self._chance.choice(ALL)
        count = min(self.partitions[topic] + self._chance.randint(1, 2), PARTITIONS_MAX)
        if count > self.partitions[topic]:
            admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
            admin.create_partitions([NewPartitions(topic, count)])[topic].result(LIMIT_S)
            self.partitions[topic] = count

    def kill_node(self) -> None:
        server = self._chance.choice(self._servers)
        server.kill()
        self.pause(self._chance.choice(DOWN_S))
        server.start()

    def pause(self, seconds: float) -> None:
        """So long nothing else happens, but that members go on that were stopped."""
        end_s = time.monotonic() + seconds
        while True:
            for member, due_s in [*self._go_on_s.items()]:
                if due_s <= time.monotonic():
                    self.go_on(member)
            if time.monotonic() >= end_s:
                return
            time.sleep(0.02)

    def go_on(self, member: Member) -> None:
        del self._go_on_s[member]
        member.go_on()

    def _any(self) -> Member | None:
        free = [each for each in self.members if not each.is_stopped]
        return self._chance.choice(free) if free else None

    # How it ends

    def settle(self, producer: Client) -> None:
        """Peace: two members that read all topics come, the others leave, and everything is read and committed."""
        for member in [*self._go_on_s]:
            self.go_on(member)
        while self.members:
            self._leaves(self.members[0])
        for protocol in self._chance.sample((CLASSIC, CONSUMER), 2):
            self.enter(protocol, ALL)
        self._wait(self.gone)
        finish([producer])
        end_s = time.monotonic() + LIMIT_S
        while late := self._uncommitted():
            assert time.monotonic() < end_s, f"records are never committed: {late}"
            time.sleep(0.2)
        while self.members:
            self._leaves(self.members[0])
        self._wait(self.gone)

    def _leaves(self, member: Member) -> None:
        self.members.remove(member)
        self.gone.append(member)
        member.leave()

    def _wait(self, members: list[Member]) -> None:
        self.stuck += [each for each in members if not each.was_killed and not each.has_left()]

    def _uncommitted(self) -> dict[Place, tuple[int, int]]:
        """By partition whose records are not committed: what is committed, and where the records end."""
        found = committed(each.life() for each in self.all_members)
        ends = {place: max(values) + 1 for place, values in self.sent.items()}
        return {place: (found[place], end) for place, end in ends.items() if found[place] < end}

    def produce(self, ending: Event) -> None:
        """Writes to all partitions that there are, and to each of them at last."""
        producer = rdkafka.Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "topic.metadata.refresh.interval.ms": 500,
                **PATIENT,
            }
        )
        chance, number = Random(0), 0
        while not ending.wait(SEND_EVERY_S):
            topic = chance.choice(ALL)
            self._send(producer, topic, chance.randrange(self.partitions[topic]), number)
            number += 1
        for topic, count in self.partitions.items():
            for partition in range(count):
                self._send(producer, topic, partition, number)
                number += 1
        assert producer.flush(LIMIT_S) == 0, "the producer could not send all"

    def _send(self, producer: Any, topic: str, partition: int, number: int) -> None:
        def delivered(error: object, message: Any) -> None:
            if error is None:
                self.sent.setdefault(Place(topic, partition), {})[message.offset()] = number
            else:
                self.told.notes["refused records"] += 1

        try:
            producer.produce(topic, b"%d" % number, partition=partition, on_delivery=delivered)
        except rdkafka.KafkaException:  # it does not know the new partition yet
            self.told.notes["records for partitions not known yet"] += 1
        producer.poll(0)


# By event: how often it is drawn beside the others.
CHANCES = {
    Schedule.come: 5,
    Schedule.leave: 2,
    Schedule.kill: 2,
    Schedule.stop: 2,
    Schedule.rest: 2,
    Schedule.grow: 2,
    Schedule.kill_node: 2,
}


@contextmanager
def serving(directory: Path, count: int) -> Iterator[list[Server]]:
    """So many gateways over one directory, which are killed in the end."""
    with LogManager.open(str(directory), create=True) as manager:
        for topic, partitions in TOPICS.items():
            manager.create_topic(topic, partitions=partitions)
    servers: list[Server] = []
    try:
        for node in range(1, count + 1):
            log = directory.with_name(f"{directory.name}-{node}.stderr")
            servers.append(Server(directory, log=log, node_id=node, **SERVED))
            servers[-1].start()
        yield servers
    finally:
        for each in servers:
            each.kill()


def live(run: Run, chance: Random, directory: Path) -> None:
    """A schedule: events, peace, and the comparison."""
    notes = directory.with_name(f"{directory.name}-members")
    notes.mkdir()
    with serving(directory, chance.choice((1, 2))) as servers:
        schedule = Schedule(notes, servers, chance)
        producer = Client(schedule.produce, schedule.told)
        try:
            producer.start()
            for _ in range(3):
                schedule.come()
            schedule.pause(2)
            for _ in range(EVENTS):
                schedule.pause(chance.uniform(*PAUSE_S))
                (event,) = chance.choices([*CHANCES], [*CHANCES.values()])
                event(schedule)
                run.note(event.__name__)
            schedule.settle(producer)
        finally:
            for member in schedule.all_members:
                member.end()
        _compare(run, schedule, servers)


def _compare(run: Run, schedule: Schedule, servers: list[Server]) -> None:
    assert not schedule.told.faults, schedule.told.faults[:3]
    lives = [each.life() for each in schedule.all_members]
    log = read_log(each.log.read_text() for each in servers)
    found = faults(lives, schedule.sent, log)
    assert not found, found[:5]
    # librdkafka 2.16 can wait for ever in close(), without a heartbeat: then its session must have ended.
    waited_for = [each.name for each in schedule.stuck if not is_forgotten(each.life(), log)]
    assert not waited_for, f"members never leave, and are not removed: {waited_for}"
    run.note("members that never left", len(schedule.stuck))
    run.note("starts that librdkafka looked up twice", second_lookups(lives, log))
    for each in servers:
        each.check_log()
    run.note("records", sum(map(len, schedule.sent.values())))
    run.note("turns", sum(note.kind == "assigned" for life in lives for note in life.notes))
    run.note("members", len(lives))
    run.note("members removed", sum("is removed" in line for each in servers for line in each.log.open()))


def run(run: Run) -> None:
    for case in run.cases():
        with run.watching(case, "a schedule"):
            live(run, case.chance, run.directory / f"{case.number}")
        run.passed()


SUITE = Suite("schedules", 50, run)
