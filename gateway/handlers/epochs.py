"""The leader epoch that a client knows, against that of the partition."""

from __future__ import annotations

from ...protocol import ErrorCode, RequestError
from ..context import Context
from ..partitions import LedPartition

UNKNOWN_EPOCH = -1


def leader_epoch(topic: str, partition: int, context: Context) -> int:
    """Returns the epoch of a partition's leader; -1 if this node does not know it, since the log is not open.

    It is the epoch of the log's records, raised whenever another node leads the partition. As a broker's it does not
    depend on the format of the records: those of magic 0 and 1 have no epochs of their own.
    """
    of_records = context.partitions.leader_epoch(topic, partition)
    return UNKNOWN_EPOCH if of_records < 0 else of_records + context.cluster.leader(topic, partition).epoch


def check_leader_epoch(led: LedPartition, known: int, context: Context) -> None:
    """Raises RequestError if the client knows an older or a newer epoch than the partition has; -1: it knows none."""
    if known == UNKNOWN_EPOCH or known == (own := leader_epoch(led.topic, led.partition, context)):
        return
    if known < own:
        raise RequestError(ErrorCode.fenced_leader_epoch)
    raise RequestError(ErrorCode.unknown_leader_epoch)
