"""The offset in each partition from which a topic is loaded again: ``--from-time`` and ``--from-offsets``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, cast

from pyspark.sql import Column, functions as F

from ...storage import (
    InvalidConfigError,
    Isolation,
    LogManager,
    LogReader,
    OffsetOutOfRangeError,
    ProgressMismatchError,
    TopicPartition,
    parse_instant,
)
from ..rows.offsets import EARLIEST, LATEST, AtEnd, AtOffsets, bound_at_offsets
from .command.words import FROM_OFFSETS, FROM_TIME

Points = Mapping[int, int]  # the first offset to load again, by partition


class Wanted(NamedTuple):
    """The two flags; at most one of them is given."""

    time: str | None
    offsets: str | None

    def __bool__(self) -> bool:
        return self.time is not None or self.offsets is not None


def find_points(manager: LogManager, topic: str, wanted: Wanted) -> Points:
    """Returns the first offset to load again in each partition: that of a time in every partition, or the named ones.

    A time stands for the first committed record that is not older, or for the log end if there is none. Raises
    InvalidConfigError for both flags, another form, and an unknown partition, and OffsetOutOfRangeError for an offset
    that is above the log end or no longer in the log: rows would be deleted that cannot be loaded again.
    """
    time_ms, numbers = time_of(wanted), manager.topic(topic).partitions
    if time_ms is not None:
        return {number: _first_at(manager, topic, number, time_ms) for number in numbers}
    asked = asked_offsets(FROM_OFFSETS, cast(str, wanted.offsets), topic, numbers, refused=LATEST)
    return {number: _checked(manager, topic, number, offset) for number, offset in asked.items()}


def time_of(wanted: Wanted) -> int | None:
    """Returns the requested time in ms. Raises InvalidConfigError if it is not a time, or offsets are requested too."""
    if wanted.time is None:
        return None
    if wanted.offsets is not None:
        raise InvalidConfigError(f"{FROM_TIME} and {FROM_OFFSETS} cannot be used together")
    try:
        return parse_instant(wanted.time)
    except ValueError as error:
        raise InvalidConfigError(f"{FROM_TIME}: {error}") from None


def asked_offsets(
    option: str, text: str, topic: str, numbers: Collection[int], *, refused: int | None = None
) -> dict[int, int]:
    """Returns the offset, LATEST or EARLIEST that ``text`` asks for in partitions of a topic, which has ``numbers``.

    Offsets of other topics are left out. Raises InvalidConfigError for another form, and for an unknown partition.
    ``refused`` is as for ``bound_at_offsets``.
    """
    bound = bound_at_offsets(option, text, refused=refused)
    if isinstance(bound, AtEnd):
        return dict.fromkeys(numbers, bound.end)
    asked = {part.partition: at for part, at in cast(AtOffsets, bound).offsets.items() if part.topic == topic}
    if unknown := asked.keys() - set(numbers):
        names = ", ".join(str(TopicPartition(topic, number)) for number in sorted(unknown))
        raise InvalidConfigError(f"{option}: the topic has no partition {names}")
    return asked


def offset_in_log(offset: int, first: int, end: int, partition: str, log: str) -> int:
    """Returns an offset that was asked for, ``first`` for EARLIEST.

    Raises OffsetOutOfRangeError for one that ``log`` does not have, from ``first`` to ``end``.
    """
    if offset == EARLIEST:
        return first
    if not first <= offset <= end:
        raise OffsetOutOfRangeError(
            f"{FROM_OFFSETS}: offset {offset} of {partition} is outside {log}, which begins at {first} and ends before "
            f"{end}: only what the log has can be loaded"
        )
    return offset


def at_or_above(points: Points) -> Column:
    """Returns the condition for rows at or above the point of their partition; false in other partitions."""
    return F.expr(sql_at_or_above(points))


def sql_at_or_above(points: Points) -> str:
    """Returns :func:`at_or_above` as SQL."""
    each = [f"(_partition = {number} AND _offset >= {offset})" for number, offset in sorted(points.items())]
    return " OR ".join(each) or "false"


def sql_between_or_above(points: Points, ends: Points, beyond: Collection[int]) -> str:
    """Returns, as SQL, the condition for rows from the point of their partition up to, not including, its end.

    In the partitions ``beyond`` it also holds at the end and above.
    """
    each = [
        f"(_partition = {number} AND _offset >= {offset}"
        + ("" if number in beyond else f" AND _offset < {ends[number]}")
        + ")"
        for number, offset in sorted(points.items())
    ]
    return " OR ".join(each) or "false"


def listed(points: Points) -> str:
    """Returns points as text: ``offset 7 of partition 0, offset 9 of partition 1``."""
    return ", ".join(f"offset {offset} of partition {number}" for number, offset in sorted(points.items()))


def check_log_reaches(manager: LogManager, topic: str, ends: Points, points: Points, wanted: Wanted) -> None:
    """Raises ProgressMismatchError if the log ends below the rows, unless the user gave offsets to delete them.

    ``ends`` are the offsets after the last row of each partition. A log that was created again has few records or none,
    and a time would delete all rows that it lacks.
    """
    if wanted.offsets is not None:
        return
    for number in sorted(ends.keys() & points.keys()):
        with manager.open_reader(topic, number) as reader:
            end = reader.log_end_offset
        if end < ends[number]:
            raise ProgressMismatchError(
                f"there are rows from {topic}-{number} up to offset {ends[number] - 1}, but the log in "
                f"{manager.directory} ends at {end}: it is an older copy, or the topic was deleted and created again. "
                f"Put back the log that belongs to the rows; or, to delete the rows that the log lacks, name the "
                f'offsets: {FROM_OFFSETS} \'{{"{topic}": {{"{number}": {min(end, points[number])}}}}}\''
            )


def _first_at(manager: LogManager, topic: str, number: int, time_ms: int) -> int:
    with manager.open_reader(topic, number) as reader:
        found = reader.offset_for_timestamp(time_ms)
        return _end(reader) if found is None else found.offset


def _checked(manager: LogManager, topic: str, number: int, offset: int) -> int:
    with manager.open_reader(topic, number) as reader:
        return offset_in_log(offset, reader.log_start_offset, _end(reader), f"{topic}-{number}", "the log")


def _end(reader: LogReader) -> int:
    return reader.end_offset(Isolation.READ_COMMITTED)
