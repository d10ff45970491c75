"""The partitions to read: the options ``subscribe``, ``assign`` and ``subscribePattern``."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from ...storage import (
    INTERNAL_TOPICS,
    InvalidConfigError,
    TopicDescription,
    TopicPartition,
    UnknownTopicOrPartitionError,
)
from ..rows.offsets import json_object

logger = logging.getLogger(__name__)


class Topics(Protocol):
    """A source of the topics of a directory, such as a LogManager."""

    def topics(self) -> Mapping[str, TopicDescription]:
        """The topics by name."""
        ...

    def topic(self, name: str) -> TopicDescription:
        """Returns one topic. Raises UnknownTopicOrPartitionError."""
        ...


class Subscription(NamedTuple):
    """The partitions to read: ``how`` is the option that names them, ``text`` its value."""

    how: str
    text: str

    def check(self) -> None:
        """Raises InvalidConfigError if the option's value is invalid. Reads no log."""
        WAYS[self.how].check(self.text)

    def partitions(self, manager: Topics) -> list[TopicPartition]:
        """Returns the partitions, sorted; [] if a pattern matches no topic, since one may be created later.

        Raises UnknownTopicOrPartitionError for a topic or partition that does not exist, with the most similar name.
        """
        return sorted(WAYS[self.how].find(self.text, manager, True))

    def partitions_there(self, manager: Topics) -> list[TopicPartition]:
        """Returns the partitions that exist, sorted, for a query during which topics are created and deleted."""
        return sorted(WAYS[self.how].find(self.text, manager, False))


def _names(text: str) -> list[str]:
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise InvalidConfigError("option subscribe names no topic")
    return names


def _assignment(text: str) -> dict[str, list[int]]:
    form = '{"flights": [0, 1]}'
    wanted = json_object(text, "assign", form)
    for numbers in wanted.values():
        if not isinstance(numbers, list) or any(type(number) is not int for number in numbers):
            raise InvalidConfigError(f"option assign is {text!r}; it must have the form {form}")
    return wanted


def _pattern(text: str) -> re.Pattern[str]:
    if not text:
        raise InvalidConfigError("option subscribePattern is empty: give a regular expression")
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidConfigError(
            f"option subscribePattern is {text!r}; it must be a regular expression of Python: {error}"
        ) from None


def _subscribed(text: str, manager: Topics, strict: bool) -> list[TopicPartition]:
    return [TopicPartition(name, i) for name in _names(text) for i in _partitions_of(name, manager, strict)]


def _assigned(text: str, manager: Topics, strict: bool) -> list[TopicPartition]:
    wanted = []
    for topic, numbers in _assignment(text).items():
        there = _partitions_of(topic, manager, strict)
        for number in dict.fromkeys(numbers):
            if number in there:
                wanted.append(TopicPartition(topic, number))
            elif strict:
                raise UnknownTopicOrPartitionError(
                    f"option assign: topic {topic} has no partition {number!r}; it has {', '.join(map(str, there))}"
                )
    return wanted


def _matching(text: str, manager: Topics, strict: bool) -> list[TopicPartition]:
    pattern, topics = _pattern(text), manager.topics()
    # The pattern may match anywhere in the name, as in Spark's source. Only subscribe may name internal topics.
    names = [name for name in topics if pattern.search(name) and name not in INTERNAL_TOPICS]
    if not names and strict:
        logger.warning(
            "option subscribePattern: no topic matches %r; there are %s", text, ", ".join(topics) or "no topics"
        )
    return [each for name in names for each in topics[name].topic_partitions]


def _partitions_of(topic: str, manager: Topics, strict: bool) -> tuple[int, ...]:
    try:
        return manager.topic(topic).partitions
    except UnknownTopicOrPartitionError:
        if strict:
            raise
        return ()


class _Way(NamedTuple):
    """An option that names partitions: ``check`` parses its value without reading logs, ``find`` finds partitions."""

    check: Callable[[str], object]
    find: Callable[[str, Topics, bool], list[TopicPartition]]  # the flag: whether a missing one is an error


WAYS = {
    "subscribe": _Way(_names, _subscribed),
    "assign": _Way(_assignment, _assigned),
    "subscribePattern": _Way(_pattern, _matching),
}
