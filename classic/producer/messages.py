"""ProducerData, the messages that a program sends, and QueueItem, one of them in the queue."""

from __future__ import annotations

from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A message with all fields of Kafka's newest format. Older targets refuse fields that their format lacks."""

    value: bytes | None  # None: a tombstone in a compacted topic
    key: bytes | None = None  # None: the key of ProducerData, encoded
    headers: Headers = ()
    timestamp_ms: int | None = None  # since 1970; None: the time at which it is sent


Message = Record | bytes | None
"""What an encoder returns: bytes stand for a record that has a value only."""


class ProducerData(NamedTuple):
    """Messages for one topic that have one key.

    ``data``: one object for the encoder, or a list of them. ``key``: any type that the partitioner accepts; it chooses
    the partition, and is stored in each message if the target's format has keys. None: no key.
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


_new = tuple.__new__  # runs for every message; calling the class takes twice as long


def items_of(data: ProducerData) -> list[QueueItem]:
    """Returns the messages one by one."""
    topic, key, given = data
    if isinstance(given, list):
        return [QueueItem(each, topic, None, key) for each in given]
    return [_new(QueueItem, (given, topic, None, key))]
