"""Homes: the partition of an internal topic that a group or a transactional id belongs to, and whether it is led here.

The leader of the partition is the coordinator of the names in it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ...storage import positive_hash

KEPT_CHARACTERS_MAX = 255  # of a name whose hash is kept; clients choose names, of up to 32 KiB

_hash = lru_cache(maxsize=10_000)(positive_hash)


class Homes:
    """The partitions of one internal topic. For any thread."""

    def __init__(self, count: Callable[[], int] = lambda: 1, leads: Callable[[int], bool] = lambda _: True) -> None:
        """``count`` returns the number of partitions, ``leads`` whether this node leads one. By default this node is
        alone."""
        self._count, self._leads = count, leads

    def home_of(self, name: str) -> int:
        """Returns the partition of a name."""
        found = _hash(name) if len(name) <= KEPT_CHARACTERS_MAX else positive_hash(name)
        return found % self._count()

    def has(self, name: str) -> bool:
        """Whether this node is the coordinator of a name."""
        return self._leads(self.home_of(name))

    def leads(self, home: int) -> bool:
        """Whether this node is the coordinator of the names in a partition."""
        return self._leads(home)

    def own(self) -> set[int]:
        """Returns the partitions that this node has."""
        return {home for home in range(self._count()) if self._leads(home)}
