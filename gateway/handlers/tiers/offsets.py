"""ListOffsets of partitions whose first records only a tier has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ....storage import Isolation, OffsetAndTimestamp, TopicPartition
from ...context import Context
from ...partitions.led_partition import LedPartition
from ...request import Request
from ...tiers.log import TieredLog
from ...tiers.waiting import TierAnswers, TierQuestion

WAIT_S = 30.0  # as in Kafka: remote.list.offsets.request.timeout.ms

Asked = Mapping[TopicPartition, tuple[LedPartition, int]]  # a time, or LATEST_TIERED for the last offset of the tier
Found = Mapping[TopicPartition, Any]  # the tier's answer, None if it has nothing, or why it could not be read


def ask_tier(request: Request, context: Context, asked: Asked, then: Callable[[Found], None]) -> None:
    """Calls ``then`` with what the tier has of each partition, in the thread of the connection. For any thread."""
    tier = context.tier
    if tier is None or not asked:
        then({})
        return
    questions = [_question(led, time) for led, time in asked.values()]

    def answered(found: list[Any]) -> None:
        led = [each for each, _ in asked.values()]
        go_on = request.or_fail(lambda: then(dict(zip(asked, found, strict=True))))
        context.when_free(request, led, lambda _: go_on())

    def begin() -> None:
        request.exchange.park()
        TierAnswers(request.exchange, questions, answered).wait(tier, WAIT_S)

    request.exchange.processor.call_soon(begin)


def _question(led: LedPartition, time: int) -> TierQuestion:
    if time < 0:
        return TierQuestion(led, "last", TieredLog.last_tiered)
    tiered = led.in_tier
    stop = led.local_log_start_offset if tiered is None else tiered.stop
    return TierQuestion(led, ("time", time, stop), partial(_offset_for_timestamp, time=time, stop=stop))


def _offset_for_timestamp(log: TieredLog, time: int, stop: int) -> OffsetAndTimestamp | None:
    """Returns the first record at or after a time, if it is below ``stop``; later records are in the directory."""
    found = log.reader().offset_for_timestamp(time, Isolation.READ_UNCOMMITTED)
    return None if found is None or found.offset >= stop else found
