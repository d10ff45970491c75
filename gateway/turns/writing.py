"""TurnWrites: appends the plain batches of one turn, each partition's with one write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from crc32c import crc32c

from ...storage import (
    Found,
    FoundBatch,
    FoundConnection,
    FoundFrame,
    PlainAppends,
    PlainBatch,
    Producer,
    ProduceTables,
    TopicPartition,
    is_of_driver,
    is_of_transactional_client,
)
from ..network.connection import Connection
from ..partitions.appender import Appender
from ..partitions.file_partition import FilePartition
from .answers import Placed
from .known import KnownPartitions
from .transactions import OpenTransactions

CHECKED_FROM = 21  # the first byte of a batch that its checksum covers


class Served(NamedTuple):
    """What was taken of a connection."""

    frames: Sequence[FoundFrame]
    is_busy: bool  # the next request only came after others of this process, and may be tried again


class TurnWrites:
    """The partitions of one turn, which are held until :meth:`end`."""

    def __init__(
        self,
        tables: ProduceTables,
        known: KnownPartitions,
        found: Found,
        stops: Mapping[int, bool],
        transactions: OpenTransactions,
    ) -> None:
        """``stops``: requests that must go the usual way, by ``CompressedChecks``."""
        self._tables, self._known, self._found, self._stops = tables, known, found, stops
        self._transactions = transactions
        self._held: dict[int, tuple[FilePartition, PlainAppends] | None] = {}  # by row; None: it is not at hand
        self._taken = 0  # requests
        self._is_busy = False  # whether the last request may be tried again
        self.placed: dict[int, Placed] = {}  # by the numbers of batches
        self.written: dict[int, tuple[FilePartition, PlainAppends]] = {}  # by row, what succeeded
        self.failures: dict[int, Exception] = {}  # and what did not
        self.unsynced: set[int] = set()  # rows whose answers wait for a sync

    def append(self, connection: Connection, found: FoundConnection, places: int) -> Served:
        """Takes the requests of a connection up to the first that cannot be taken.

        ``places``: how many requests of the turn may be in progress.
        """
        self._is_busy = False
        number = found.frame_first
        while number < found.frame_stop and self._taken < places and self._has_taken(connection, number):
            self._taken += 1
            number += 1
        return Served(self._found.frames[found.frame_first : number], self._is_busy)

    def _has_taken(self, connection: Connection, number: int) -> bool:
        """Takes a request, if all of its batches can be appended now; otherwise nothing of it."""
        if number in self._stops:
            self._is_busy = self._stops[number]
            return False
        frame = self._found.frames[number]
        name = bytes(self._tables.memory[frame.id_at : frame.id_at + frame.id_bytes]).decode() or None
        taken = []
        for each in self._found.batches[frame.first : frame.stop]:
            checked = self._checked(connection, each, name)
            if checked is None:
                return False
            taken.append(checked)
        for at, (led, appends, batch) in enumerate(taken, frame.first):
            start = led.log_start_offset
            offset = appends.take(batch)
            self._tables.set_offset(at, offset, start)
            self.placed[at] = Placed(self._found.batches[at].part, led, offset, start)
        return True

    def _checked(
        self, connection: Connection, found: FoundBatch, transactional_id: str | None
    ) -> tuple[FilePartition, PlainAppends, PlainBatch] | None:
        """Returns a batch with what is to append it; None: it must go the usual way."""
        if found.part not in self._held:
            self._held[found.part] = self._known.begin(found.part)
        held = self._held[found.part]
        if held is None:
            self._is_busy = self._known.is_appending(found.part)
            return None
        led, appends = held
        client, producer = connection.session.client, Producer(found.producer_id, found.producer_epoch)
        if not self._known.may_write(client, found.part):
            return None
        if transactional_id is None:
            if producer.id >= 0 and (is_of_driver(producer.id) or is_of_transactional_client(producer.id)):
                return None
        elif not self._transactions.are_open(
            client, transactional_id, producer, TopicPartition(led.topic, led.partition)
        ):
            return None
        data = self._tables.memory[found.at : found.at + found.size]
        batch = PlainBatch(
            data, found.records, found.max_timestamp, *producer, found.sequence, transactional_id is not None
        )
        is_whole = found.codec or crc32c(data[CHECKED_FROM:]) == found.crc  # of a compressed batch, that was checked
        if not is_whole or not appends.may_take(batch):
            return None
        return led, appends, batch

    def write(self, appender: Appender) -> None:
        """Writes what was taken, partition by partition."""
        for row, held in self._held.items():
            if held is None or not held[1].count:
                continue
            try:
                held[1].write()
            except Exception as error:  # of the disk, or ours: each client gets an answer
                appender.note_failed(error)
                self.failures[row] = error
            else:
                self.written[row] = held
                if held[0].waits_for_sync:
                    self.unsynced.add(row)

    def end(self, appender: Appender) -> None:
        """Gives the partitions back."""
        for held in self._held.values():
            if held is not None:
                held[0].end_plain(held[1])
                appender.look_at(held[0])
