"""The errors of producers and consumers. A wrong setting raises InvalidConfigError of ``storage``, as everywhere."""

from __future__ import annotations

from collections.abc import Sequence

from ..storage import LogStoreError


class ClientError(LogStoreError):
    """Base of the errors of producers and consumers."""


class BrokerUnreachableError(ClientError):
    """A broker did not answer, or the connection broke. It is unknown whether the broker carried out the request."""


class ConnectionClosedError(ClientError):
    """This client was closed, perhaps by another thread."""


class MalformedAnswerError(ClientError):
    """A broker sent bytes that are not a valid answer to the request."""


class MessageTooLargeError(ClientError):
    """A message is larger than the largest fetch."""


class BrokerError(ClientError):
    """A broker refused a request, or a part of it. ``code`` is the error code of its Kafka generation."""

    def __init__(self, what: str, code: int, name: str) -> None:
        self.what, self.code, self.name = what, code, name
        super().__init__(what, code, name)

    def __str__(self) -> str:
        return f"{self.what}: the broker answered {self.name} ({self.code})"


class ConsumerTimeoutError(ClientError):
    """No message came within ``consumer.timeout.ms``."""


class RebalanceError(ClientError):
    """A consumer could not agree with its group on the assignment of partitions."""


class ConsumerIdInUseError(ClientError):
    """Another process has a consumer with this id in the group."""


class ConsumerRebalanceFailedError(RebalanceError):
    """A consumer tried to rebalance ``rebalance.max.retries`` times; the message states the last reason."""


class QueueFullError(ClientError):
    """The queue of an asynchronous producer is full; it holds the first ``accepted`` messages of the call."""

    def __init__(self, message: str, accepted: int = 0) -> None:
        super().__init__(message)
        self.accepted = accepted


class QueueClosedError(ClientError):
    """The producer is closed; its queue holds the first ``accepted`` messages of the call."""

    def __init__(self, message: str, accepted: int = 0) -> None:
        super().__init__(message)
        self.accepted = accepted


class InvalidMessageError(ClientError):
    """A message cannot be sent: its encoder refuses it, or the target's format lacks a field that it has."""


class MessageSizeTooLargeError(ClientError):
    """A message is larger than ``max.message.size``."""


class InvalidPartitionError(ClientError):
    """A partitioner chose a partition that the topic does not have."""


class NoBrokersForPartitionError(ClientError):
    """No available broker has the partition."""


class NotSentError(ClientError):
    """Some messages of a call or batch were not sent, and the others were. ``items``: the unsent ones."""

    def __init__(self, message: str, items: Sequence[object]) -> None:
        super().__init__(message)
        self.items = tuple(items)
