"""PositionBroker: the requests of Kafka 0.7 to one broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from ...storage import CorruptRecordError, LogStoreError, OffsetOutOfRangeError
from ..errors import BrokerError, MalformedAnswerError
from ..requests_0_7 import (
    Code,
    Fetch,
    MalformedFrameError,
    Offsets,
    Produce,
    decode_fetched,
    decode_multi_fetched,
    decode_offsets,
    encode_fetch,
    encode_multi_fetch,
    encode_offsets,
    encode_produce,
)
from .connection import Connection

T = TypeVar("T")


class PositionSet(NamedTuple):
    """The answer of a broker of 0.7 to one fetch."""

    asked: Fetch
    code: int
    message_set: memoryview  # its last message may be cut off

    @property
    def error(self) -> LogStoreError | None:
        """The error for the answer's code, which the iterator of the message set raises; None for code 0."""
        what = f"{self.asked.topic}, partition {self.asked.partition}, position {self.asked.position}"
        if self.code == Code.NONE:
            return None
        if self.code == Code.OFFSET_OUT_OF_RANGE:
            return OffsetOutOfRangeError(f"{what}: the broker's log does not have this position")
        if self.code == Code.INVALID_MESSAGE:
            return CorruptRecordError(f"{what}: the broker found a damaged message")
        return BrokerError(what, self.code, _name(self.code))


class PositionBroker:
    """One broker of Kafka 0.7. It serves only its own topics and partitions.

    All calls raise BrokerUnreachableError, ConnectionClosedError and MalformedAnswerError.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def produce(self, sets: Sequence[Produce]) -> None:
        """Sends message sets in one request.

        The broker does not answer, so they may be refused or lost without an error.
        """
        self.connection.send(encode_produce(sets))

    def fetch(self, asked: Fetch) -> PositionSet:
        """Returns the broker's answer to a fetch, which may be an error."""
        answer = self.connection.exchange(encode_fetch(asked))
        return PositionSet(asked, *self._decoded(lambda: decode_fetched(answer)))

    def multi_fetch(self, asked: Sequence[Fetch]) -> list[PositionSet]:
        """Returns the answers to several fetches of one request, in their order."""
        answer = self.connection.exchange(encode_multi_fetch(asked))
        found = self._decoded(lambda: decode_multi_fetched(answer, len(asked)))
        return [PositionSet(each, *part) for each, part in zip(asked, found, strict=True)]

    def offsets_before(self, asked: Offsets) -> list[int]:
        """Returns the first positions of files not newer than a time in ms, the newest first.

        -1, the latest time, also has the end of the log; -2 is the earliest. Raises BrokerError.
        """
        answer = self.connection.exchange(encode_offsets(asked))
        code, found = self._decoded(lambda: decode_offsets(answer))
        if code != Code.NONE:
            raise BrokerError(f"{asked.topic}, partition {asked.partition}", code, _name(code))
        return found

    def _decoded(self, decode: Callable[[], T]) -> T:
        try:
            return decode()
        except MalformedFrameError as error:
            self.connection.disconnect()  # the rest of its bytes cannot be read either
            raise MalformedAnswerError(f"{self.connection.address}: {error}") from error


def _name(code: int) -> str:
    return Code(code).name if code in set(Code) else "an unknown error code of Kafka 0.7"
