"""What goes wrong in a client; a wrong setting is ``storage``'s InvalidConfigError, as everywhere."""

from __future__ import annotations

from collections.abc import Sequence

from ..storage import LogStoreError


class ClientError(LogStoreError):
    """Base of the errors of ``clients``."""


class MirrorError(ClientError):
    """A topic cannot be mirrored; the message says what to do."""


class OutsideLogError(MirrorError):
    """The log of a partition in Kafka does not have the requested offset."""


class RetriableError(MirrorError):
    """Brokers did not answer, or refused a request for now; the same request may succeed later."""


class FencedError(MirrorError):
    """Another process uses the transactional id, or the transaction took too long."""


class TopicThereError(MirrorError):
    """A topic to create exists already."""


class BrokerUnreachableError(ClientError):
    """A broker did not answer, or the connection to it broke. Whether it did what was asked is unknown."""


class ConnectionClosedError(ClientError):
    """This client was closed, perhaps by another thread."""


class MalformedAnswerError(ClientError):
    """A broker sent bytes that are no answer to what was asked."""


class MessageTooLargeError(ClientError):
    """A message does not fit in what is fetched at once."""


class BrokerError(ClientError):
    """A broker refused a request, or a part of it. ``code`` is the number of its generation of Kafka."""

    def __init__(self, what: str, code: int, name: str) -> None:
        self.what, self.code, self.name = what, code, name
        super().__init__(what, code, name)

    def __str__(self) -> str:
        return f"{self.what}: the broker answered {self.name} ({self.code})"


class ConsumerTimeoutError(ClientError):
    """No message came within ``consumer.timeout.ms``."""


class RebalanceError(ClientError):
    """A consumer could not agree with its group on who reads what."""


class ConsumerIdInUseError(ClientError):
    """Another process has a consumer of this id in the group."""


class ConsumerRebalanceFailedError(RebalanceError):
    """A consumer tried ``rebalance.max.retries`` times; the message has the last reason."""


class QueueFullError(ClientError):
    """The queue of an asynchronous producer has no room; ``accepted`` messages of the same call are in it."""

    def __init__(self, message: str, accepted: int = 0) -> None:
        super().__init__(message)
        self.accepted = accepted


class QueueClosedError(ClientError):
    """The producer is closed; ``accepted`` messages of the same call are in its queue."""

    def __init__(self, message: str, accepted: int = 0) -> None:
        super().__init__(message)
        self.accepted = accepted


class InvalidMessageError(ClientError):
    """A message that cannot be sent: its encoder refuses it, or the target has no place for what it holds."""


class MessageSizeTooLargeError(ClientError):
    """A message is larger than ``max.message.size``."""


class InvalidPartitionError(ClientError):
    """A partitioner chose a partition that the topic does not have."""


class NoBrokersForPartitionError(ClientError):
    """No broker that is there has the partition."""


class NotSentError(ClientError):
    """Some messages of a call or of a batch were not sent; the others were. ``items``: those that were not."""

    def __init__(self, message: str, items: Sequence[object]) -> None:
        super().__init__(message)
        self.items = tuple(items)
