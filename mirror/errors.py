"""The errors of mirrors, and of what asks today's brokers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..classic.errors import BrokerError, BrokerUnreachableError, MalformedAnswerError
from ..registry.errors import RegistryError
from ..storage import LogStoreError


class MirrorError(LogStoreError):
    """A topic cannot be mirrored; the message says what to do."""


class OutsideLogError(MirrorError):
    """The log of a partition in Kafka does not have the requested offset."""


class RetriableError(MirrorError):
    """Brokers did not answer, or refused a request for the moment; the same request may succeed later."""


class FencedError(MirrorError):
    """Another process uses the transactional id, or the transaction took too long."""


class TopicThereError(MirrorError):
    """A topic to create exists already."""


@contextmanager
def as_mirror_errors(cluster: object) -> Iterator[None]:
    """Raises RetriableError in place of errors on the old wires that may pass, and MirrorError for refusals.

    ``cluster``: its name, for the messages.
    """
    try:
        yield
    except (BrokerUnreachableError, MalformedAnswerError, RegistryError) as error:
        raise RetriableError(f"{cluster}: {error}") from error
    except BrokerError as error:
        raise MirrorError(f"{cluster}: {error}") from error
