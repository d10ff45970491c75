"""Leaders: who is asked, what is remembered, and when it is asked for again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from pyspark_commitlog.classic.errors import BrokerUnreachableError
from pyspark_commitlog.classic.wire import leaders as module
from pyspark_commitlog.classic.wire.broker import Broker
from pyspark_commitlog.classic.wire.connection import Address, Connection
from pyspark_commitlog.classic.wire.leaders import Leaders
from tests.support.classic.old_brokers import NOBODY, OldBrokers

NOWHERE = Address("127.0.0.1", 1)


@pytest.fixture
def brokers() -> Iterator[OldBrokers]:
    with OldBrokers(2) as started:
        yield started


class Registered:
    """Counts how often the registered brokers are read."""

    def __init__(self, addresses: Mapping[int, Address]) -> None:
        self.addresses, self.reads = addresses, 0

    def __call__(self) -> list[Address]:
        self.reads += 1
        return [*self.addresses.values()]


def test_leaders_are_remembered_until_they_are_forgotten_or_their_broker_is_lost(brokers: OldBrokers) -> None:
    one, other = brokers.add("t", 0, [], 0), brokers.add("t", 1, [], 1)
    leaders = Leaders(brokers.registered().values, "the registry")
    assert leaders.of([one, other]) == {0: [one], 1: [other]}
    brokers.leaders |= {one: 1, other: 0}
    assert leaders.of([one, other]) == {0: [one], 1: [other]}
    leaders.forget(one)
    assert leaders.of([one, other]) == {1: [one, other]}
    leaders.lose(1)
    assert leaders.of([one, other]) == {1: [one], 0: [other]}
    assert leaders.broker(0) is leaders.broker(0)
    leaders.close()


def test_a_partition_without_a_leader_is_left_out_and_asked_for_again(
    brokers: OldBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = brokers.add("t", 0, []), brokers.add("t", 1, [], NOBODY)
    leaders = Leaders(brokers.registered().values, "the registry")
    assert leaders.of([one, other]) == {0: [one]}
    brokers.leaders[other] = 1
    monkeypatch.setattr(module, "PAUSE_S", 60.0)
    assert leaders.of([one, other], at_once=False) == {0: [one]}
    assert leaders.of([one, other]) == {0: [one], 1: [other]}
    leaders.close()


def test_the_registry_is_read_only_if_no_known_broker_answers(brokers: OldBrokers) -> None:
    one = brokers.add("t", 0, [], 1)
    registered = Registered({0: NOWHERE, 1: brokers.registered()[0]})
    leaders = Leaders(registered, "the registry")
    for _ in range(3):
        leaders.forget(one)
        assert leaders.of([one]) == {1: [one]}
    assert registered.reads == 1
    brokers.end(0)
    brokers.end(1)
    with OldBrokers() as others:
        one = others.add("t", 0, [])
        registered.addresses = others.registered()
        assert leaders.described(["t"]).partitions.keys() == {one}
        assert registered.reads == 2
        assert leaders.brokers == others.registered()
    leaders.close()


def test_an_error_says_where_addresses_come_from_and_why_none_answered() -> None:
    with pytest.raises(BrokerUnreachableError, match=r"no broker of a list answers: .*127\.0\.0\.1:1"):
        Leaders(lambda: [NOWHERE], "a list").described()
    with pytest.raises(BrokerUnreachableError, match="a list has no broker"):
        Leaders(list, "a list").described()


@pytest.mark.parametrize(("given_first", "ports"), [(False, [2, 1]), (True, [1, 2])])
def test_given_brokers_are_asked_after_known_ones_or_before_them(given_first: bool, ports: list[int]) -> None:
    asked = []

    def connect(address: Address) -> Broker:
        asked.append(address.port)
        return Broker(Connection(NOWHERE))

    leaders = Leaders(lambda: [Address("given", 1)], "a list", connect, given_first=given_first)
    leaders.brokers = {0: Address("known", 2)}
    with pytest.raises(BrokerUnreachableError):
        leaders.described()
    assert asked == ports
