"""Recovers logs of a directory by opening each for writing, and reports what that did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..directory import LogManager
from ..errors import InvalidRecordError
from ..format.internal.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from ..groups import GroupOffsets
from ..transactions import TransactionStates
from .outcome import OutcomeStatus, PartitionOutcome, attempt
from .run import MaintenanceRun, Partition


def recover_partition(run: MaintenanceRun, partition: Partition) -> PartitionOutcome:
    """Repairs one log after a crash (see ``LogLoader.load``), closes it cleanly and returns the outcome."""
    recovered = attempt(partition, lambda: _recover(run, partition))
    if isinstance(recovered, PartitionOutcome):
        return recovered
    status = OutcomeStatus.DAMAGED if recovered.unreadable else OutcomeStatus.DONE
    return PartitionOutcome(*partition.key, status, str(recovered), recovered.facts())


def _recover(run: MaintenanceRun, partition: Partition) -> Recovered:
    with run.manager() as manager:
        log = manager.open_log(*partition.key, partition.config)
        unreadable = tuple(map(str, _unreadable(manager, *partition.key)))
        return Recovered(partition, log.log_start_offset, log.log_end_offset, log.truncated_bytes, unreadable)


def _unreadable(manager: LogManager, topic: str, partition: int) -> list[InvalidRecordError]:
    """Returns the errors of the records of a coordinator that it cannot read."""
    states: TransactionStates | GroupOffsets
    if topic == TRANSACTION_STATE_TOPIC:
        states = TransactionStates(manager)
    elif topic == GROUP_METADATA_TOPIC:
        states = GroupOffsets(manager)
    else:
        return []
    states.read(partition)
    return states.unreadable([partition])


@dataclass(frozen=True)
class Recovered:
    """The state of one log after recovery."""

    partition: Partition
    log_start_offset: int
    log_end_offset: int
    truncated_bytes: int  # cut off the end: they were never acknowledged as synced
    unreadable: tuple[str, ...] = ()  # records of a coordinator that it cannot read, and why

    def __str__(self) -> str:
        cut = (
            f"cut off an incomplete end of {self.truncated_bytes:,} bytes" if self.truncated_bytes else "nothing to cut"
        )
        head = f"{self.partition}: offsets {self.log_start_offset} to {self.log_end_offset}, {cut}"
        return "\n  ".join([head, *self.unreadable])

    def facts(self) -> Mapping[str, Any]:
        return {
            "log_start_offset": self.log_start_offset,
            "log_end_offset": self.log_end_offset,
            "truncated_bytes": self.truncated_bytes,
            "unreadable": list(self.unreadable),
        }
