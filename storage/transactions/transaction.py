"""Transaction and TransactionPart: the values that a coordinator and its tasks exchange."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..format.files.file_names import TopicPartition
from ..writing import Producer


@dataclass(frozen=True)
class Transaction:
    """A begun transaction, for the tasks that write to it and for the process that ends it. Can be pickled."""

    transactional_id: str
    producer_id: int
    epoch: int  # of its records; its markers have the next one
    partitions: tuple[TopicPartition, ...]  # all that it may touch, ascending
    timeout_ms: int  # the age at which retention aborts it, unless its transactional id is locked
    start_ms: int = -1  # time when it began

    @property
    def producer(self) -> Producer:
        """The producer id and epoch of the transaction's records."""
        return Producer(self.producer_id, self.epoch)

    @property
    def successor(self) -> Producer:
        """The producer id and epoch of the transaction's markers; they fence writers that use :attr:`producer`."""
        return Producer(self.producer_id, self.epoch + 1)

    def __str__(self) -> str:
        return f"transaction of {self.transactional_id!r} (producer {self.producer_id}, epoch {self.epoch})"


class TransactionPart(NamedTuple):
    """The number of records that a task wrote to a partition; parts for the same partition are added up."""

    topic: str
    partition: int
    records: int


def abort_command(directory: str, topic: str, partition: int, first_offset: int) -> str:
    """Returns the command that aborts an open transaction, which no coordinator ends, for messages."""
    return (
        f"commitlog transactions --log-dir {directory} --abort --topic {topic} --partition {partition} "
        f"--start-offset {first_offset}"
    )
