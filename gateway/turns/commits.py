"""TurnCommits: has the plain batches of one turn added by the next commit to a log on an object store.

The commit decides their offsets, and which are refused. Until then the answers wait, without offsets. Batches are
copied, for the turn's memory is used again.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import partial

from ...storage import AppendInfo, CheckedBatch, FoundFrame, surveyed_batch
from ..figures import Figures
from ..network.connection import Connection
from ..partitions.appending import Append
from ..partitions.bucket.appender import BucketAppender
from ..partitions.bucket.partition import NO_OFFSET, BucketPartition
from .answers import Placed, TurnAnswer
from .appends import Arrived, Done, TurnAppends, may_be_idempotent

_PLACE = struct.Struct(">qq")  # the offset, and the time that the log has set
_LOG_START = struct.Struct(">q")
_LOG_START_FROM = 5  # the first version of Produce that has it, after these


class TurnCommits(TurnAppends[BucketPartition]):
    """Gives the appender its batches in :meth:`finish`, when their answers have their places."""

    def __init__(self, arrived: Arrived[BucketPartition], *, appender: BucketAppender, figures: Figures) -> None:
        super().__init__(arrived)
        self._appender, self._figures = appender, figures
        self._batches: dict[int, tuple[BucketPartition, CheckedBatch]] = {}  # by their numbers, in order

    def _has_taken(self, connection: Connection, frame: FoundFrame) -> bool:
        if frame.id_bytes:  # whether its transaction is open, the usual way knows
            return False
        numbers = range(frame.first, frame.stop)
        found = [self._partition(connection, number) for number in numbers]
        led = [each for each in found if each is not None]
        if len(led) < len(found):
            return False
        for number, each in zip(numbers, led, strict=True):
            self._batches[number] = each, self._checked(number, each)
        return True

    def _partition(self, connection: Connection, number: int) -> BucketPartition | None:
        """Returns the partition of a batch that may be given to the appender; None: it must go the usual way."""
        found = self._found.batches[number]
        is_allowed = self._known.may_write(connection.session.client, found.part)
        if is_allowed and may_be_idempotent(found.producer_id) and self._are_whole[number]:
            return self._known.current(found.part)
        return None

    def _checked(self, number: int, led: BucketPartition) -> CheckedBatch:
        """Returns a copy of a batch with what its check found."""
        found = self._found.batches[number]
        data = memoryview(bytes(self._data(found)))
        if found.codec:
            return self._decompressed[number]._replace(data=data)
        return surveyed_batch(data, led.config, found.smallest_timestamp)

    def write(self) -> None:
        """Nothing: the commit comes after the turn."""

    def end(self) -> None:
        """Nothing: no partition was held."""

    def answer(self, connection: Connection, data: bytes, frames: Sequence[FoundFrame], done: Done) -> CommitAnswer:
        numbers = range(frames[0].first, frames[-1].stop)
        led = {number: self._batches[number][0] for number in numbers}
        at = dict(zip(numbers, self._tables.offset_positions(numbers.start, numbers.stop), strict=True))
        return CommitAnswer(connection, data, frames, led, at, done, self._figures)

    def finish(self, answers: Sequence[TurnAnswer]) -> None:
        """Gives the batches to the appender, in their order."""
        appends = []
        for answer in answers:
            assert isinstance(answer, CommitAnswer)
            for each in answer.batches:
                led, batch = self._batches[each.key]
                appends.append(Append(led, batch, partial(answer.on_result, each.key)))
        if appends:
            self._appender.append_all(appends)


class CommitAnswer(TurnAnswer):
    """Answers to requests of one connection, which wait for the result of each of their batches."""

    def __init__(
        self,
        connection: Connection,
        data: bytes,
        frames: Sequence[FoundFrame],
        led: Mapping[int, BucketPartition],
        positions: Mapping[int, int],
        done: Done,
        figures: Figures,
    ) -> None:
        """``data``: the answers but for offsets, which are at ``positions``. ``led``: where each batch belongs."""
        self._own = {number: Placed(number, each, NO_OFFSET, NO_OFFSET) for number, each in led.items()}
        super().__init__(connection, data, frames, self._own, done)
        self._positions, self._figures = positions, figures
        self._results: dict[int, AppendInfo | Exception] = {}

    def on_result(self, number: int, result: AppendInfo | Exception) -> None:
        """Takes the result of a batch; after the last one, the answers are complete and sent. For the appender."""
        self._results[number] = result
        if len(self._results) == len(self._own):
            self.connection.processor.call_soon(self._on_results)

    def _on_results(self) -> None:
        for number, result in self._results.items():
            if isinstance(result, Exception):
                self.fail(number, result)
            else:
                self._place(self._own[number], result)
        self._put_offsets()
        self.complete()
        self._results.clear()  # the traceback of an error refers to the batches, and these to this
        self._failures.clear()
        self.connection.flush_soon()

    def _place(self, batch: Placed, result: AppendInfo) -> None:
        self._own[batch.key] = batch._replace(
            offset=result.first_offset,
            log_start=batch.led.log_start_offset,
            log_append_time_ms=result.log_append_time_ms,
        )
        if not result.duplicate:
            self._figures.appended(batch.led.topic, result.last_offset - result.first_offset + 1, result.size)

    def _put_offsets(self) -> None:
        data = bytearray(self._data)
        for frame in self._frames:
            for number in range(frame.first, frame.stop) if frame.acks else ():
                at, batch = self._positions[number], self._own[number]
                _PLACE.pack_into(data, at, batch.offset, batch.log_append_time_ms)
                if frame.version >= _LOG_START_FROM:
                    _LOG_START.pack_into(data, at + _PLACE.size, batch.log_start)
        self._data = bytes(data)
