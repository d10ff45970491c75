"""TurnAnswer: the answers to requests of one connection that were appended in one turn, which may wait for syncs."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.apis import ApiKey
from ...protocol.headers import RequestHeader, answer_header
from ...protocol.produce import Produced, encode_produced
from ...storage import FoundFrame
from ..network.file_slice import Part
from ..partitions.led_partition import LedPartition
from .refusals import refused

if TYPE_CHECKING:
    from ..network.connection import Connection

_LENGTH = struct.Struct(">i")

logger = logging.getLogger(__name__)


class Placed(NamedTuple):
    """A batch that was given its offset."""

    key: int  # of the result that it waits for: the row of its partition in the table, or its own number
    led: LedPartition
    offset: int
    log_start: int
    log_append_time_ms: int = -1


class TurnAnswer:
    """Keeps its turn among the answers of a connection, as an ``Exchange`` does. Belongs to the connection's thread."""

    def __init__(
        self,
        connection: Connection,
        data: bytes,
        frames: Sequence[FoundFrame],
        placed: Mapping[int, Placed],
        done: Callable[[TurnAnswer], None],
    ) -> None:
        """``data``: the answers to ``frames`` if nothing fails. ``placed``: all batches of the turn, by their numbers.

        ``done`` is called when the answers are complete, before they are sent.
        """
        self.connection, self._data, self._frames, self._placed, self._done = connection, data, frames, placed, done
        self.requests = len(frames)
        self.parts: Sequence[Part] | None = None  # None: it waits
        self.overlaps, self.is_last = True, False
        self._waits = 0
        self._failures: dict[int, Exception] = {}  # by the keys of batches

    @property
    def batches(self) -> Iterator[Placed]:
        """The batches of its requests."""
        return (self._placed[number] for each in self._frames for number in range(each.first, each.stop))

    @property
    def failed(self) -> int:
        """How many batches failed."""
        return sum(1 for each in self.batches if each.key in self._failures) if self._failures else 0

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a partition."""
        return self._waits > 0

    def wait(self) -> None:
        """Waits for one more partition, until :meth:`on_synced`."""
        self._waits += 1

    def on_synced(self, key: int, failure: Exception | None) -> None:
        """Takes the result of a partition; after the last one, the answers are complete and sent."""
        self._waits -= 1
        if failure is not None:
            self.fail(key, failure)
        if not self._waits:
            self.complete()
            self.connection.flush()

    def fail(self, key: int, failure: Exception) -> None:
        """Notes that the batches with this key failed: they are answered with that."""
        self._failures[key] = failure

    def complete(self) -> None:
        """Makes the answers ready to be sent."""
        try:
            self.parts = [b"".join(self._encoded_all())] if self._failures else [self._data]
        except Exception:  # of ours
            logger.exception("answers with errors cannot be written; their connection is closed")
            self.connection.close()
        finally:
            self._done(self)

    def drop(self) -> None:
        """Drops the answers: the connection is closed."""
        self.parts = ()

    def _encoded_all(self) -> Iterator[bytes]:
        """Ends the connection where a request without an answer failed: nothing else tells its client."""
        for frame in self._frames:
            if frame.acks:
                yield self._encoded(frame)
            elif any(self._placed[number].key in self._failures for number in range(frame.first, frame.stop)):
                self.is_last = True
                return

    def _encoded(self, frame: FoundFrame) -> bytes:
        produced = [self._produced(self._placed[number]) for number in range(frame.first, frame.stop)]
        header = RequestHeader(ApiKey.PRODUCE, frame.version, frame.correlation_id, None, 0, is_served=True)
        answer = answer_header(header) + encode_produced(produced, frame.version)
        return _LENGTH.pack(len(answer)) + answer

    def _produced(self, batch: Placed) -> Produced:
        led, failure = batch.led, self._failures.get(batch.key)
        if failure is not None:
            return refused(led.topic, led.partition, failure, led)
        return Produced(
            led.topic,
            led.partition,
            base_offset=batch.offset,
            log_append_time_ms=batch.log_append_time_ms,
            log_start_offset=batch.log_start,
        )
