"""Partitions of topics as members of groups have them: by topic id, in requests, answers and records alike."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple
from uuid import UUID

from ...storage import InvalidRecordError

NO_ID = UUID(int=0)
NO_HASH = 0  # of a group without topics


class Part(NamedTuple):
    """A partition of a topic."""

    topic_id: str  # as Kafka prints it
    partition: int


Epochs = Mapping[Part, int]  # partitions with the epoch in which a member got each


class Topic(NamedTuple):
    """A topic that can be assigned."""

    name: str
    id: str
    partitions: tuple[int, ...]

    @property
    def parts(self) -> Sequence[Part]:
        """The partitions of the topic."""
        return [Part(self.id, each) for each in self.partitions]


Catalog = Mapping[str, Topic]  # all topics by name; another object whenever they have changed


def text_of(topic_id: UUID | None) -> str:
    """Returns a topic's id as Kafka prints it."""
    return urlsafe_b64encode((topic_id or NO_ID).bytes).rstrip(b"=").decode()


def uuid_of(topic_id: str) -> UUID:
    """Returns a topic's id from the text that Kafka prints."""
    return UUID(bytes=urlsafe_b64decode(f"{topic_id}=="))


def by_topic(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """Returns partitions grouped by topic, both sorted, with the names of fields in records."""
    found: dict[str, list[int]] = {}
    for each in sorted(parts):
        found.setdefault(each.topic_id, []).append(each.partition)
    return [{"topicId": topic_id, "partitions": numbers} for topic_id, numbers in found.items()]


def with_epochs(epochs: Epochs) -> list[dict[str, Any]]:
    """Returns partitions as :func:`by_topic`, with their epochs."""
    return [
        {**each, "assignmentEpochs": [epochs[Part(each["topicId"], number)] for number in each["partitions"]]}
        for each in by_topic(epochs)
    ]


def parts_of(topics: Collection[Mapping[str, Any]]) -> frozenset[Part]:
    """Returns the partitions in a record's field."""
    return frozenset(Part(topic["topicId"], number) for topic in topics for number in topic["partitions"])


def epochs_of(topics: Collection[Mapping[str, Any]], default: int) -> dict[Part, int]:
    """Returns the partitions in a record's field with their epochs; ``default``: of those that have none there.

    Raises InvalidRecordError if their numbers differ.
    """
    found = {}
    for topic in topics:
        numbers = topic["partitions"]
        epochs = topic.get("assignmentEpochs") or [default] * len(numbers)
        if len(epochs) != len(numbers):
            raise InvalidRecordError(f"{len(numbers)} partitions have {len(epochs)} epochs")
        found.update({Part(topic["topicId"], number): epoch for number, epoch in zip(numbers, epochs, strict=True)})
    return found


def topics_hash(topics: Iterable[Topic]) -> int:
    """Returns 64 bits that differ when topics or their partitions do.

    Kafka 4 stores such a number of its own with a group, and compares it with nothing but its next one.
    """
    described = [(each.name, each.id, len(each.partitions)) for each in sorted(topics)]
    digest = sha256(repr(described).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big", signed=True) if described else NO_HASH
