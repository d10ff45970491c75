"""The targets of ``commitlog groups --reset-offsets``: the scenarios of ``kafka-consumer-groups``."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from ... import storage
from ..arguments import parse_instant
from ..flags import flag
from ..output import fail

# Takes a log and the group's committed offset in it (None: it has none), and returns the new offset. Quoted, so that
# importing this module does not load the engine.
Target = Callable[["storage.LogReader", int | None], int]

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
UNQUOTED_MAX, FIRST_UNQUOTED = 24, "-"  # limits of Jackson's CSV for text without quotes: length, and lowest character
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1000)


def target(**given: Any) -> Target | Path:
    """Returns the function that computes new offsets for the one given flag, or the path given with ``--from-file``.

    ``given``: all flags by name; an absent one is None or False.
    """
    present = [(flag(name), value) for name, value in given.items() if value is not None and value is not False]
    if len(present) != 1:
        raise typer.BadParameter(f"--reset-offsets needs exactly one of {', '.join(map(flag, given))}")
    [(scenario, value)] = present
    if isinstance(value, Path):
        return value
    return _SCENARIOS[scenario](value)


def from_csv(path: Path, groups: Sequence[str]) -> dict[str, dict[storage.TopicPartition, int]]:
    """Returns the offsets in a file that ``--export`` wrote, by group and partition.

    Rows are ``topic,partition,offset`` for one group, and begin with the group if there are several. Rows of groups
    not in ``groups`` are ignored, as by Kafka's tool.
    """
    found: dict[str, dict[storage.TopicPartition, int]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for row in (reader := csv.reader(file)):
                if row:
                    group, partition, offset = _csv_row(row, groups, f"{path}, line {reader.line_num}")
                    found.setdefault(group, {})[partition] = offset
    except (UnicodeDecodeError, csv.Error) as error:
        fail(f"{path}: {error}")
    return {group: found[group] for group in groups if group in found}


def _csv_row(row: Sequence[str], groups: Sequence[str], where: str) -> tuple[str, storage.TopicPartition, int]:
    is_of_one = len(groups) == 1 and len(row) == 3
    try:
        group, topic, partition, offset = (*groups, *row) if is_of_one else row
        return group, storage.TopicPartition(topic, int(partition)), int(offset)
    except ValueError:
        expected = "topic,partition,offset or group,topic,partition,offset" if len(groups) == 1 else _OF_SEVERAL
        fail(f"{where}: {','.join(row)!r} is not of the form {expected}")


_OF_SEVERAL = "group,topic,partition,offset, which several groups need"


def to_csv(rows: Iterable[tuple[str, str, int, int]], *, with_group: bool) -> str:
    """Formats rows of group, topic, partition and offset for ``--from-file``, here and in Kafka's tool."""
    shown = (row if with_group else row[1:] for row in rows)
    return "".join(",".join(map(_csv_cell, row)) + "\n" for row in shown)


def _csv_cell(value: object) -> str:
    """Returns a cell as text, quoted as by Kafka's tool (Jackson): if it is long or has characters below '-'."""
    text = str(value)
    if isinstance(value, int) or (len(text) <= UNQUOTED_MAX and all(each >= FIRST_UNQUOTED for each in text)):
        return text
    return '"' + text.replace('"', '""') + '"'


def within(log: storage.LogReader, offset: int) -> int:
    """Returns ``offset``, or the nearest offset in the log, as Kafka's tool does; says so on stderr if they differ."""
    nearest = min(max(offset, log.log_start_offset), log.log_end_offset)
    if nearest != offset:
        typer.echo(f"{log.context.directory}: offset {offset} is outside the log; using {nearest}", err=True)
    return nearest


def _shifted(log: storage.LogReader, current: int | None, by: int) -> int:
    if current is None:
        fail(f"{log.context.directory}: --shift-by needs a committed offset; the group has none, use --to-offset")
    return within(log, current + by)


def _first_not_older(timestamp_ms: int) -> Target:
    def first(log: storage.LogReader, _: int | None) -> int:
        found = log.offset_for_timestamp(timestamp_ms, storage.Isolation.READ_UNCOMMITTED)
        if found is None:
            typer.echo(f"{log.context.directory}: no record is of that time or later; using the log end", err=True)
        return log.log_end_offset if found is None else found.offset

    return first


def _duration_ms(text: str) -> int:
    matched = _DURATION.fullmatch(text)
    if matched is None or not any(matched.groups()):
        raise typer.BadParameter(f"--by-duration {text!r} is not of the form P1DT2H30M10S")
    return round(sum(float(number or 0) * unit for number, unit in zip(matched.groups(), _UNITS_MS, strict=True)))


_SCENARIOS: Mapping[str, Callable[[Any], Target]] = {
    "--to-earliest": lambda _: lambda log, _: log.log_start_offset,
    "--to-latest": lambda _: lambda log, _: log.log_end_offset,
    "--to-current": lambda _: lambda log, current: log.log_end_offset if current is None else current,
    "--to-offset": lambda offset: lambda log, _: within(log, offset),
    "--shift-by": lambda by: lambda log, current: _shifted(log, current, by),
    "--to-datetime": lambda text: _first_not_older(parse_instant("--to-datetime", text)),
    "--by-duration": lambda text: _first_not_older(time.time_ns() // 1_000_000 - _duration_ms(text)),
}


def partitions_of(
    text: str, there: Sequence[storage.TopicPartition], what: str = "partitions"
) -> list[storage.TopicPartition]:
    """Returns the partitions in ``there`` that ``orders`` or ``orders:0,2`` names. Exits with 1 if one is missing.

    ``what``: the noun for them in errors.
    """
    name, _, numbers = text.partition(":")
    known = sorted(partition for topic, partition in there if topic == name)
    if not known:
        names = ", ".join(sorted({topic for topic, _ in there})) or "none"
        fail(f"there are no {what} of topic {name!r}; topics with {what}: {names}")
    if not numbers:
        return [storage.TopicPartition(name, partition) for partition in known]
    if not re.fullmatch(r"\d+(,\d+)*", numbers):
        raise typer.BadParameter(f"--topic {text!r} is not of the form orders or orders:0,2")
    asked = [int(number) for number in numbers.split(",")]
    missing = [number for number in asked if number not in known]
    if missing:
        fail(f"topic {name!r} has {what} {known}, but not {missing}")
    return [storage.TopicPartition(name, partition) for partition in asked]
