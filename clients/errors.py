"""What goes wrong in a client; a wrong setting is ``storage``'s InvalidConfigError, as everywhere."""

from __future__ import annotations

from ..storage import LogStoreError


class ClientError(LogStoreError):
    """Base of the errors of ``clients``."""


class MirrorError(ClientError):
    """A topic cannot be mirrored; the message says what to do."""


class OutsideLogError(MirrorError):
    """The log of a partition in Kafka does not have the requested offset."""
