"""Offsets of several partitions in JSON, as in Spark's Kafka source, and the bounds of a read.

``{"flights": {"0": 23, "1": -2}}`` means offset 23 of partition 0 and the earliest offset of partition 1.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ...storage import (
    TIME_FORMS,
    InvalidConfigError,
    LogStoreError,
    OffsetOutOfRangeError,
    TopicPartition,
    parse_instant,
    remote_text,
)

logger = logging.getLogger(__name__)

# Kafka's numbers for the two ends of a log (ListOffsetsRequest), as used in the JSON.
LATEST = -1
EARLIEST = -2
_WORDS = {"latest": LATEST, "earliest": EARLIEST}
LONG_MAX = 2**63 - 1


Offsets = dict[TopicPartition, int]
Timestamps = dict[TopicPartition, int]  # milliseconds since 1970


class Ends(NamedTuple):
    """The offsets of a partition that a reader may read: from ``first`` up to, not including, ``next``."""

    first: int
    next: int  # the offset that ``latest`` stands for
    most: int | None = None  # the largest offset that an option may name, if that is more than the latest
    remote: range | None = None  # offsets below ``first`` that only a broker's remote storage has

    def holds(self, offset: int) -> bool:
        """Whether a read may begin or end at ``offset``."""
        return self.first <= offset <= (self.next if self.most is None else self.most)


@dataclass(frozen=True)
class DataLoss:
    """The treatment of records that a query should read but that no longer exist: the option ``failOnDataLoss``."""

    fails: bool = True

    def report(self, kind: type[LogStoreError], message: str) -> None:
        """Raises ``kind`` if ``fails``; otherwise logs a warning; the caller continues with the other records."""
        if self.fails:
            raise kind(f"{message} (set option failOnDataLoss=false to continue with the remaining records)")
        logger.warning("%s; continuing with the remaining records, because failOnDataLoss is false", message)


class Logs(NamedTuple):
    """The partitions of a read, as :meth:`Bound.resolve` needs them."""

    ends: Mapping[TopicPartition, Ends]
    # Returns the offset of the first readable record (never a marker) at or after a time in ms, or None.
    offset_at: Callable[[TopicPartition, int], int | None]
    loss: DataLoss = DataLoss()


class Bound(Protocol):
    """The start or the end of a read."""

    @property
    def option(self) -> str:
        """The name of the option that sets the bound, for messages."""
        ...

    @property
    def drifts(self) -> bool:
        """Whether :meth:`resolve` may return other offsets when the log has grown."""
        ...

    def resolve(self, logs: Logs) -> Offsets:
        """Returns the offset for each partition of ``logs``.

        Raises InvalidConfigError if the option does not name exactly the partitions that are read, or if no record is
        at or after its time, and OffsetOutOfRangeError for an offset outside a log.
        """
        ...


@dataclass(frozen=True)
class AtEnd:
    """A bound at ``earliest`` or ``latest`` in every partition."""

    option: str
    end: int  # LATEST or EARLIEST

    @property
    def drifts(self) -> bool:
        return self.end == LATEST

    def resolve(self, logs: Logs) -> Offsets:
        return {partition: _end(self.end, there) for partition, there in logs.ends.items()}


@dataclass(frozen=True)
class AtOffsets:
    """A bound at an offset in each partition, or at ``earliest`` (-2) or ``latest`` (-1)."""

    option: str
    offsets: Offsets

    @property
    def drifts(self) -> bool:
        return LATEST in self.offsets.values()

    def resolve(self, logs: Logs) -> Offsets:
        check_same_partitions(self.option, self.offsets, logs.ends)
        return {partition: self._within(partition, there, logs.loss) for partition, there in logs.ends.items()}

    def _within(self, partition: TopicPartition, there: Ends, loss: DataLoss) -> int:
        offset = self.offsets[partition]
        if offset in (EARLIEST, LATEST):
            return _end(offset, there)
        if there.holds(offset):
            return offset
        loss.report(
            OffsetOutOfRangeError,
            f"option {self.option}: offset {offset} of {partition} is outside the log, "
            f"which begins at {there.first} and ends before {there.next}"
            + ("" if there.remote is None else f"; {remote_text(there.remote)}"),
        )
        return there.first if offset < there.first else there.next


@dataclass(frozen=True)
class AtTimestamp:
    """A bound at the first record at or after a time, which is the same for all partitions."""

    option: str
    timestamp_ms: int
    latest_without_match: bool  # if no record is at or after the time: True: the log's end; False: InvalidConfigError

    @property
    def drifts(self) -> bool:
        return self.latest_without_match

    def resolve(self, logs: Logs) -> Offsets:
        return AtTimestamps(
            self.option, dict.fromkeys(logs.ends, self.timestamp_ms), self.latest_without_match
        ).resolve(logs)


@dataclass(frozen=True)
class AtTimestamps:
    """A bound at the first record at or after a time, with a time for each partition."""

    option: str
    timestamps: Timestamps
    latest_without_match: bool  # as above

    @property
    def drifts(self) -> bool:
        return self.latest_without_match

    def resolve(self, logs: Logs) -> Offsets:
        check_same_partitions(self.option, self.timestamps, logs.ends)
        return {partition: self._offset(partition, there, logs) for partition, there in logs.ends.items()}

    def _offset(self, partition: TopicPartition, there: Ends, logs: Logs) -> int:
        timestamp_ms = self.timestamps[partition]
        found = logs.offset_at(partition, timestamp_ms)
        if found is not None:
            return min(found, there.next)
        if not self.latest_without_match:
            raise InvalidConfigError(
                f"option {self.option}: no record of {partition} has timestamp {timestamp_ms} or a later one "
                "(set option startingOffsetsByTimestampStrategy=latest to begin at the end instead)"
            )
        return there.next


def bound_at_offsets(option: str, text: str, *, refused: int | None = None) -> Bound:
    """Parses ``earliest``, ``latest`` or offsets in JSON. Raises InvalidConfigError.

    ``refused`` is EARLIEST or LATEST, if ``option`` must not have that value.
    """
    word = _WORDS.get(text.strip().lower())
    offsets = {} if word is not None else offsets_from_json(text, option)
    if refused is not None and refused in (word, *offsets.values()):
        name = {number: name for name, number in _WORDS.items()}[refused]
        raise InvalidConfigError(f"option {option} of a batch read cannot be {name} ({refused})")
    return AtEnd(option, word) if word is not None else AtOffsets(option, offsets)


def check_order(starting: Bound, ending: Bound) -> None:
    """Raises InvalidConfigError if two bounds name different partitions, or a start is after its end.

    Reads no log, so this checks only two bounds at offsets, or two at times; :func:`check_start_before_end` checks all
    bounds once they are resolved to offsets.
    """
    match starting, ending:
        case AtOffsets(offsets=starts), AtOffsets(offsets=ends):
            pass
        case AtTimestamps(timestamps=starts), AtTimestamps(timestamps=ends):
            pass
        case _:
            return
    if starts.keys() != ends.keys():
        raise InvalidConfigError(
            f"options {starting.option} and {ending.option} name different partitions: "
            f"{_listed(starts)} and {_listed(ends)}"
        )
    numbers = {partition for partition in starts if min(starts[partition], ends[partition]) >= 0}
    _check_each(starting, ending, {each: starts[each] for each in numbers}, ends)


def warn_of_remote(starts: Offsets, ends: Mapping[TopicPartition, Ends]) -> None:
    """Logs a warning for each partition that is read from its first offset here, while earlier ones are remote."""
    for partition, start in sorted(starts.items()):
        remote = ends[partition].remote
        if remote is not None and start == remote.stop:
            logger.warning("%s is read from offset %s on: %s", partition, start, remote_text(remote))


def check_start_before_end(starting: Bound, ending: Bound, starts: Offsets, ends: Offsets) -> None:
    """Raises InvalidConfigError if a partition's resolved start is after its end."""
    _check_each(starting, ending, starts, ends)


def _check_each(starting: Bound, ending: Bound, starts: Mapping[TopicPartition, int], ends: Offsets) -> None:
    for partition, start in sorted(starts.items()):
        if start > ends[partition]:
            raise InvalidConfigError(
                f"option {starting.option} is after {ending.option} in {partition}: {start} and {ends[partition]}"
            )


def check_same_partitions(option: str, given: Iterable[TopicPartition], read: Iterable[TopicPartition]) -> None:
    """Raises InvalidConfigError unless ``option`` names exactly the partitions that are read."""
    missing, extra = sorted({*read} - {*given}), sorted({*given} - {*read})
    if missing or extra:
        parts = [("has no value for", missing), ("names partitions that are not read:", extra)]
        problems = "; ".join(f"{what} {_listed(which)}" for what, which in parts if which)
        raise InvalidConfigError(f"option {option} {problems}")


def offsets_to_nested(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Returns offsets as ``{topic: {partition: offset}}``, sorted, so that equal offsets become equal JSON."""
    nested: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        nested.setdefault(topic, {})[str(partition)] = offset
    return nested


def offsets_from_json(text: str, option: str) -> Offsets:
    """Parses ``{topic: {partition: number}}``. Raises InvalidConfigError naming ``option`` for any other text."""
    nested = json_object(text, option, '{"flights": {"0": 23, "1": -2}}, "earliest" or "latest"')
    return offsets_from_nested(nested, option, least=EARLIEST)


def timestamps_from_json(text: str, option: str) -> Timestamps:
    """Parses ``{topic: {partition: time}}``, times in ms or as ISO 8601 text.

    Raises InvalidConfigError naming ``option`` for any other text.
    """
    form = '{"flights": {"0": 1357041600000, "1": "2013-01-01T12:00"}}, a time for each partition'
    nested = {topic: _in_ms(times) for topic, times in json_object(text, option, form).items()}
    return offsets_from_nested(nested, option, least=0, form=TIME_FORMS)


def _in_ms(times: Any) -> Any:
    """Returns ms for times as text; leaves anything else for ``offsets_from_nested`` to refuse."""
    if not isinstance(times, dict):
        return times
    found = dict(times)
    for partition, text in times.items():
        with suppress(ValueError):
            found[partition] = parse_instant(text, least_ms=0) if isinstance(text, str) else text
    return found


def offsets_from_nested(
    nested: Mapping[str, Any], option: str, *, least: int, form: str | None = None
) -> dict[TopicPartition, int]:
    """Converts ``{topic: {partition: number}}`` to numbers by partition.

    Raises InvalidConfigError, naming ``option``, for another form, and for a number below ``least``. ``form`` describes
    the required form of the numbers.
    """
    found: dict[TopicPartition, int] = {}
    for topic, partitions in nested.items():
        if not isinstance(partitions, dict):
            raise InvalidConfigError(
                f"option {option}: topic {topic!r} needs an object that maps partitions to numbers"
            )
        for partition, number in partitions.items():
            is_partition = partition.isascii() and partition.isdecimal()
            if not is_partition or type(number) is not int or not least <= number <= LONG_MAX:
                raise InvalidConfigError(
                    f"option {option}: topic {topic!r} has {partition!r}: {number!r}; it must be a partition, and "
                    + (form or f"a number of {least} or more")
                )
            found[TopicPartition(topic, int(partition))] = number
    return found


def json_object(text: str, option: str, form: str) -> dict[str, Any]:
    """Parses a JSON object. For other text, raises InvalidConfigError, which names ``option`` and shows ``form``."""
    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InvalidConfigError(f"option {option}: {text[:200]!r} is not {form}: {error}") from None
    if not isinstance(found, dict):
        raise InvalidConfigError(f"option {option}: {text[:200]!r} is not {form}")
    return found


def _end(end: int, there: Ends) -> int:
    return there.first if end == EARLIEST else there.next


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions))) or "none"
