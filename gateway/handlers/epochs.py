"""The leader epoch that a client knows, against that of the partition."""

from __future__ import annotations

from ..partitions import LedPartition
from ..protocol import ErrorCode, RequestError

UNKNOWN_EPOCH = -1


def check_leader_epoch(led: LedPartition, known: int) -> None:
    """Raises RequestError if the client knows an older or a newer epoch than the partition has; -1: it knows none."""
    if known in (UNKNOWN_EPOCH, led.leader_epoch):
        return
    if known < led.leader_epoch:
        raise RequestError(ErrorCode.fenced_leader_epoch)
    raise RequestError(ErrorCode.unknown_leader_epoch)
