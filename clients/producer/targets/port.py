"""Target: where a producer's messages go. And what it is given: sets of records for one partition each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ....storage import Codec
from ..messages import Message

ANY = -1  # a partition: the broker, or the library underneath, chooses


class BrokerPartition(NamedTuple):
    """A partition and the broker that takes its messages. Sorted: by broker, then by partition."""

    broker: int
    partition: int


class RecordSet(NamedTuple):
    """Records for one partition, which are compressed together."""

    topic: str
    place: BrokerPartition
    records: Sequence[Message]  # bytes: a value without key, headers and time
    codec: Codec


class Failed(NamedTuple):
    """A set that was not sent, or perhaps was; ``error``: why."""

    number: int  # of the set among those of the call
    error: Exception


class Target(Protocol):
    """Sends sets of records. One call of ``send`` at a time; the other methods may be called at any time."""

    @property
    def places_keys(self) -> bool:
        """Whether the target chooses partitions itself, by Kafka's rules of today, for records of place :data:`ANY`."""
        ...

    @property
    def has_keys(self) -> bool:
        """Whether messages hold keys. Raises as :meth:`partitions`."""
        ...

    def partitions(self, topic: str) -> Sequence[BrokerPartition]:
        """Returns the partitions of a topic, sorted; never none.

        Raises NoBrokersForPartitionError if there are none, BrokerUnreachableError, and errors of ``storage``.
        """
        ...

    def send(self, sets: Sequence[RecordSet], *, wait: bool) -> list[Failed]:
        """Sends sets, each with one try, and returns those that failed.

        ``wait``: return once all were acknowledged, as far as the settings ask for that. Otherwise a target may report
        a failure later, to ``report_lost`` of :func:`open_target`.
        """
        ...

    def refresh(self, topic: str) -> None:
        """Forgets what is known of a topic's partitions and their brokers; called before a failed set is sent again."""
        ...

    def close(self) -> None:
        """Sends what was accepted, and closes all connections and files."""
        ...
