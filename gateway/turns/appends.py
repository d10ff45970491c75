"""TurnAppends: takes the plain requests of one turn, and has their batches appended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Generic, NamedTuple

from crc32c import crc32c

from ...storage import (
    CheckedBatch,
    Found,
    FoundBatch,
    FoundConnection,
    FoundFrame,
    ProduceTables,
    is_of_driver,
    is_of_transactional_client,
)
from ..network.connection import Connection
from .answers import TurnAnswer
from .known import KnownPartitions, L

CHECKED_FROM = 21  # the first byte of a batch that its checksum covers

Done = Callable[[TurnAnswer], None]


class Arrived(NamedTuple, Generic[L]):
    """What has arrived in one turn, and was found by the kernels."""

    tables: ProduceTables
    known: KnownPartitions[L]
    found: Found
    stops: Mapping[int, bool]  # requests that must go the usual way, by ``CompressedChecks``
    decompressed: Mapping[int, CheckedBatch]  # the compressed batches that passed its checks, by their numbers


class Served(NamedTuple):
    """What was taken of a connection."""

    frames: Sequence[FoundFrame]
    is_busy: bool  # the next request only came after others of this process, and may be tried again


class TurnAppends(ABC, Generic[L]):
    """Takes requests in their order, up to the first of each connection that must go the usual way.

    ``writing`` appends them in a directory, ``commits`` on an object store. In a turn: :meth:`append` for each
    connection, :meth:`write` unless that failed, :meth:`end`; then :meth:`answer` for each connection, and
    :meth:`finish` with all answers.
    """

    def __init__(self, arrived: Arrived[L]) -> None:
        self._tables, self._known, self._found, self._stops, self._decompressed = arrived
        self._taken = 0  # requests
        self._is_busy = False  # whether the last request may be tried again

    def append(self, connection: Connection, found: FoundConnection, places: int) -> Served:
        """Takes the requests of a connection up to the first that cannot be taken.

        ``places``: how many requests of the turn may be in progress.
        """
        self._is_busy = False
        first, stop = found.frame_first, min(found.frame_stop, found.frame_first + places - self._taken)
        stopped = next((each for each in self._stops if first <= each < stop), None)
        number, stop = first, stop if stopped is None else stopped
        while number < stop and (count := self._take(connection, number, stop)):
            number += count
        if number == stopped:
            self._is_busy = self._stops[number]
        self._taken += number - first
        return Served(self._found.frames[first:number], self._is_busy)

    def _take(self, connection: Connection, number: int, stop: int) -> int:
        """Takes requests from ``number`` on, at least one unless that must go the usual way; returns how many."""
        return int(self._has_taken(connection, self._found.frames[number]))

    @abstractmethod
    def _has_taken(self, connection: Connection, frame: FoundFrame) -> bool:
        """Takes a request, if all of its batches can be appended now; otherwise nothing of it."""

    @cached_property
    def _are_whole(self) -> list[bool]:
        """Whether the checksums of batches are right; of compressed ones, they were checked."""
        memory = self._tables.memory
        return [
            bool(each.codec) or crc32c(memory[each.at + CHECKED_FROM : each.at + each.size]) == each.crc
            for each in self._found.batches
        ]

    def _data(self, found: FoundBatch) -> memoryview:
        return self._tables.memory[found.at : found.at + found.size]

    @abstractmethod
    def write(self) -> None:
        """Appends what was taken, if that is done within the turn."""

    @abstractmethod
    def end(self) -> None:
        """Gives back what was held for the turn."""

    @abstractmethod
    def answer(self, connection: Connection, data: bytes, frames: Sequence[FoundFrame], done: Done) -> TurnAnswer:
        """Returns the answer to the requests that were taken of a connection. ``data``, ``done``: as there."""

    @abstractmethod
    def finish(self, answers: Sequence[TurnAnswer]) -> None:
        """Sends the answers that need not wait, and has the others wait for their results; wakes readers."""


class End(NamedTuple, Generic[L]):
    """Where the turns of a gateway append."""

    kind: type[L]  # of partitions
    begin: Callable[[Arrived[L]], TurnAppends[L]]
    takes_large: bool  # whether it takes requests that memory counts: nothing of them is kept when the turn is over


def may_be_idempotent(producer_id: int) -> bool:
    """Whether a batch of no transaction may have a producer id; otherwise the usual way says why not."""
    return producer_id < 0 or not (is_of_driver(producer_id) or is_of_transactional_client(producer_id))
