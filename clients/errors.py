"""What goes wrong in a client; a wrong setting is ``storage``'s InvalidConfigError, as everywhere."""

from __future__ import annotations

from ..storage import LogStoreError


class ClientError(LogStoreError):
    """Base of the errors of ``clients``."""


class MirrorError(ClientError):
    """A topic cannot be mirrored; the message says what to do."""


class OutsideLogError(MirrorError):
    """The log of a partition in Kafka does not have the requested offset."""


class BrokerUnreachableError(ClientError):
    """A broker did not answer, or the connection to it broke. Whether it did what was asked is unknown."""


class ConnectionClosedError(ClientError):
    """This client was closed, perhaps by another thread."""


class MalformedAnswerError(ClientError):
    """A broker sent bytes that are no answer to what was asked."""


class BrokerError(ClientError):
    """A broker refused a request, or a part of it. ``code`` is the number of its generation of Kafka."""

    def __init__(self, what: str, code: int, name: str) -> None:
        self.what, self.code, self.name = what, code, name
        super().__init__(what, code, name)

    def __str__(self) -> str:
        return f"{self.what}: the broker answered {self.name} ({self.code})"
