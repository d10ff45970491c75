"""Resting partitions of fetch sessions: fetches skip those that have nothing new since the client's last answer.

A session of 1,000 idle partitions would otherwise read all of them twice per fetch. A partition rests after an answer
for it had neither records nor an error nor an end that the client does not know. It rests as long as its ends and the
terms stay the same: the rules, the nodes, the client and its isolation level. A partition that moves wakes the fetches
of its session.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ..protocol.fetch import Fetched, FetchPartition
from .partitions.led_partition import LedPartition

LARGE = 16  # in a request without a session and with more partitions, some rest while it waits

Answer = Fetched[Any]  # whatever holds its records
Found = LedPartition | Exception  # a partition, or why it cannot be read
Ends = tuple[int, ...]


class Watch:
    """The waiting fetches of one session, which its resting partitions wake. For any thread."""

    def __init__(self) -> None:
        self.moves = 0  # changes with each partition that ends its rest
        self._waiting: set[Callable[[], None]] = set()
        self._terms: object = None

    def add(self, wake: Callable[[], None]) -> None:
        """Calls ``wake`` whenever a partition ends its rest."""
        self._waiting.add(wake)

    def discard(self, wake: Callable[[], None]) -> None:
        """Cancels :meth:`add`."""
        self._waiting.discard(wake)

    def moved(self) -> None:
        """Wakes the fetches that wait."""
        self.moves += 1
        for wake in tuple(self._waiting):
            wake()

    def same(self, terms: object) -> object:
        """Returns ``terms``, as the same object as before if they are equal."""
        if terms != self._terms:
            self._terms = terms
        return self._terms


@dataclass(slots=True, eq=False)
class Kept:
    """A partition of a session: the client's request for it, the ends that the client knows, and whether it rests."""

    asked: FetchPartition
    watch: Watch
    high_watermark: int = -1
    log_start_offset: int = -1
    led: LedPartition | None = None  # the open partition while it rests; None: it does not rest
    terms: object = None  # the terms under which it rests
    is_over: bool = False  # it has left its session

    def asked_again(self, asked: FetchPartition) -> Kept:
        """Returns a replacement of this partition for the new request."""
        self.end()
        return Kept(asked, self.watch, self.high_watermark, self.log_start_offset)

    def has_changed(self, answer: Answer) -> bool:
        """Whether an answer says something new; the client then knows it (``CachedPartition``)."""
        if answer.error:
            self.high_watermark = -1  # an unknown value, so that the first answer without the error is sent
            return True
        has_moved = not self._knows(answer)
        self.high_watermark, self.log_start_offset = answer.high_watermark, answer.log_start_offset
        return has_moved or bool(answer.size)

    def _knows(self, answer: Answer) -> bool:
        return self.high_watermark == answer.high_watermark and self.log_start_offset == answer.log_start_offset

    def is_resting(self, terms: object) -> bool:
        """Whether an answer would still have nothing new.

        Also checks the ends, because the wake comes after their move.
        """
        led = self.led
        return led is not None and self.terms is terms and led.is_still(self.high_watermark, self.log_start_offset)

    def may_rest(self, answer: Answer, *, is_committed: bool) -> bool:
        """Whether the next answer will have nothing new until the partition moves."""
        end = answer.last_stable_offset if is_committed else answer.high_watermark
        return not (answer.error or answer.size) and self.asked.offset == end and self._knows(answer)

    def rest(self, led: LedPartition, seen: Ends, terms: object) -> None:
        """Begins to rest, unless the partition moved since its ends were ``seen``."""
        if self.led is not None and self.led is not led:
            self.led.unwait(self)
        self.led, self.terms = led, terms  # first: a move in the meantime ends it
        if not led.wait(seen, self):
            self()
        elif self.is_over:
            self.end()

    def __call__(self) -> None:
        """Ends the rest, since the partition has moved; wakes the fetches that wait."""
        self.led = None
        self.watch.moved()

    def end(self) -> None:
        """Ends the rest for good, since the partition has left the session; :meth:`Watch.moved` is then due."""
        self.is_over = True
        led, self.led = self.led, None
        if led is not None:
            led.unwait(self)


class Asked:
    """The partitions that one fetch asks for: all of them are read each time."""

    def __init__(self, partitions: Sequence[FetchPartition]) -> None:
        self.partitions = partitions

    def awake(self, terms: object) -> Sequence[FetchPartition]:
        """Returns the partitions to read now, in their order, for a fetch under these terms."""
        return self.partitions

    def settle(
        self, answers: Sequence[Answer], found: Sequence[Found], seen: Sequence[Ends], *, is_committed: bool
    ) -> None:
        """Lets awake partitions rest if their answers allow it. ``seen``: ends before the read."""

    def finish(
        self, answers: Sequence[Answer], found: Sequence[Found], seen: Sequence[Ends], *, is_committed: bool
    ) -> None:
        """Like :meth:`settle`, after the answers were sent; it may be done at the next fetch."""
        self.settle(answers, found, seen, is_committed=is_committed)

    def whole(self, answers: Sequence[Answer]) -> Sequence[Answer]:
        """Returns the answers of all partitions; ``answers`` are those of the awake ones."""
        return answers

    def resting(self) -> Collection[LedPartition]:
        """Returns the partitions that rest."""
        return ()

    def resting_topics(self) -> Collection[str | UUID]:
        """Returns the topics of the partitions that rest."""
        return ()

    def wait(self, wake: Callable[[], None]) -> bool:
        """Calls ``wake`` when a resting partition moves. Returns False if one has moved since :meth:`awake`."""
        return True

    def unwait(self, wake: Callable[[], None]) -> None:
        """Cancels :meth:`wait`."""

    def is_awaited(self, index: int) -> bool:
        """Whether a partition that was awake rests now, so that :meth:`wait` covers it."""
        return False


class OfSession(Asked):
    """The partitions of a session, as they are when its fetch arrives."""

    def __init__(self, watch: Watch, kept: Sequence[Kept]) -> None:
        super().__init__([each.asked for each in kept])
        self._watch, self._kept = watch, kept
        self._awake = kept
        self._moves = 0
        self._terms: object = None

    def awake(self, terms: object) -> Sequence[FetchPartition]:
        self._moves = self._watch.moves  # first: a later move is seen by :meth:`wait`
        self._terms = known = self._watch.same(terms)
        self._awake = [each for each in self._kept if not each.is_resting(known)]
        return [each.asked for each in self._awake]

    def settle(
        self, answers: Sequence[Answer], found: Sequence[Found], seen: Sequence[Ends], *, is_committed: bool
    ) -> None:
        for kept, answer, led, ends in zip(self._awake, answers, found, seen, strict=True):
            may_rest = kept.may_rest(answer, is_committed=is_committed)
            if may_rest and isinstance(led, LedPartition) and led.may_rest:
                kept.rest(led, ends, self._terms)

    def resting(self) -> Collection[LedPartition]:
        return [led for each in self._kept if (led := each.led) is not None]

    def resting_topics(self) -> Collection[str | UUID]:
        return {each.asked.topic for each in self._kept if each.led is not None}

    def wait(self, wake: Callable[[], None]) -> bool:
        self._watch.add(wake)
        return self._watch.moves == self._moves

    def unwait(self, wake: Callable[[], None]) -> None:
        self._watch.discard(wake)

    def is_awaited(self, index: int) -> bool:
        return self._awake[index].led is not None


class OfLargeRequest(OfSession):
    """The partitions of a request without a session; while it waits, partitions without news rest."""

    def __init__(self, partitions: Sequence[FetchPartition]) -> None:
        watch = Watch()
        super().__init__(watch, [Kept(each, watch) for each in partitions])
        self._answers: dict[Kept, Answer] = {}  # the answers of resting partitions, and perhaps of others

    def settle(
        self, answers: Sequence[Answer], found: Sequence[Found], seen: Sequence[Ends], *, is_committed: bool
    ) -> None:
        for kept, answer in zip(self._awake, answers, strict=True):
            kept.has_changed(answer)
            self._answers[kept] = answer
        super().settle(answers, found, seen, is_committed=is_committed)

    def finish(
        self, answers: Sequence[Answer], found: Sequence[Found], seen: Sequence[Ends], *, is_committed: bool
    ) -> None:
        for each in self._kept:
            each.end()

    def whole(self, answers: Sequence[Answer]) -> Sequence[Answer]:
        now = {**self._answers, **dict(zip(self._awake, answers, strict=True))}
        return [now[each] for each in self._kept]


def of_request(partitions: Sequence[FetchPartition]) -> Asked:
    """Returns the partitions of a request without a session."""
    return OfLargeRequest(partitions) if len(partitions) > LARGE else Asked(partitions)
