"""How long clients wait who use more than their quota."""

from __future__ import annotations

import pytest

from pyspark_commitlog.gateway.quotas import throttle
from pyspark_commitlog.gateway.quotas.entities import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, Entity, Quotas
from pyspark_commitlog.gateway.quotas.throttle import Throttle

RATE = 1_000_000


class Clients:
    """Clients of a throttle, with a clock of their own."""

    def __init__(self, **names: str | None) -> None:
        self.now_s = 100.0
        self._entity = Entity.of({each.replace("_", "-"): name for each, name in names.items()})
        self.throttle = Throttle(lambda: self._quotas, lambda: self.now_s)
        self.set_rate(RATE)

    def set_rate(self, per_second: int) -> None:
        self._quotas = Quotas({self._entity: {PRODUCER_BYTE_RATE: float(per_second)}})

    def send(self, size: int, user: str = "alice", client_id: str = "app") -> float:
        return self.throttle.delay_s(PRODUCER_BYTE_RATE, user, client_id, size)


@pytest.mark.parametrize("size", [1_000, 16_384, 1_000_000, 5_000_000])
def test_a_client_that_waits_as_it_is_told_keeps_to_its_rate(size: int) -> None:
    clients = Clients(user="alice")
    sent, began_s = 0, clients.now_s
    while clients.now_s < began_s + 60:
        sent += size
        clients.now_s += clients.send(size) + 1e-6
    assert sent / RATE == pytest.approx(clients.now_s - began_s, abs=throttle.BURST_S[PRODUCER_BYTE_RATE] + 0.01)


def test_a_client_below_its_rate_never_waits() -> None:
    clients = Clients(user=None)
    for _ in range(1000):
        assert clients.send(RATE // 100) == 0
        clients.now_s += 0.0101


def test_what_was_not_used_for_long_may_not_be_used_at_once() -> None:
    clients = Clients(user="alice")
    clients.send(1)
    clients.now_s += 3600
    assert clients.send(int(RATE * throttle.BURST_S[PRODUCER_BYTE_RATE])) == 0
    assert clients.send(RATE) == pytest.approx(1)


def test_all_clients_of_a_user_share_its_quota_and_those_of_a_default_do_not() -> None:
    clients = Clients(user="alice")
    clients.send(2 * RATE, client_id="one")
    assert clients.send(1, client_id="two") > 0.9
    clients = Clients(client_id=None)
    clients.send(2 * RATE, client_id="one")
    assert clients.send(1, client_id="two") == 0
    assert clients.send(1, user="bob", client_id="one") > 0.9


def test_no_answer_delays_for_longer_than_the_limit_and_what_is_owed_stays() -> None:
    clients = Clients(user="alice")
    assert clients.send(100 * RATE) == throttle.DELAY_MAX_S
    clients.now_s += throttle.DELAY_MAX_S
    assert clients.send(0) == throttle.DELAY_MAX_S


def test_a_refusal_for_earlier_use_tells_the_client_to_wait_no_longer_than_the_limit() -> None:
    clients = Clients(user="alice")
    clients.send(100 * RATE)
    assert clients.throttle.owed_s(PRODUCER_BYTE_RATE, "alice", "app") == throttle.DELAY_MAX_S
    clients.now_s += 90
    assert 0 < clients.throttle.owed_s(PRODUCER_BYTE_RATE, "alice", "app") <= 10


def test_after_a_quota_was_raised_clients_do_not_wait_for_what_they_owed_at_the_lower_one() -> None:
    clients = Clients(user="alice")
    clients.set_rate(1)  # a mistake: a million times too low
    assert clients.send(2 * RATE) == throttle.DELAY_MAX_S
    clients.set_rate(RATE)
    assert clients.send(0) == pytest.approx(2, abs=0.01)  # what it has used still counts
    clients.now_s += 3
    assert clients.send(0) == 0


def test_a_quota_that_is_lowered_makes_nobody_wait_longer_for_earlier_bytes() -> None:
    clients = Clients(user="alice")
    assert clients.send(3 * RATE) == 2
    clients.set_rate(1)
    assert clients.send(0) == 2


def test_bytes_of_another_kind_do_not_count() -> None:
    clients = Clients(user="alice")
    assert clients.throttle.delay_s(CONSUMER_BYTE_RATE, "alice", "app", 100 * RATE) == 0
    assert clients.send(1) == 0


def test_the_memory_of_many_clients_is_bounded_and_keeps_those_that_owe_most() -> None:
    clients = Clients(client_id=None)
    clients.send(20 * RATE, client_id="greedy")
    for number in range(throttle.CLIENTS_MAX + 10):
        clients.send(1, client_id=str(number))
    assert len(clients.throttle._accounts) <= throttle.CLIENTS_MAX
    assert clients.send(0, client_id="greedy") > 10
