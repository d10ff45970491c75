"""The leader epoch that a client knows, against that of the partition."""

from __future__ import annotations

from ..context import Context
from ..partitions import LedPartition
from ..protocol import ErrorCode, RequestError

UNKNOWN_EPOCH = -1


def leader_epoch(led: LedPartition, context: Context) -> int:
    """Returns the epoch of a partition's leader: that of its records, raised whenever another node leads it."""
    return led.leader_epoch + context.cluster.leader(led.topic, led.partition).epoch


def check_leader_epoch(led: LedPartition, known: int, context: Context) -> None:
    """Raises RequestError if the client knows an older or a newer epoch than the partition has; -1: it knows none."""
    if known == UNKNOWN_EPOCH or known == (own := leader_epoch(led, context)):
        return
    if known < own:
        raise RequestError(ErrorCode.fenced_leader_epoch)
    raise RequestError(ErrorCode.unknown_leader_epoch)
