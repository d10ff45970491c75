"""Offsets of several partitions, and their JSON, as in Spark's Kafka source: ``{"flights": {"0": 23, "1": -2}}``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from pyspark_commitlog.storage import InvalidConfigError, OffsetOutOfRangeError

# Kafka's numbers for the two ends of a log (ListOffsetsRequest), as they stand in the JSON.
LATEST = -1
EARLIEST = -2
_WORDS = {"latest": LATEST, "earliest": EARLIEST}


class TopicPartition(NamedTuple):
    """A partition of a topic; text as in file names: ``flights-0``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Offsets = dict[TopicPartition, int]


class Ends(NamedTuple):
    """What a partition holds for this reader: offsets from ``first`` up to, not including, ``next``."""

    first: int
    next: int


class Bound(NamedTuple):
    """Where a read begins or ends: one word for all partitions, or an offset for each."""

    option: str  # the option it came from, for messages
    everywhere: int | None  # LATEST or EARLIEST
    offsets: Offsets

    @classmethod
    def parse(cls, option: str, text: str, *, forbidden: int) -> Bound:
        """``text`` is ``earliest``, ``latest`` or JSON. ``forbidden`` is the end that makes no sense for ``option``.

        Raises InvalidConfigError.
        """
        word = _WORDS.get(text.strip().lower())
        bound = cls(option, word, {}) if word is not None else cls(option, None, offsets_from_json(text, option))
        if forbidden in (bound.everywhere, *bound.offsets.values()):
            name = {number: name for name, number in _WORDS.items()}[forbidden]
            raise InvalidConfigError(f"option {option} of a batch read cannot be {name} ({forbidden})")
        return bound

    def resolve(self, ends: Mapping[TopicPartition, Ends]) -> Offsets:
        """The offset for each partition of ``ends``.

        Raises InvalidConfigError where the JSON names other partitions than those read, OffsetOutOfRangeError for an
        offset outside a log.
        """
        if self.everywhere is not None:
            asked = dict.fromkeys(ends, self.everywhere)
        else:
            self._check_same_partitions(ends)
            asked = self.offsets
        return {partition: self._within(partition, asked[partition], there) for partition, there in ends.items()}

    def _check_same_partitions(self, ends: Mapping[TopicPartition, Ends]) -> None:
        missing, extra = sorted(ends.keys() - self.offsets.keys()), sorted(self.offsets.keys() - ends.keys())
        if missing or extra:
            parts = [("has no offset for", missing), ("names partitions that are not read:", extra)]
            told = "; ".join(f"{what} {', '.join(map(str, which))}" for what, which in parts if which)
            raise InvalidConfigError(f"option {self.option} {told}")

    def _within(self, partition: TopicPartition, offset: int, there: Ends) -> int:
        if offset in (EARLIEST, LATEST):
            return there.first if offset == EARLIEST else there.next
        if not there.first <= offset <= there.next:
            raise OffsetOutOfRangeError(
                f"option {self.option}: offset {offset} of {partition} is outside the log, "
                f"which begins at {there.first} and ends before {there.next}"
            )
        return offset


def offsets_to_json(offsets: Mapping[TopicPartition, int]) -> str:
    """Sorted, so that equal offsets are equal text."""
    nested: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        nested.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(nested, separators=(",", ":"))


def offsets_from_json(text: str, option: str) -> Offsets:
    """Raises InvalidConfigError naming ``option`` where ``text`` is not of this form."""
    nested = json_object(text, option, '{"flights": {"0": 23, "1": -2}}, "earliest" or "latest"')
    found: Offsets = {}
    for topic, partitions in nested.items():
        if not isinstance(partitions, dict):
            raise InvalidConfigError(f"option {option}: topic {topic!r} needs an object of partition to offset")
        for partition, offset in partitions.items():
            if not partition.isdecimal() or type(offset) is not int or offset < EARLIEST:
                raise InvalidConfigError(
                    f"option {option}: {partition!r}: {offset!r} of topic {topic!r} is not a partition and an offset"
                )
            found[TopicPartition(topic, int(partition))] = offset
    return found


def json_object(text: str, option: str, form: str) -> dict[str, Any]:
    """The JSON object in ``text``; InvalidConfigError shows ``form`` where it is none."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidConfigError(f"option {option}: {text!r} is not {form}: {error}") from None
    if not isinstance(found, dict):
        raise InvalidConfigError(f"option {option}: {text!r} is not {form}")
    return found
