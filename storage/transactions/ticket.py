"""What travels between those who take part in a transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pyspark_commitlog.storage.log import Producer
from pyspark_commitlog.storage.manager import TopicPartition


@dataclass(frozen=True)
class Transaction:
    """A transaction that began: a ticket for the tasks that write to it and for whoever ends it. Can be pickled."""

    transactional_id: str
    producer_id: int
    epoch: int  # of its records; its markers have the next one
    partitions: tuple[TopicPartition, ...]  # all that it may touch, ascending
    timeout_ms: int  # how old it may become before retention takes its driver for dead
    start_ms: int = -1  # when it began

    @property
    def producer(self) -> Producer:
        """Who writes its records."""
        return Producer(self.producer_id, self.epoch)

    @property
    def successor(self) -> Producer:
        """Who writes its markers, and the next transaction: who still writes as :attr:`producer` is refused then."""
        return Producer(self.producer_id, self.epoch + 1)

    def __str__(self) -> str:
        return f"transaction of {self.transactional_id!r} (producer {self.producer_id}, epoch {self.epoch})"


class TransactionPart(NamedTuple):
    """What a task wrote to a partition; several of one partition are added up."""

    topic: str
    partition: int
    records: int
