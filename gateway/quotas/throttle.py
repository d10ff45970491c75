"""Throttle: measures what clients send and get, and returns how long they must wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

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


class Throttle:
    """The clients that share a quota have one account. For any thread.

    An account is the time at which everything used so far is paid for. Each use moves it ahead, by the amount divided
    by the rate. An account that is not ahead of the clock is the same as none, and is forgotten.
    """

    def __init__(self, current: Callable[[], Quotas], now_s: Callable[[], float] = time.monotonic) -> None:
        self._current, self._now_s = current, now_s
        self._lock = Lock()  # Guards the accounts.
        self._paid_until_s: dict[tuple[str, object], float] = {}

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
            owed_s = self._pay((key, limit.shared_by), BURST_S[key], size / limit.per_second)
        return min(max(owed_s, 0.0), REQUESTS_DELAY_MAX_S if key == REQUEST_PERCENTAGE else DELAY_MAX_S)

    def owed_s(self, key: str, user: str, client_id: str) -> float:
        """Returns how long a client must still wait for its earlier use, at most as long as after one answer."""
        limit = self._current().limit(key, user, client_id)
        if limit is None:
            return 0.0
        with self._lock:
            owed_s = self._paid_until_s.get((key, limit.shared_by), 0.0) - self._now_s()
        return min(max(owed_s, 0.0), DELAY_MAX_S)

    def connection_delay_s(self, address: str) -> float:
        """Counts a connection of an address and returns 0; or counts nothing and returns how long to wait."""
        rate = self._current().connections_per_second(address)
        if rate is None:
            return 0.0
        account, burst_s = (CONNECTION_CREATION_RATE, address), BURST_S[CONNECTION_CREATION_RATE]
        with self._lock:
            owed_s = max(self._paid_until_s.get(account, 0.0) - self._now_s(), -burst_s) + 1 / rate
            if owed_s <= 0:
                self._pay(account, burst_s, 1 / rate)
            return max(owed_s, 0.0)

    def _pay(self, account: tuple[str, object], burst_s: float, cost_s: float) -> float:
        """Moves an account ahead; returns how far it is ahead of the clock. The caller holds the lock."""
        now_s = self._now_s()
        until_s = max(self._paid_until_s.get(account, 0.0), now_s - burst_s) + cost_s
        self._paid_until_s[account] = until_s
        if len(self._paid_until_s) > CLIENTS_MAX:
            self._forget(now_s)
        return until_s - now_s

    def _forget(self, now_s: float) -> None:
        """Forgets the accounts that owe least, to free half of the room."""
        owing = sorted(self._paid_until_s.items(), key=lambda each: -each[1])[: CLIENTS_MAX // 2]
        self._paid_until_s = {account: until_s for account, until_s in owing if until_s > now_s - BURST_S[account[0]]}
