"""The options of the data source, checked in one place."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from pyspark_commitlog.pipeline.offsets import EARLIEST, LATEST, Bound, TopicPartition, json_object
from pyspark_commitlog.pipeline.schema import nearest
from pyspark_commitlog.storage import INTERNAL_TOPICS, InvalidConfigError, Isolation, LogManager

T = TypeVar("T")

_OURS = (
    "path",
    "subscribe",
    "assign",
    "subscribePattern",
    "startingOffsets",
    "endingOffsets",
    "includeHeaders",
    "isolation.level",
)
# Options that Spark reads itself and hands to every source and sink as well.
_SPARKS = ("checkpointLocation", "queryName", "outputMode", "triggerInterval")


class Subscription(NamedTuple):
    """Which partitions to read: ``how`` is the option that says so, ``text`` its value."""

    how: str
    text: str

    def partitions(self, manager: LogManager) -> list[TopicPartition]:
        """Sorted; raises UnknownTopicOrPartitionError (with the nearest name) and InvalidConfigError."""
        return sorted(_WAYS[self.how](self.text, manager))


@dataclass(frozen=True)
class ReadOptions:
    """The options of a batch read, parsed. Defaults are those of Spark's Kafka source, but for the isolation level:
    ``read_committed``, the safe one (``isolation.level=read_uncommitted`` shows open and aborted transactions).
    """

    directory: str  # absolute: the workers may run elsewhere
    subscription: Subscription
    starting: Bound
    ending: Bound
    include_headers: bool
    isolation: Isolation

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Names without regard to case. Raises InvalidConfigError naming the option, and the nearest known one."""
        given = {name.lower(): value for name, value in options.items()}
        check_names(options, _OURS)
        if "path" not in given:
            raise InvalidConfigError("option path is missing: .load('/path/to/the/log/directory')")
        return cls(
            directory=local_directory(given["path"]),
            subscription=_subscription(given),
            starting=Bound.parse("startingOffsets", given.get("startingoffsets", "earliest"), forbidden=LATEST),
            ending=Bound.parse("endingOffsets", given.get("endingoffsets", "latest"), forbidden=EARLIEST),
            include_headers=_choice(given, "includeHeaders", "false", {"true": True, "false": False}),
            isolation=_choice(
                given, "isolation.level", "read_committed", {level.name.lower(): level for level in Isolation}
            ),
        )


def check_names(options: Collection[str], ours: Collection[str]) -> None:
    """Raises InvalidConfigError for a name that neither we nor Spark know."""
    known = {name.lower() for name in (*ours, *_SPARKS)}
    for name in options:
        if name.lower() not in known:
            raise InvalidConfigError(
                f"unknown option {name!r}{nearest(name, ours)}; the commitlog source knows {', '.join(ours)}"
            )


def local_directory(path: str) -> str:
    """``path`` made absolute; ``file:`` URIs are taken, other schemes refused with InvalidConfigError."""
    parts = urlsplit(path)
    if parts.scheme == "file":
        return os.path.abspath(unquote(parts.path))
    if "://" in path:
        raise InvalidConfigError(f"path {path}: a log lives on a file system that every worker mounts, not on {path!r}")
    return os.path.abspath(path)


def _subscription(given: Mapping[str, str]) -> Subscription:
    found = [Subscription(how, given[how.lower()]) for how in _WAYS if how.lower() in given]
    if len(found) != 1:
        told = " and ".join(each.how for each in found) or "none"
        raise InvalidConfigError(f"exactly one of the options {', '.join(_WAYS)} must be given, not {told}")
    return found[0]


def _subscribed(text: str, manager: LogManager) -> list[TopicPartition]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InvalidConfigError("option subscribe names no topic")
    return [TopicPartition(name, i) for name in dict.fromkeys(names) for i in manager.topic(name).partitions]


def _assigned(text: str, manager: LogManager) -> list[TopicPartition]:
    form = '{"flights": [0, 1]}'
    wanted = []
    for topic, numbers in json_object(text, "assign", form).items():
        there = manager.topic(topic).partitions
        if not isinstance(numbers, list):
            raise InvalidConfigError(f"option assign: {text!r} is not {form}")
        for number in numbers:
            if type(number) is not int or number not in there:
                raise InvalidConfigError(
                    f"option assign: topic {topic} has no partition {number!r}, only {', '.join(map(str, there))}"
                )
        wanted += [TopicPartition(topic, number) for number in numbers]
    return wanted


def _matching(text: str, manager: LogManager) -> list[TopicPartition]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise InvalidConfigError(f"option subscribePattern: {text!r} is not a regular expression: {error}") from None
    topics = manager.topics()
    # As with a consumer's exclude.internal.topics: only subscribe may name those.
    names = [name for name in topics if pattern.fullmatch(name) and name not in INTERNAL_TOPICS]
    if not names:
        raise InvalidConfigError(
            f"option subscribePattern: no topic matches {text!r}; there are {', '.join(sorted(topics)) or 'none'}"
        )
    return [TopicPartition(name, i) for name in names for i in topics[name].partitions]


_WAYS: dict[str, Callable[[str, LogManager], list[TopicPartition]]] = {
    "subscribe": _subscribed,
    "assign": _assigned,
    "subscribePattern": _matching,
}


def _choice(given: Mapping[str, str], option: str, default: str, values: Mapping[str, T]) -> T:
    text = given.get(option.lower(), default).strip().lower()
    if text not in values:
        raise InvalidConfigError(f"option {option} is {text!r}; it can be {' or '.join(values)}")
    return values[text]
