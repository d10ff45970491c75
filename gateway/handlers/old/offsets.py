"""ListOffsets of version 0: where segments begin, by the times of their files (UnifiedLog.legacyFetchOffsetsBefore)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....storage import TopicPartition, offsets_before as before
from ...context import Context
from ...partitions.led_partition import LedPartition
from ...request import Request


def offsets_before(
    request: Request, context: Context, led: Mapping[TopicPartition, LedPartition | Exception]
) -> Mapping[str, Any]:
    """Answers with first offsets of segments not newer than a time, the largest first, up to the number asked for.

    -1 is the latest time, -2 the earliest. A segment's time is that of its file; the time of the log end is now.
    """
    now_ms = context.clock.now_ms()
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    _partition(each, led[TopicPartition(topic.name, each.partition_index)], now_ms, context)
                    for each in topic.partitions
                ],
            }
            for topic in request.body.topics
        ]
    }


def _partition(asked: Any, led: LedPartition | Exception, now_ms: int, context: Context) -> Mapping[str, Any]:
    try:
        if isinstance(led, Exception):
            raise led
        found = before(led.segment_times(now_ms), asked.timestamp, max(asked.max_num_offsets, 0))
    except Exception as error:
        return {"partition_index": asked.partition_index, "error_code": context.code_of(error), "old_style_offsets": ()}
    shown = led.high_watermark
    offsets = [min(offset, shown) for offset in found]
    return {"partition_index": asked.partition_index, "old_style_offsets": tuple(dict.fromkeys(offsets))}
