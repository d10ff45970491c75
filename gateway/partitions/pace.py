"""Pace: how long a sync waits for clients that were just answered and will send more, so that it serves them too.

A client has only a few requests in progress: five, by Java's default. If each sync begins with the first request that
arrives, the others miss it and wait for the next one, and every request takes the time of two syncs. So a sync waits
until as many requests are there as were in progress, at most for the time of the last sync. Where they do not come in
that time, as those of clients that send seldom, syncs stop waiting for a while.
"""

from __future__ import annotations

PATIENCE_MAX_S = 0.005
SKIPPED_MAX = 1024  # syncs that do not wait, after many that waited in vain


class Pace:
    """For one thread that syncs. Times are seconds of any clock."""

    def __init__(self) -> None:
        self.expected = 0  # requests that the next sync should serve
        self._until_s = 0.0  # the end of the wait
        self._has_waited = False
        self._vain = 0  # waits in a row that ended without all requests
        self._skipped = 0  # syncs that will not wait

    def patience_s(self, now_s: float, requests: int) -> float:
        """Returns how long to wait for more than ``requests`` requests; 0: the sync should begin."""
        if self._skipped or requests >= self.expected or now_s >= self._until_s:
            return 0.0
        self._has_waited = True
        return self._until_s - now_s

    def begin(self, requests: int) -> None:
        """Notes that a sync begins for ``requests``, to learn whether the wait paid off."""
        if self._skipped:
            self._skipped -= 1
        elif self._has_waited:
            self._vain = self._vain + 1 if requests < self.expected else 0
            self._skipped = min(2**self._vain, SKIPPED_MAX) if self._vain else 0
        self._has_waited = False

    def note(self, now_s: float, took_s: float, answered: int, waiting: int, *, alone: bool) -> None:
        """Notes the end of a sync for ``answered`` requests, which took ``took_s``; ``waiting`` others have arrived.

        ``alone``: no other partition was synced in the same round, whose requests would be counted as well.
        """
        self.expected = answered + waiting if alone else 0
        self._until_s = now_s + min(took_s, PATIENCE_MAX_S)
