"""ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ...protocol.bodies import ErrorCode
from ...protocol.errors import RequestError
from ...storage import Isolation, LogManager, TopicPartition
from ..context import Context
from ..partitions.led_partition import LedPartition
from ..request import Request
from ..threads.answers import gathering
from .epochs import check_leader_epoch
from .old.offsets import offsets_before
from .tiers.offsets import Asked, Found, ask_tier

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
FIRST_VERSIONS = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
NEVER = 2**15  # a version that no request has
NO_EPOCH = NO_OFFSET = NO_TIMESTAMP = -1

Led = Mapping[TopicPartition, LedPartition | Exception]


def list_offsets(request: Request, context: Context) -> None:
    """Answers with the offsets for timestamps, after reading what other processes appended."""
    led = context.partitions.led(
        {TopicPartition(t.name, p.partition_index) for t in request.body.topics for p in t.partitions}
    )
    if request.version == 0:
        _after_catching_up(request, context, led, lambda led: request.answer(offsets_before(request, context, led)))
        return
    searches = any(p.timestamp >= 0 or p.timestamp == MAX_TIMESTAMP for t in request.body.topics for p in t.partitions)

    def answer(led: Led) -> None:
        ask_tier(request, context, _asked_of_tier(request, led), partial(go_on, led))

    def go_on(led: Led, found: Found) -> None:
        if searches:
            context.workers.lookups.answer(request, lambda manager: _offsets(request, context, led, manager, found))
        else:
            request.answer(_offsets(request, context, led, None, found))

    _after_catching_up(request, context, led, answer)


def _after_catching_up(request: Request, context: Context, led: Led, then: Callable[[Led], None]) -> None:
    """Reads, syncs and shows records that others appended, then calls ``then`` with the partitions.

    A partition that could not be read is replaced by its error: without the records that an earlier leader has shown,
    the answer would make clients believe that the log was truncated.
    """
    opened = {name: each for name, each in led.items() if isinstance(each, LedPartition)}
    behind = {name: each for name, each in opened.items() if each.is_behind or each.is_unsynced}

    def answer(errors: Sequence[Exception | None]) -> None:
        found = {**led, **{name: error for name, error in zip(behind, errors, strict=True) if error is not None}}
        context.when_free(request, found.values(), lambda _: then(found))

    put: Callable[[int, Exception | None], None] = gathering(len(behind), answer)
    for index, each in enumerate(behind.values()):
        context.appender.catch_up(each, partial(put, index))


def _asked_of_tier(request: Request, led: Led) -> Asked:
    """Returns the searches that need the tier: times at which records are only in it, and the tier's last offset."""
    asked = dict[TopicPartition, tuple[LedPartition, int]]()
    for topic in request.body.topics:
        for each in topic.partitions:
            found = led[partition := TopicPartition(topic.name, each.partition_index)]
            if isinstance(found, LedPartition) and (
                (each.timestamp >= 0 and found.in_tier is not None)
                or (each.timestamp == LATEST_TIERED and found.is_tiered)
            ):
                asked[partition] = found, each.timestamp
    return asked


def _offsets(
    request: Request, context: Context, led: Led, manager: LogManager | None, tiered: Found
) -> Mapping[str, Any]:
    isolation = (
        Isolation.READ_COMMITTED if getattr(request.body, "isolation_level", 0) == 1 else Isolation.READ_UNCOMMITTED
    )
    times = Counter(TopicPartition(t.name, p.partition_index) for t in request.body.topics for p in t.partitions)

    def asked(topic: str, each: Any) -> Mapping[str, Any]:
        partition = TopicPartition(topic, each.partition_index)
        if times[partition] > 1:
            return {"partition_index": each.partition_index, "error_code": ErrorCode.invalid_request}
        return _partition(request, context, isolation, manager, each, led[partition], tiered.get(partition))

    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [asked(topic.name, each) for each in topic.partitions],
            }
            for topic in request.body.topics
        ]
    }


def _partition(
    request: Request,
    context: Context,
    isolation: Isolation,
    manager: LogManager | None,
    asked: Any,
    led: LedPartition | Exception,
    tiered: Any,
) -> Mapping[str, Any]:
    try:
        if asked.timestamp < 0 and request.version < FIRST_VERSIONS.get(asked.timestamp, NEVER):
            raise RequestError(ErrorCode.unsupported_version)
        if isinstance(led, Exception):
            raise led
        check_leader_epoch(led, getattr(asked, "current_leader_epoch", -1), context)
        if isinstance(tiered, Exception):
            raise tiered
        offset, timestamp, epoch = _found(led, asked.timestamp, isolation, manager, tiered)
    except Exception as error:
        return {"partition_index": asked.partition_index, "error_code": context.code_of(error)}
    return {
        "partition_index": asked.partition_index,
        "offset": offset,
        "timestamp": timestamp,
        "leader_epoch": epoch,
    }


def _found(
    led: LedPartition, time: int, isolation: Isolation, manager: LogManager | None, tiered: Any
) -> tuple[int, int, int]:
    """Returns offset, timestamp and leader epoch of the record asked for; -1 for each if there is none.

    ``tiered``: the tier's answer; None if it has nothing.
    """
    if time == LATEST:
        return led.end_offset(isolation), NO_TIMESTAMP, led.leader_epoch
    if time in (EARLIEST, EARLIEST_LOCAL):
        start = led.log_start_offset if time == EARLIEST else led.local_log_start_offset
        epoch = led.leader_epoch if led.is_empty else led.ask(lambda log: log.epochs.epoch_for(start))
        return start, NO_TIMESTAMP, epoch
    if time == LATEST_TIERED or tiered is not None:
        return _in_tier(led, tiered)
    assert manager is not None
    with manager.open_reader(led.topic, led.partition, reports_remote=False) as reader:
        found = (
            reader.offset_of_max_timestamp()
            if time == MAX_TIMESTAMP
            else reader.offset_for_timestamp(time, Isolation.READ_UNCOMMITTED)  # aborted ones, too, as a broker does
        )
    if found is None or found.offset >= led.end_offset(isolation):
        return NO_OFFSET, NO_TIMESTAMP, NO_EPOCH
    return found.offset, found.timestamp, found.leader_epoch


def _in_tier(led: LedPartition, found: Any) -> tuple[int, int, int]:
    """Returns the last offset of the tier, or the record that it has, as :func:`_found`."""
    if found is None:
        return NO_OFFSET, NO_TIMESTAMP, NO_EPOCH
    if isinstance(found, int):
        return found, NO_TIMESTAMP, led.ask(lambda log: log.epochs.epoch_for(found))
    return found.offset, found.timestamp, found.leader_epoch


def offset_for_leader_epoch(request: Request, context: Context) -> None:
    """Answers with the end offsets of leader epochs, from which consumers see that a log was truncated.

    First reads what others appended, such as an earlier leader.
    """
    led = context.partitions.led(
        {TopicPartition(t.topic, p.partition) for t in request.body.topics for p in t.partitions}
    )

    def answer(led: Led) -> None:
        topics = [
            {
                "topic": topic.topic,
                "partitions": [
                    _epoch_end(each, led[TopicPartition(topic.topic, each.partition)], context)
                    for each in topic.partitions
                ],
            }
            for topic in request.body.topics
        ]
        request.answer({"topics": topics})

    _after_catching_up(request, context, led, answer)


def _epoch_end(asked: Any, led: LedPartition | Exception, context: Context) -> Mapping[str, Any]:
    try:
        if isinstance(led, Exception):
            raise led
        check_leader_epoch(led, getattr(asked, "current_leader_epoch", NO_EPOCH), context)
        epoch, end = led.epoch_end(asked.leader_epoch)
    except Exception as error:
        nothing = {"leader_epoch": NO_EPOCH, "end_offset": NO_OFFSET}
        return {"partition": asked.partition, "error_code": context.code_of(error), **nothing}
    return {"partition": asked.partition, "leader_epoch": epoch, "end_offset": end}
