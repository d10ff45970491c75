"""Target: the destination of a producer's messages, and RecordSet, the records that it gets for one partition."""

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
    """A set that failed: it was not sent, or it is unknown whether it was. ``error``: the reason."""

    number: int  # the number of the set within the call
    error: Exception


class Target(Protocol):
    """Sends sets of records. One call of ``send`` at a time; the other methods may be called at any time."""

    @property
    def places_keys(self) -> bool:
        """Whether the target chooses the partition of records with partition :data:`ANY`, by today's rules of Kafka."""
        ...

    @property
    def has_keys(self) -> bool:
        """Whether the target's messages can have keys. Raises like :meth:`partitions`."""
        ...

    def partitions(self, topic: str) -> Sequence[BrokerPartition]:
        """Returns the partitions of a topic, sorted; at least one.

        Raises NoBrokersForPartitionError if the topic has none, BrokerUnreachableError, and errors of ``storage``.
        """
        ...

    def send(self, sets: Sequence[RecordSet], *, wait: bool) -> list[Failed]:
        """Sends sets, each with one try, and returns those that failed.

        ``wait``: return when all are acknowledged, if the settings ask for acknowledgements. Without it, a target may
        report a failure later, by ``report_lost`` of :func:`open_target`.
        """
        ...

    def refresh(self, topic: str) -> None:
        """Forgets the cached partitions and brokers of a topic; called before a failed set is sent again."""
        ...

    def close(self) -> None:
        """Sends everything accepted, and closes all connections and files."""
        ...
