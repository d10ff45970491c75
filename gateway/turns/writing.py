"""TurnWrites: appends the plain batches of one turn to a log directory, each partition's with one write."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property, partial

from ...storage import FoundFrame, PlainAppends, PlainBatch, Producer, ProduceTables, TopicPartition
from ..figures import Figures
from ..network.connection import Connection
from ..partitions.appender import Appender
from ..partitions.file_partition import FilePartition
from ..partitions.syncer import Call
from .answers import Placed, TurnAnswer
from .appends import Arrived, Done, TurnAppends, may_be_idempotent
from .transactions import OpenTransactions


class TurnWrites(TurnAppends[FilePartition]):
    """The partitions of one turn, which are held until :meth:`end`."""

    def __init__(
        self, arrived: Arrived[FilePartition], *, appender: Appender, figures: Figures, transactions: OpenTransactions
    ) -> None:
        super().__init__(arrived)
        self._appender, self._figures, self._transactions = appender, figures, transactions
        self._held: dict[int, tuple[FilePartition, PlainAppends] | None] = {}  # by row; None: it is not at hand
        self._placed: dict[int, Placed] = {}  # by the numbers of batches
        self._rows: defaultdict[Connection, set[int]] = defaultdict(set)  # what was taken of each connection
        self._written: dict[int, tuple[FilePartition, PlainAppends]] = {}  # by row, what succeeded
        self._failures: dict[int, Exception] = {}  # and what did not
        self._unsynced: set[int] = set()  # rows whose answers wait for a sync

    def _take(self, connection: Connection, number: int, stop: int) -> int:
        return self._take_run(connection, number, stop) or super()._take(connection, number, stop)

    def _take_run(self, connection: Connection, number: int, stop: int) -> int:
        """Takes requests that have one batch each, of the same producer for the same partition; returns how many."""
        frame = self._found.frames[number]
        first = self._found.batches[frame.first]
        held = self._at_hand(first.part)
        is_allowed = self._known.may_write(connection.session.client, first.part)
        if held is None or not is_allowed or not may_be_idempotent(first.producer_id):
            return 0
        led, appends = held
        start = led.log_start_offset
        offsets = appends.take_run(self._wholes, number, stop, first, start)
        if offsets:
            self._rows[connection].add(first.part)
        for at, offset in enumerate(offsets, frame.first):
            self._placed[at] = Placed(first.part, led, offset, start)
        return len(offsets)

    @cached_property
    def _wholes(self) -> ProduceTables:
        """The tables, once they have whose checksums are right."""
        self._tables.set_whole(self._are_whole)
        return self._tables

    def _has_taken(self, connection: Connection, frame: FoundFrame) -> bool:
        name = bytes(self._tables.memory[frame.id_at : frame.id_at + frame.id_bytes]).decode() or None
        taken = []
        for number in range(frame.first, frame.stop):
            checked = self._checked(connection, number, name)
            if checked is None:
                return False
            taken.append(checked)
        for at, (led, appends, batch) in enumerate(taken, frame.first):
            start = led.log_start_offset
            offset = appends.take(batch)
            self._tables.set_offset(at, offset, start)
            row = self._found.batches[at].part
            self._rows[connection].add(row)
            self._placed[at] = Placed(row, led, offset, start)
        return True

    def _checked(
        self, connection: Connection, number: int, transactional_id: str | None
    ) -> tuple[FilePartition, PlainAppends, PlainBatch] | None:
        """Returns a batch with what is to append it; None: it must go the usual way."""
        found = self._found.batches[number]
        held = self._at_hand(found.part)
        if held is None:
            self._is_busy = self._known.last(found.part).is_appending
            return None
        led, appends = held
        client, producer = connection.session.client, Producer(found.producer_id, found.producer_epoch)
        if not self._known.may_write(client, found.part):
            return None
        if transactional_id is None:
            if not may_be_idempotent(producer.id):
                return None
        elif not self._transactions.are_open(
            client, transactional_id, producer, TopicPartition(led.topic, led.partition)
        ):
            return None
        batch = PlainBatch(
            self._data(found),
            found.records,
            found.max_timestamp,
            *producer,
            found.sequence,
            transactional_id is not None,
        )
        return (led, appends, batch) if self._are_whole[number] and appends.may_take(batch) else None

    def _at_hand(self, row: int) -> tuple[FilePartition, PlainAppends] | None:
        if row not in self._held:
            self._held[row] = self._begun(row)
        return self._held[row]

    def _begun(self, row: int) -> tuple[FilePartition, PlainAppends] | None:
        """Takes a partition for appends, as :meth:`FilePartition.begin_plain`; None: its batches go the usual way."""
        led = self._known.current(row)
        appends = None if led is None else led.begin_plain()
        return None if led is None or appends is None else (led, appends)

    def write(self) -> None:
        """Writes what was taken, partition by partition."""
        for row, held in self._held.items():
            if held is None or not held[1].count:
                continue
            try:
                held[1].write()
            except Exception as error:  # of the disk, or ours: each client gets an answer
                self._appender.note_failed(error)
                self._failures[row] = error
            else:
                self._written[row] = held
                if held[0].waits_for_sync:
                    self._unsynced.add(row)

    def end(self) -> None:
        """Gives the partitions back."""
        for held in self._held.values():
            if held is not None:
                held[0].end_plain(held[1])
                self._appender.look_at(held[0])

    def answer(self, connection: Connection, data: bytes, frames: Sequence[FoundFrame], done: Done) -> TurnAnswer:
        return TurnAnswer(connection, data, frames, self._placed, done)

    def finish(self, answers: Sequence[TurnAnswer]) -> None:
        """Sends the answers that need no sync, and has the others wait for theirs; wakes readers."""
        waiting: dict[int, list[TurnAnswer]] = {}
        for answer in answers:
            for row in self._rows[answer.connection]:
                failure = self._failures.get(row)
                if failure is not None:
                    answer.fail(row, failure)
                elif row in self._unsynced:
                    answer.wait()
                    waiting.setdefault(row, []).append(answer)
            if not answer.is_waiting:
                answer.complete()
                answer.connection.flush()
        for row, (led, appends) in self._written.items():
            counted = partial(self._count, led.topic, appends.records, appends.size, appends.count)
            if row in waiting:
                soon = waiting[row][0].connection.processor.call_soon
                calls = [Call(partial(each.on_synced, row), soon, each.requests) for each in waiting[row]]
                self._appender.show(led, [Call(counted, soon, 0), *calls])
            else:
                counted(None)
                self._appender.show(led, [])

    def _count(self, topic: str, records: int, size: int, batches: int, failure: Exception | None) -> None:
        if failure is None:
            self._figures.appended(topic, records, size, batches)
