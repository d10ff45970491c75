"""Asks several questions of a tier, and waits for the answers for a limited time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

from ...protocol.bodies import ErrorCode
from ...protocol.errors import RequestError
from ..network.exchange import Exchange
from ..partitions.led_partition import LedPartition
from .reads import Question, TierReads


class TierQuestion(NamedTuple):
    """A question about a partition: see :meth:`TierReads.ask`."""

    led: LedPartition
    key: Hashable
    question: Question


class TierAnswers:
    """The answers to questions of one request, or the exceptions; KAFKA_STORAGE_ERROR for those that are late."""

    def __init__(self, exchange: Exchange, asked: Sequence[TierQuestion], then: Callable[[list[Any]], None]) -> None:
        """``then`` is called once, in the thread of the connection, with the answers in the order of the questions."""
        self._exchange, self._asked, self._then = exchange, asked, then
        self._lock = Lock()  # Guards the answers and the flag.
        self._found: dict[int, Any] = {}
        self._is_over = False

    def wait(self, tier: TierReads, limit_s: float) -> None:
        """Asks. Only for the thread of the connection."""
        self._tier, self._limit_s = tier, limit_s
        self._timer = self._exchange.later(limit_s, self._end)
        self._forget = [tier.ask(*each, partial(self._put, index)) for index, each in enumerate(self._asked)]

    def _put(self, index: int, answer: Any) -> None:
        with self._lock:
            self._found[index] = answer
            is_last = len(self._found) == len(self._asked)
        if is_last:
            self._exchange.processor.call_soon(self._end)

    def _end(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._timer.cancel()
        for index, forget in enumerate(self._forget):
            forget()
            if index not in self._found:
                self._tier.note_late(self._asked[index].led, self._limit_s)
        late = RequestError(ErrorCode.kafka_storage_error, "the tier did not answer in time")
        self._then([self._found.get(index, late) for index in range(len(self._asked))])
