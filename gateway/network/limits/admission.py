"""Admission: which connections are accepted, by their number, their address, and whether they have logged in."""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Callable, Mapping
from threading import Lock
from typing import NamedTuple, Protocol

INT32_MAX = 2**31 - 1
FILES_SHARE = 4  # of the open files that the process may have, one in so many is kept for the log


class Newcomer(Protocol):
    """A connection that has not logged in yet."""

    def send_away(self, why: str) -> None:
        """Closes the connection. For any thread."""
        ...


class AdmissionLimits(NamedTuple):
    """Limits for the connections of all listeners."""

    most: int = INT32_MAX
    per_address: int = INT32_MAX
    of_addresses: Mapping[str, int] = {}  # other limits than ``per_address``
    per_second: int = INT32_MAX
    before_login: int = INT32_MAX


class Admission:
    """Counts the connections of a server. For any thread."""

    def __init__(self, limits: AdmissionLimits, quota_delay_s: Callable[[str], float] = lambda _: 0.0) -> None:
        """``quota_delay_s``: counts a connection of an address; returns how long it is to wait if that is too many."""
        self._limits, self.quota_delay_s = limits, quota_delay_s
        self._by_address = Counter[str]()
        self._newcomers: dict[Newcomer, None] = {}  # in the order in which they came
        self._allowance, self._allowed_at_s = float(limits.per_second), 0.0
        self._lock = Lock()  # Guards all fields.

    @property
    def of_addresses(self) -> Mapping[str, int]:
        """The limits in force that some addresses have of their own."""
        return self._limits.of_addresses

    def change(self, limits: AdmissionLimits) -> None:
        """Applies other limits to the connections that come from now on."""
        with self._lock:
            self._limits = limits

    def delay_s(self, now_s: float | None = None) -> float:
        """Returns for how long a new connection must wait to keep to the rate, and counts it; bursts last a second."""
        now_s = time.monotonic() if now_s is None else now_s
        with self._lock:
            rate = self._limits.per_second
            self._allowance = min(float(rate), self._allowance + (now_s - self._allowed_at_s) * rate) - 1
            self._allowed_at_s = now_s
            return max(0.0, -self._allowance / rate)

    def refuses(self, address: str) -> str | None:
        """Counts a connection and returns None, or returns the limit that it would exceed."""
        with self._lock:
            limits = self._limits
            total = self._by_address.total()
            if total >= limits.most:
                return "max.connections"
            if self._by_address[address] >= limits.of_addresses.get(address, limits.per_address):
                return "max.connections.per.ip"
            if total >= _descriptors_max():
                return "of open files (ulimit -n)"
            self._by_address[address] += 1
            return None

    def left(self, address: str) -> None:
        """Counts a connection that has ended."""
        with self._lock:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    def came(self, newcomer: Newcomer) -> None:
        """Counts a connection that has not logged in; if there are too many, sends away the one that came first."""
        with self._lock:
            self._newcomers[newcomer] = None
            is_full = len(self._newcomers) > self._limits.before_login
            first = next(iter(self._newcomers)) if is_full else None
            if first is not None:
                del self._newcomers[first]
        if first is not None:
            first.send_away("too many connections have not logged in, and this one was the first of them")

    def is_known(self, newcomer: Newcomer) -> None:
        """Counts a connection that has logged in, or ended."""
        with self._lock:
            self._newcomers.pop(newcomer, None)


def _descriptors_max() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return INT32_MAX if soft == resource.RLIM_INFINITY else soft - soft // FILES_SHARE
