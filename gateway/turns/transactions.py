"""OpenTransactions: whether batches of a transaction may be appended, as far as that is known without the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...storage import Producer, TopicPartition
from ..security.acls import Client


class OpenTransactions(NamedTuple):
    """For any thread. What is refused here goes the usual way, which knows why."""

    lets: Callable[[str, Producer, TopicPartition], bool]  # as ``transactions.Gate.lets``
    may_use: Callable[[Client, str], bool]  # whether a client may write with a transactional id

    def are_open(self, client: Client, transactional_id: str, producer: Producer, partition: TopicPartition) -> bool:
        """Whether a batch of ``producer`` may be appended now; the caller holds the lock of the partition.

        The coordinator closes the gate before it writes a decision, and its markers need that lock.
        """
        return self.lets(transactional_id, producer, partition) and self.may_use(client, transactional_id)
