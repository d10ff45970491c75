"""``cat`` and ``describe`` for a log directory of Kafka 0.7, whose offsets are byte positions."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import typer

from ... import storage
from ..output import Column, Failures, print_json, print_table
from . import record_text

if TYPE_CHECKING:
    from ...classic.log_0_7.reader import PositionLogReader
    from ...classic.log_0_7.topics import PositionTopics

LOOK_EVERY_S = 0.5
BEGINNING, END = "beginning", "end"

COLUMNS = (
    Column("FIRST-POSITION", 14, is_number=True),
    Column("END-POSITION", 12, is_number=True),
    Column("BYTES", 10, is_number=True),
    Column("LAST-CHANGE", 27),
)
TOPIC_COLUMNS = (
    Column("TOPIC"),
    Column("PARTITIONS", 10, is_number=True),
    Column("BYTES", 10, is_number=True),
    Column("LAST-CHANGE", 27),
)


def start_of(given: Sequence[str]) -> str:
    """Returns where to start: beginning, end or a position, as text. Anything else is wrong usage."""
    start = given[0] if given else BEGINNING
    if len(given) > 1 or not (start in (BEGINNING, END) or re.fullmatch(r"\d+", start)):
        raise typer.BadParameter("--layout kafka-0.7: --offset is beginning, end or a position such as 1741")
    return start


def cat(
    log_dir: str,
    topic: str,
    partitions: Sequence[int] | None,
    start: str,
    text: record_text.Text,
    count: int | None,
    *,
    waits: bool,
    is_quiet: bool,
) -> None:
    """Prints the messages of a topic, and waits for more if ``waits``."""
    topics = _opened(log_dir)
    tails = [_Tail(topics, topic, each, start) for each in partitions or topics.topic(topic).partitions]
    output, left = typer.get_binary_stream("stdout"), count
    with suppress(KeyboardInterrupt):
        while True:
            for tail in tails:
                try:
                    for message in islice(tail.messages(is_quiet=is_quiet), left):
                        output.write(text(message))
                        left = None if left is None else left - 1
                finally:
                    output.flush()  # also what comes before damage
            if left == 0 or not waits:
                return
            time.sleep(LOOK_EVERY_S)


def _opened(log_dir: str) -> PositionTopics:
    from ...classic.log_0_7.topics import PositionTopics  # noqa: PLC0415

    return PositionTopics(log_dir)


class _Tail:
    """The messages of one partition that are still to be printed."""

    def __init__(self, topics: PositionTopics, topic: str, partition: int, start: str) -> None:
        self._topics, self._topic, self._partition = topics, topic, partition
        self._seen: list[tuple[int, int]] | None = None  # the files when they were last read
        reader = topics.open_reader(topic, partition)
        if start == BEGINNING:
            self._next = reader.start
        else:
            self._next = reader.end if start == END else int(start)
        reader.check_start(self._next)

    def messages(self, *, is_quiet: bool) -> Iterator[record_text.Message]:
        """Yields the messages after those of earlier calls, if the files have changed since.

        Raises CorruptionError for damage, after the messages before it.
        """
        reader = self._topics.open_reader(self._topic, self._partition)
        if reader.segments == self._seen:
            return
        if self._next < reader.start:
            if not is_quiet:
                deleted = f"{self._next} to {reader.start - 1}"
                typer.echo(
                    f"commitlog: {self._name}: positions {deleted} were deleted before they were printed", err=True
                )
            self._next = reader.start
        end = _end_after(reader, self._next)
        for records in reader.records(self._next, end if isinstance(end, int) else None):
            yield from record_text.messages(self._topic, self._partition, records)
        if not isinstance(end, int):
            raise end
        self._next, self._seen = end, reader.segments
        if not is_quiet:
            typer.echo(f"% Reached end of topic {self._name} at offset {end}", err=True)

    @property
    def _name(self) -> str:
        return f"{self._topic} [{self._partition}]"


def _end_after(reader: PositionLogReader, position: int) -> int | storage.CorruptionError:
    """Returns the position of the log end, or the damage that hides it."""
    try:
        return reader.end_after(position)
    except storage.CorruptionError as error:
        return error


def describe(log_dir: str, topic: str, partitions: Sequence[int] | None, *, as_json: bool) -> None:
    """Shows the files of a topic's partitions: positions, sizes, and when each was last changed."""
    topics = _opened(log_dir)
    failures = Failures()
    for partition in partitions or topics.topic(topic).partitions:
        failures.attempt(partial(_show, topics, topic, partition, as_json=as_json))
    failures.end()


def describe_all(log_dir: str, *, as_json: bool) -> None:
    """Shows all topics: partitions, bytes, and when each was last changed."""
    topics = _opened(log_dir)
    failures = Failures()
    found = [failures.attempt(partial(_summary, topics, each)) for each in topics.topics().values()]
    rows = [row for row in found if row is not None]
    if as_json:
        names = ("topic", "partitions", "bytes", "last_change_ms")
        print_json(dict(zip(names, row, strict=True)) for row in rows)
    else:
        print_table(TOPIC_COLUMNS, [(*row[:3], None if row[3] is None else storage.instant(row[3])) for row in rows])
    failures.end()


def _summary(topics: PositionTopics, topic: storage.TopicDescription) -> tuple[str, int, int, int | None]:
    readers = [topics.open_reader(topic.name, each) for each in topic.partitions]
    files = [(reader, *segment) for reader in readers for segment in reader.segments]
    changed = max((reader.modified_ms(start) for reader, start, _ in files), default=None)
    return topic.name, len(topic.partitions), sum(end - start for _, start, end in files), changed


def _show(topics: PositionTopics, topic: str, partition: int, *, as_json: bool) -> None:
    reader = topics.open_reader(topic, partition)
    files = [(start, end, end - start, reader.modified_ms(start)) for start, end in reader.segments]
    if as_json:
        names = ("first_position", "end_position", "bytes", "last_change_ms")
        own = {"topic": topic, "partition": partition, "start": reader.start, "end": reader.end}
        print_json([{**own, "files": [dict(zip(names, each, strict=True)) for each in files]}])
        return
    size = sum(each[2] for each in files)
    many = storage.counted(len(files), "file")
    typer.echo(f"{topic}-{partition}: positions {reader.start} to {reader.end}, {many}, {size:,} bytes")
    print_table(COLUMNS, [(*each[:3], storage.instant(each[3])) for each in files])
    typer.echo("")
