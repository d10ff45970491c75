"""Checks the leader epoch that a client knows against that of the partition."""

from __future__ import annotations

from ...protocol.bodies import ErrorCode
from ...protocol.errors import RequestError
from ..context import Context
from ..partitions.led_partition import LedPartition

UNKNOWN_EPOCH = -1


def leader_epoch(topic: str, partition: int, context: Context) -> int:
    """Returns the epoch of a partition's leader; -1 if this node does not know it because the log is not open.

    It is the epoch of newly appended records, raised whenever another node becomes the leader. As on a broker, it does
    not depend on the format of the records: those of magic 0 and 1 carry no epoch.
    """
    of_records = context.partitions.leader_epoch(topic, partition)
    return UNKNOWN_EPOCH if of_records < 0 else of_records + context.cluster.leader(topic, partition).epoch


def check_leader_epoch(led: LedPartition, known: int, context: Context) -> None:
    """Raises RequestError if the client's epoch ``known`` is not the partition's; -1: the client knows none."""
    if known == UNKNOWN_EPOCH or known == (own := leader_epoch(led.topic, led.partition, context)):
        return
    if known < own:
        raise RequestError(ErrorCode.fenced_leader_epoch)
    raise RequestError(ErrorCode.unknown_leader_epoch)
