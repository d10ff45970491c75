"""Leaders: which brokers lead partitions, as any broker of Kafka 0.8 and later reports it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ...storage import TopicPartition
from .broker import Broker
from .calls import Cluster, cluster
from .connection import Address, Connection
from .finding import first_answer

PAUSE_S = 0.2  # between two questions for a leader that is not known
_NOBODY = -1


class Leaders:
    """Asks for leaders, and remembers them until they are forgotten. For one thread at a time.

    After an error, call :meth:`forget` for a partition or :meth:`lose` for a broker: a later call then asks again.
    What asks raises BrokerUnreachableError if no broker answers, and the errors of ``given``.
    """

    def __init__(
        self,
        given: Callable[[], Iterable[Address]],
        where: str,
        connect: Callable[[Address], Broker] | None = None,
        *,
        given_first: bool = False,
    ) -> None:
        """``given``: reads addresses of brokers, which are asked if none of the last answer's brokers answers.

        ``where``: the source of these addresses, for errors. ``connect``: None: with the default terms.
        ``given_first``: ask the given brokers before those of the last answer, since a list takes no time to read.
        """
        self._given, self._where, self._given_first = given, where, given_first
        self._connect = connect or (lambda address: Broker(Connection(address)))
        self.brokers: Mapping[int, Address] = {}  # by id, as the last answer named them
        self._open: dict[Address, Broker] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._asked_s = -PAUSE_S

    def broker(self, node: int) -> Broker:
        """Returns one of :attr:`brokers`, on a connection that stays open."""
        address = self.brokers[node]
        if address not in self._open:
            self._open[address] = self._connect(address)
        return self._open[address]

    def described(self, topics: Sequence[str] | None = None) -> Cluster:
        """Returns what a broker knows of topics; None: of all. Brokers with auto-creation create missing topics."""
        found = first_answer(self._candidates(), self._connect, lambda broker: cluster(broker, topics), self._where)
        self.brokers = found.brokers
        return found

    def _candidates(self) -> Iterator[Address]:
        """Yields known brokers before the given ones, or after them: a registry may take long to read."""
        first, then = (self._given, self.brokers.values) if self._given_first else (self.brokers.values, self._given)
        asked = _shuffled(first())
        yield from asked
        yield from _shuffled(each for each in then() if each not in asked)

    def of(self, partitions: Iterable[TopicPartition], *, at_once: bool = True) -> dict[int, list[TopicPartition]]:
        """Returns partitions by the broker that leads them; partitions without a leader are left out.

        ``at_once``: ask for leaders that are not known, even if a broker was asked a moment ago.
        """
        wanted = list(partitions)
        missing = [each for each in wanted if self._leader(each) not in self.brokers]
        if missing and (at_once or time.monotonic() - self._asked_s >= PAUSE_S):
            self._asked_s = time.monotonic()
            there = self.described(sorted({each.topic for each in missing})).partitions
            self._leaders |= {each: there[each].leader for each in missing if each in there}
        found: dict[int, list[TopicPartition]] = {}
        for each in wanted:
            if (leader := self._leader(each)) in self.brokers:
                found.setdefault(leader, []).append(each)
        return found

    def _leader(self, partition: TopicPartition) -> int:
        return self._leaders.get(partition, _NOBODY)

    def forget(self, partition: TopicPartition) -> None:
        """Forgets the leader of a partition."""
        self._leaders.pop(partition, None)

    def lose(self, node: int) -> None:
        """Forgets what a broker leads that does not answer."""
        self._leaders = {each: leader for each, leader in self._leaders.items() if leader != node}

    def close(self) -> None:
        """Closes all connections and forgets everything: a later call begins with the given brokers."""
        self.brokers = {}
        self._leaders.clear()
        while self._open:
            self._open.popitem()[1].connection.close()


def _shuffled(addresses: Iterable[Address]) -> list[Address]:
    found = [*addresses]
    return random.sample(found, len(found))
