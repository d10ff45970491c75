"""What the participants of a transaction exchange."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..directory import TopicPartition
from ..writing import Producer


@dataclass(frozen=True)
class Transaction:
    """A begun transaction: a ticket for the tasks that write to it and the process that ends it. Can be pickled."""

    transactional_id: str
    producer_id: int
    epoch: int  # of its records; its markers have the next one
    partitions: tuple[TopicPartition, ...]  # all that it may touch, ascending
    timeout_ms: int  # the age at which retention considers its driver dead
    start_ms: int = -1  # time of its beginning

    @property
    def producer(self) -> Producer:
        """The producer of its records."""
        return Producer(self.producer_id, self.epoch)

    @property
    def successor(self) -> Producer:
        """The producer of its markers and of the next transaction; then, writers as :attr:`producer` are rejected."""
        return Producer(self.producer_id, self.epoch + 1)

    def __str__(self) -> str:
        return f"transaction of {self.transactional_id!r} (producer {self.producer_id}, epoch {self.epoch})"


class TransactionPart(NamedTuple):
    """What a task wrote to a partition; several parts for one partition are added up."""

    topic: str
    partition: int
    records: int
