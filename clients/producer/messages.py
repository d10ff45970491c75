"""What a program sends: ProducerData, with records; and QueueItem, one of them on its way."""

from __future__ import annotations

from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A message with all that Kafka's newest format has. Older targets refuse what their formats lack."""

    value: bytes | None  # None: a tombstone in a compacted topic
    key: bytes | None = None  # None: the key of ProducerData, encoded
    headers: Headers = ()
    timestamp_ms: int | None = None  # since 1970; None: the time at which it is sent


Message = Record | bytes | None
"""What an encoder returns: bytes stand for a record that has a value only."""


class ProducerData(NamedTuple):
    """Messages for one topic that have one key.

    ``data``: a list of what the encoder takes, or one of them. ``key``: of any type that the partitioner takes; it
    chooses the partition, and is written into each message where the target's format has keys. None: no key.
    """

    topic: str
    key: object
    data: object


class QueueItem(NamedTuple):
    """One message in the queue of an asynchronous producer."""

    data: object
    topic: str
    partition: int | None = None  # an index into the sorted partitions of the topic; None: by the key, when it is sent
    key: object = None


_new = tuple.__new__  # each message that a program sends passes here; a call of the class takes twice as long


def items_of(data: ProducerData) -> list[QueueItem]:
    """Returns the messages one by one."""
    topic, key, given = data
    if isinstance(given, list):
        return [QueueItem(each, topic, None, key) for each in given]
    return [_new(QueueItem, (given, topic, None, key))]
