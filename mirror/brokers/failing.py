"""Failing: since when partitions have no leader that answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from typing import Any, Generic, TypeVar

from ..errors import RetriableError
from .patience import PATIENCE_S

P = TypeVar("P", bound=tuple[Any, ...])  # a partition
_LOG = logging.getLogger(__name__)


class Failing(Generic[P]):
    """Lets the other partitions go on while some fail, and ends only what waits for those alone."""

    def __init__(self, cluster: object) -> None:
        """``cluster``: its name, in errors."""
        self._cluster = cluster
        self._since: dict[P, float] = {}
        self._logged: set[P] = set()

    def note(self, asked: Collection[P], answered: Collection[P]) -> bool:
        """Takes the outcome of one fetch. Returns whether some partition failed.

        A partition that has failed for a minute is logged once. Raises RetriableError if all of ``asked`` have.
        """
        now_s = time.monotonic()
        for partition in answered:
            self._note_back(partition)
        failing = sorted(set(asked).difference(answered))
        late = [each for each in failing if now_s - self._since.setdefault(each, now_s) > PATIENCE_S]
        if late and len(late) == len(asked):
            raise RetriableError(f"{self._cluster}: {late[0]} has no leader that answers")
        for partition in late:
            if partition not in self._logged:
                self._logged.add(partition)
                _LOG.warning("%s: %s has no leader that answers; others go on", self._cluster, partition)
        return bool(failing)

    def _note_back(self, partition: P) -> None:
        self._since.pop(partition, None)
        if partition in self._logged:
            self._logged.discard(partition)
            _LOG.warning("%s: %s has a leader again", self._cluster, partition)
