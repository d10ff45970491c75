"""Places: which limit counts a request while it is in progress.

Each sort of requests has ``queued.max.requests`` places of its own, because requests of one sort wait for the same
threads. So those that wait for the disk of topics, say, never keep others from being read.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from .network.limits.quota import Quota


class Sort(Enum):
    """Requests that wait for the same threads; ``handlers/table`` assigns each kind of request to one sort."""

    LOGIN = auto()
    PRODUCE = auto()
    FETCH = auto()
    OFFSETS = auto()
    METADATA = auto()
    PRODUCER_IDS = auto()
    GROUPS = auto()
    TRANSACTIONS = auto()
    ADMIN = auto()  # of topics and their settings
    OTHERS = auto()


class Places:
    """The places of all requests in progress."""

    def __init__(self, limit: int, sorts: Mapping[int, Sort]) -> None:
        """``limit``: the number of requests of each sort. ``sorts``: the sort of each kind of request."""
        quotas = {sort: Quota(limit) for sort in Sort}
        self._others, self._before_login = quotas[Sort.OTHERS], Quota(limit)
        self._of_kinds: Mapping[bytes, Quota] = {key.to_bytes(2, "big"): quotas[sort] for key, sort in sorts.items()}

    def of(self, frame: memoryview, is_newcomer: bool) -> Quota:
        """Returns the count to which a request belongs. ``is_newcomer``: its client has not logged in yet."""
        if is_newcomer:
            return self._before_login
        return self._of_kinds.get(bytes(frame[:2]), self._others)
