"""Fetch of offsets that only a tier has."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial
from random import sample
from typing import Any, NamedTuple
from uuid import UUID

from ....protocol.fetch import Fetched, FetchPartition
from ....storage import Isolation
from ...context import Context
from ...network.file_slice import FileSlice, Part
from ...partitions.led_partition import InTierError, LedPartition
from ...request import Request
from ...tiers.reads import Question
from ...tiers.records import TierRecords, read_records
from ...tiers.waiting import TierAnswers, TierQuestion
from ..old.fetch import OLD_FORMATS_BELOW, answer_from_tier, fetch_old_format, read_tier

READS_MAX = 16  # partitions that one fetch reads in a tier; each may have a large batch


class InTier(NamedTuple):
    """A partition from which a fetch wants an offset that only the tier has."""

    each: FetchPartition
    led: LedPartition


class TierReading:
    """The reads of one fetch in the tier."""

    def __init__(self, request: Request, context: Context, isolation: Isolation) -> None:
        self._request, self._context, self._isolation = request, context, isolation
        self._is_old = request.version < OLD_FORMATS_BELOW
        self._found: dict[tuple[str | UUID, int], Any] = {}  # answers, and exceptions

    def ask(self, asked: Sequence[InTier], left: int, then: Callable[[], None]) -> None:
        """Reads at most ``left`` bytes, but at least a batch of each partition; then calls ``then``.

        If there are many partitions, reads a random choice, so that failing ones cannot keep the others from being
        read. Only for the thread of the connection, which does not wait.
        """
        context = self._context
        assert context.tier is not None
        chosen = sample(asked, min(len(asked), READS_MAX))
        share = max(min(left, context.answers.room()), 0) // len(chosen)

        def answered(answers: list[Any]) -> None:
            keys = ((each.topic, each.partition) for each, _ in chosen)
            self._found = dict(zip(keys, answers, strict=True))
            then()

        self._request.exchange.park()
        questions = [TierQuestion(one.led, *self._question(one, min(one.each.max_bytes, share))) for one in chosen]
        waiting = TierAnswers(self._request.exchange, questions, answered)
        waiting.wait(context.tier, context.config.remote_fetch_max_wait_ms / 1000)

    def _question(self, asked: InTier, max_bytes: int) -> tuple[Hashable, Question]:
        (each, led), tiered = asked, asked.led.in_tier
        stop = led.local_log_start_offset if tiered is None else tiered.stop
        if self._is_old:
            read_old = partial(read_tier, led=led, offset=each.offset, stop=stop, max_bytes=max_bytes)
            return ("old", each.offset, stop, max_bytes), read_old
        read = partial(read_records, offset=each.offset, stop=stop, max_bytes=max_bytes, isolation=self._isolation)
        return (each.offset, stop, max_bytes, self._isolation), read

    def answer(self, asked: InTier, left: int, *, min_one_batch: bool) -> Fetched[Part]:
        """Returns the answer for a partition; without records if they do not fit, or if it was not read.

        Raises what the read raised.
        """
        each, key = asked.each, (asked.each.topic, asked.each.partition)
        found = self._found.get(key)
        if isinstance(found, Exception):
            raise found
        if self._is_old:
            return self._old(asked, left, min_one_batch=min_one_batch)
        if found is not None and len(found.data) > left and not min_one_batch:
            found = None
        return self._answer(asked, found if each.max_bytes > 0 or min_one_batch else None)

    def _answer(self, asked: InTier, found: TierRecords | None) -> Fetched[Part]:
        each, led = asked
        aborted = () if found is None else found.aborted
        return Fetched(
            each.topic,
            each.partition,
            high_watermark=led.high_watermark,
            last_stable_offset=led.end_offset(Isolation.READ_COMMITTED),
            log_start_offset=led.log_start_offset,
            aborted=aborted if self._isolation is Isolation.READ_COMMITTED else None,
            records=None if found is None else self._context.answers.hold(found.data),
        )

    def _old(self, asked: InTier, left: int, *, min_one_batch: bool) -> Fetched[Part]:
        (each, led), key = asked, (asked.each.topic, asked.each.partition)
        found: TierRecords | None = self._found.get(key)
        version, most = self._request.version, self._context.config.commitlog_rewritten_max_decompressed_bytes
        if found is not None:
            answer = answer_from_tier(led, each, found, left, version, most, min_one_batch=min_one_batch)
        elif key not in self._found:
            answer = Fetched(each.topic, each.partition, high_watermark=led.high_watermark)
        else:  # old formats cannot show what follows in the tier
            after = each._replace(offset=led.local_log_start_offset)
            with suppress(InTierError):  # the records in the directory have moved: the client asks again
                return fetch_old_format(led, after, left, version, most, min_one_batch=min_one_batch)
            answer = Fetched(each.topic, each.partition, high_watermark=led.high_watermark)
        records = answer.records
        if records is None or isinstance(records, FileSlice):
            return answer
        return answer._replace(records=self._context.answers.hold(records))
