"""Throttle: measures what clients send and get, and returns how long they must wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from .entities import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Quotas,
)

BURST_S = {  # seconds whose unused quota may be used at once; for bytes one, like Kafka's windows
    PRODUCER_BYTE_RATE: 1.0,
    CONSUMER_BYTE_RATE: 1.0,
    REQUEST_PERCENTAGE: 10.0,  # ``quota.window.num`` without the one that has just begun
    CONTROLLER_MUTATION_RATE: 11.0,  # ``controller.quota.window.num`` of a bucket
    CONNECTION_CREATION_RATE: 10.0,
}
DELAY_MAX_S = 30.0  # limit of the wait after one answer; a client that owes more waits again after its next request
REQUESTS_DELAY_MAX_S = 1.0  # the same for the time of requests, as on a broker: one window
CLIENTS_MAX = 10_000  # limit of remembered clients that have exceeded their quotas


class _Account(NamedTuple):
    """What the clients that share a quota have used."""

    paid_until_s: float  # when all of it is paid for
    per_second: float  # the quota at that time


class Throttle:
    """The clients that share a quota have one account. For any thread.

    An account is the time at which everything used so far is paid for. Each use moves it ahead, by the amount divided
    by the rate. An account that is not ahead of the clock is the same as none, and is forgotten.
    """

    def __init__(self, current: Callable[[], Quotas], now_s: Callable[[], float] = time.monotonic) -> None:
        self._current, self._now_s = current, now_s
        self._lock = Lock()  # Guards the accounts.
        self._accounts: dict[tuple[str, object], _Account] = {}

    def may_limit(self, key: str) -> bool:
        """Whether any client has a quota of this kind."""
        return self._current().may_limit(key)

    def is_limited(self, key: str, user: str, client_id: str) -> bool:
        """Whether a client has a quota of this kind."""
        return self._current().limit(key, user, client_id) is not None

    def delay_s(self, key: str, user: str, client_id: str, size: float) -> float:
        """Counts the use of a client, and returns how long it must wait; 0: it has no quota, or keeps to it.

        ``size``: bytes; partitions that it makes or deletes; or time of a thread, in hundredths of a second.
        """
        limit = self._current().limit(key, user, client_id)
        if limit is None:
            return 0.0
        with self._lock:
            owed_s = self._pay((key, limit.shared_by), limit.per_second, size)
        return min(max(owed_s, 0.0), REQUESTS_DELAY_MAX_S if key == REQUEST_PERCENTAGE else DELAY_MAX_S)

    def owed_s(self, key: str, user: str, client_id: str) -> float:
        """Returns how long a client must still wait for its earlier use, at most as long as after one answer."""
        limit = self._current().limit(key, user, client_id)
        if limit is None:
            return 0.0
        with self._lock:
            owed_s = self._ahead_s((key, limit.shared_by), limit.per_second, self._now_s())
        return min(max(owed_s, 0.0), DELAY_MAX_S)

    def connection_delay_s(self, address: str) -> float:
        """Counts a connection of an address and returns 0; or counts nothing and returns how long to wait."""
        rate = self._current().connections_per_second(address)
        if rate is None:
            return 0.0
        account = CONNECTION_CREATION_RATE, address
        with self._lock:
            owed_s = self._ahead_s(account, rate, self._now_s()) + 1 / rate
            if owed_s <= 0:
                self._pay(account, rate, 1)
            return max(owed_s, 0.0)

    def _pay(self, account: tuple[str, object], per_second: float, size: float) -> float:
        """Moves an account ahead; returns how far it is ahead of the clock. The caller holds the lock."""
        now_s = self._now_s()
        ahead_s = self._ahead_s(account, per_second, now_s) + size / per_second
        self._accounts[account] = _Account(now_s + ahead_s, per_second)
        if len(self._accounts) > CLIENTS_MAX:
            self._forget(now_s)
        return ahead_s

    def _ahead_s(self, account: tuple[str, object], per_second: float, now_s: float) -> float:
        """Returns how far an account is ahead of the clock; negative: what may be used at once.

        What was used before the quota was raised is paid for at the new rate. Otherwise a quota that was too low by
        mistake would hold its clients for days after it was corrected.
        """
        found = self._accounts.get(account)
        if found is None:
            return -BURST_S[account[0]]
        ahead_s = found.paid_until_s - now_s
        if ahead_s > 0:
            return ahead_s * min(found.per_second / per_second, 1.0)
        return max(ahead_s, -BURST_S[account[0]])

    def _forget(self, now_s: float) -> None:
        """Forgets the accounts that owe least, to free half of the room."""
        owing = sorted(self._accounts.items(), key=lambda each: -each[1].paid_until_s)[: CLIENTS_MAX // 2]
        self._accounts = {account: each for account, each in owing if each.paid_until_s > now_s - BURST_S[account[0]]}
