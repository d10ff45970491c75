"""``commitlog cat``: prints the records of a topic, with the flags of ``kcat -C``."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from ... import storage
from ..arguments import parse_record_time
from ..flags import TOPIC, Layout, LogLayout, MaybeLogDir, TierKeys, TierUrl, complete_topic, located
from ..output import fail, nearest_or_all
from . import positions, record_text
from .skipping import Skipping, ending_with_3

LOOK_EVERY_S = 0.1
FETCH_BYTES = 1024 * 1024

Topic = Annotated[str, typer.Option(*TOPIC, autocompletion=complete_topic, help="The topic.")]
Partitions = Annotated[
    list[int] | None, typer.Option("--partition", "-p", help="Read only this partition. Repeatable.")
]
Offset = Annotated[
    list[str] | None,
    typer.Option(
        "--offset",
        "-o",
        help="Start here: beginning, end, stored, an offset, -10 for ten offsets before the end, or "
        "s@2026-11-21T06:00 for the first record at or after that time, which may also be in ms: s@1700000000000. "
        "e@2026-11-21T07:00 stops before such a record.",
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        help="With '-o stored': start at this group's committed offsets, or at the beginning of a partition without "
        "one. Nothing is committed."
    ),
]
Count = Annotated[int | None, typer.Option("--count", "-c", min=0, help="Exit after this many records.")]
ExitAtEnd = Annotated[bool, typer.Option("--exit", "-e", help="Exit at the log end instead of waiting for more.")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        help="Print records in this format: %s value, %S its length, %R its length in 4 bytes, %k key, %K its length, "
        "%T timestamp, %h headers, %t topic, %p partition, %o offset.",
    ),
]
KeyDelimiter = Annotated[
    str | None, typer.Option("--key-delimiter", "-K", help="Print keys before values, with this in between.")
]
Delimiter = Annotated[str, typer.Option("--delimiter", "-D", help="Print this after each record.")]
AsJson = Annotated[bool, typer.Option("--json", "-J", help="Print one JSON object per line.")]
Null = Annotated[bool, typer.Option("--null", "-Z", help="Print NULL for null keys and values.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors on stderr, no notices.")]


SkipDamaged = Annotated[
    bool,
    typer.Option(
        "--skip-damaged",
        help="Read around damage: print the records of all sound batches, and on stderr which offsets are skipped. "
        "The exit code is then 3.",
    ),
]


class IsolationLevel(StrEnum):
    """The values of isolation.level."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


Isolation = Annotated[
    IsolationLevel,
    typer.Option("--isolation-level", help="With read_committed, hide records of aborted and open transactions."),
]


def cat(  # the flags are those of kcat -C
    *,
    log_dir: MaybeLogDir = None,
    tier: TierUrl = None,
    tier_key: TierKeys = None,
    topic: Topic,
    partition: Partitions = None,
    offset: Offset = None,
    group: Group = None,
    count: Count = None,
    exit_at_end: ExitAtEnd = False,
    format: Format = None,
    key_delimiter: KeyDelimiter = None,
    delimiter: Delimiter = "\\n",
    as_json: AsJson = False,
    null: Null = False,
    quiet: Quiet = False,
    isolation_level: Isolation = IsolationLevel.READ_COMMITTED,
    skip_damaged: SkipDamaged = False,
    layout: Layout = LogLayout.KAFKA,
) -> None:
    """Print the records of a topic and wait for more; stop with Ctrl-C.

    Records of one partition are printed in offset order. Takes no lock, so it is safe on a running broker's directory.
    """
    log_dir = located(log_dir, tier, tier_key)
    nothing = b"NULL" if null else b""
    text = _text(format, key_delimiter, delimiter, nothing, as_json=as_json)
    if ("stored" in (offset or [])) != (group is not None):
        raise typer.BadParameter("'--offset stored' needs --group, and --group needs '--offset stored'")
    if layout.is_0_7:
        start = positions.start_of(offset or [])
        if skip_damaged:
            raise typer.BadParameter("--skip-damaged needs the layout of today")
        positions.cat(log_dir, topic, partition, start, text, count, waits=not exit_at_end, is_quiet=quiet)
        return
    span = _Span.parse(offset or [], storage.Isolation(isolation_level.value))
    damage = Skipping()
    around = damage if skip_damaged else None
    with (
        storage.LogManager.open(log_dir) as manager,
        ending_with_3(damage, skips=skip_damaged),
        ExitStack() as logs,
        suppress(KeyboardInterrupt),
    ):
        chosen = [storage.TopicPartition(topic, each) for each in partition or manager.topic(topic).partitions]
        ids = storage.topic_ids(manager, chosen)  # before the logs are opened
        watchers = {each: manager.open_watcher(*each, reports_remote=False) for each in chosen}
        firsts = {each: log.log_start_offset for each, log in watchers.items()}
        stored = {} if group is None else _stored(manager, group)
        spans = {each: span.stored_at(stored.get(each)) for each in watchers}
        if around is not None:
            logs.enter_context(around.whole(watchers.values()))
        tails = [_Tail(logs.enter_context(log), each, spans[each], around) for each, log in watchers.items()]
        if span.is_offset or not quiet:
            _report_moved(tails, storage.remote_offsets(manager, firsts), is_given=span.is_offset)
        for error in filter(None, (tail.lost_before(is_given=span.is_offset) for tail in tails)):
            damage.report(error) if skip_damaged else damage.name(error)
        printing = _Printing(tails, text, count, is_quiet=quiet)
        while not printing.round() and not (exit_at_end or span.ends_at_ms is not None):
            time.sleep(LOOK_EVERY_S)
            _catch_up(manager, tails, is_quiet=quiet)
            _check_same_topic(ids, storage.topic_ids(manager, chosen))


def _text(
    format: str | None, key_delimiter: str | None, delimiter: str, null: bytes, *, as_json: bool
) -> record_text.Text:
    if format is not None:
        return record_text.formatted(format, null=null)
    return record_text.as_json if as_json else record_text.delimited(key_delimiter, delimiter, null=null)


def _catch_up(manager: storage.LogManager, tails: Iterable[_Tail], *, is_quiet: bool) -> None:
    """Finds the records that were appended to the partitions, and reports offsets that were deleted unread."""
    manager.catch_up()
    marks = manager.all_marks()  # once for all partitions
    for tail in tails:
        deleted = tail.catch_up(marks)
        if deleted and not is_quiet:
            typer.echo(f"commitlog: {tail.name}: offsets {deleted} were deleted before they were printed", err=True)


def _check_same_topic(known: storage.TopicIds, now: storage.TopicIds) -> None:
    """Raises OffsetOutOfRangeError if the topic was deleted and made again. ``now``: read after the logs."""
    if text := storage.find_made_again(known, now):
        raise storage.OffsetOutOfRangeError(
            f"{text}, so its offsets are those of other records: run the command again to print them"
        )


_NUMBER = re.compile(r"\d+")

# Finds the first offset to print in a log. Quoted, so that importing this module does not load the engine.
StartOffset = Callable[["storage.LogReader", "storage.Isolation"], int]


@dataclass(frozen=True)
class _Span:
    """Which records of each partition to print: from ``begin`` on, up to a time or for ever."""

    begin: StartOffset
    ends_at_ms: int | None
    isolation: storage.Isolation
    is_offset: bool = False  # begin was given as an offset

    @classmethod
    def parse(cls, given: Sequence[str], isolation: storage.Isolation) -> _Span:
        times = [_time_ms(text) for text in given if text.startswith("e@")]
        begins = [text for text in given if not text.startswith("e@")]
        if len(times) + len(begins) < len(given) or len(times) > 1 or len(begins) > 1:
            raise typer.BadParameter("--offset may be given once for the start, and once for the end (e@2026-11-21T07)")
        begin = begins[0] if begins else "beginning"
        return cls(_start_offset(begin), times[0] if times else None, isolation, bool(_NUMBER.fullmatch(begin)))

    def stored_at(self, committed: storage.CommittedOffset | None) -> _Span:
        """Returns the span from a group's committed offset on; this span if ``committed`` is None."""
        return self if committed is None else replace(self, begin=lambda *_: committed.offset)

    def end(self, log: storage.LogReader) -> int | None:
        """The offset to stop at; None to wait for more records."""
        return None if self.ends_at_ms is None else _at_time(self.ends_at_ms, log, self.isolation)


def _stored(manager: storage.LogManager, group: str) -> Mapping[storage.TopicPartition, storage.CommittedOffset]:
    groups = storage.GroupOffsets(manager)
    found = groups.fetch(group)
    if not found and group not in (known := groups.groups()):
        fail(f"no group {group!r} in {manager.directory}{nearest_or_all(group, known, 'groups')}")
    return found


def _start_offset(text: str) -> StartOffset:
    if text in {"beginning", "stored"}:  # stored_at knows the group's offset in each partition
        return lambda log, _: log.log_start_offset
    if text == "end":
        return lambda log, isolation: log.end_offset(isolation)
    if _NUMBER.fullmatch(text):
        return lambda *_: int(text)
    if re.fullmatch(r"-\d+", text):
        return lambda log, isolation: max(log.log_start_offset, log.end_offset(isolation) + int(text))
    if text.startswith("s@"):
        return partial(_at_time, _time_ms(text))
    raise typer.BadParameter(
        f"--offset {text!r} is not one of beginning, end, stored, 7, -7, s@2026-11-21T06:00, s@1700000000000 (ms), "
        "e@2026-11-21T07:00"
    )


def _time_ms(text: str) -> int:
    return parse_record_time(f"--offset {text[:2]}:", text[2:])


def _at_time(timestamp_ms: int, log: storage.LogReader, isolation: storage.Isolation) -> int:
    found = log.offset_for_timestamp(timestamp_ms, isolation)
    return log.end_offset(isolation) if found is None else found.offset


class _Tail:
    """The records of one partition that are still to be printed."""

    def __init__(
        self, log: storage.LogWatcher, partition: storage.TopicPartition, span: _Span, around: Skipping | None
    ) -> None:
        self.name = f"{partition.topic} [{partition.partition}]"
        self._log, self._span, self._around = log, span, around
        self.partition = partition
        self.asked = span.begin(log, span.isolation)
        # After a crash, a log whose records were all deleted may have a log start above its log end.
        self.next_offset = max(min(self.asked, log.log_end_offset), log.log_start_offset)
        self._bound = span.end(log)

    @property
    def outside(self) -> str:
        """The message that the log does not have the requested offset."""
        first, end = self._log.log_start_offset, self._log.log_end_offset
        return f"{self.name} has offsets {first} to {end}, but not {self.asked}"

    def lost_before(self, *, is_given: bool) -> storage.CorruptionError | None:
        """The error about lost records below the first one; None if ``is_given`` and none was requested."""
        error = self._log.lost_start(by_epochs=True)
        following = 0 if error is None or error.skipped_offsets is None else error.skipped_offsets[1] + 1
        return error if self.next_offset == following and not (is_given and self.asked == following) else None

    def messages(self) -> Iterator[record_text.Message]:
        """Yields the records after those of earlier calls, up to the current end, and advances ``next_offset``."""
        end = self.end
        for records in self._records(end):
            for message in record_text.messages(*self.partition, records):
                self.next_offset = message.offset + 1
                yield message
        self.next_offset = max(self.next_offset, end)

    def _records(self, end: int) -> Iterator[storage.Records]:
        isolation = self._span.isolation
        if self._around is not None:
            return self._around.records(self._log, self.next_offset, end, isolation)
        return self._log.records(self.next_offset, end, isolation=isolation, fetch_bytes=FETCH_BYTES)

    @property
    def end(self) -> int:
        end = self._log.end_offset(self._span.isolation)
        return end if self._bound is None else min(end, self._bound)

    @property
    def holding(self) -> str | None:
        """A message that names the transaction that holds back records of this partition; None if there is none."""
        found = storage.holding_transaction(self._log)
        if found is None or self._span.isolation is storage.Isolation.READ_UNCOMMITTED or self._bound is not None:
            return None
        waiting = self._log.log_end_offset - found.first_offset
        return f"{found}: {storage.counted(waiting, 'offset')} waiting for its end; see commitlog transactions"

    def catch_up(self, marks: Mapping[storage.TopicPartition, storage.Marks]) -> str:
        """Updates the log start and log end; ``marks`` are the current checkpoints.

        Returns the offsets that were deleted before they were printed, as text, empty if there are none. They are
        skipped, as by a consumer with auto.offset.reset=earliest.
        """
        self._log.catch_up(marks.get(self.partition, storage.Marks()))
        before, self.next_offset = self.next_offset, max(self.next_offset, self._log.log_start_offset)
        return f"{before} to {self.next_offset - 1}" if before < self.next_offset else ""


def _report_moved(tails: Sequence[_Tail], remote: Mapping[storage.TopicPartition, range], *, is_given: bool) -> None:
    """Reports the partitions that start at the nearest offset because they do not have the requested one.

    ``is_given``: the user gave the offset as a number. If that is above every log end, exits with 1. ``remote``:
    offsets that only remote storage has; reported if reading starts after them.
    """
    if is_given and all(tail.asked > tail.next_offset for tail in tails):
        fail("; ".join(tail.outside for tail in tails))
    for tail in tails:
        if tail.asked != tail.next_offset:
            typer.echo(f"commitlog: {tail.outside}; starting at {tail.next_offset}", err=True)
        offsets = remote.get(tail.partition)
        if offsets is not None and tail.next_offset == offsets.stop:
            typer.echo(f"commitlog: {tail.name}: {storage.remote_text(offsets)}", err=True)


class _Printing:
    """Prints the records of all partitions, in rounds."""

    def __init__(self, tails: Sequence[_Tail], text: record_text.Text, count: int | None, *, is_quiet: bool) -> None:
        self._tails, self._text, self._remaining, self._is_quiet = tails, text, count, is_quiet
        self._output = typer.get_binary_stream("stdout")
        self._reported_ends: dict[str, int] = {}

    def round(self) -> bool:
        """Prints the records up to the current ends. Returns whether ``count`` records have been printed."""
        try:
            return any(self._print(tail) for tail in self._tails)
        finally:
            self._output.flush()

    def _print(self, tail: _Tail) -> bool:
        if self._remaining == 0:
            return True
        for message in tail.messages():
            self._output.write(self._text(message))
            if self._remaining is not None:
                self._remaining -= 1
                if not self._remaining:
                    return True
        self._report_end(tail)
        return False

    def _report_end(self, tail: _Tail) -> None:
        if self._is_quiet or self._reported_ends.get(tail.name) == tail.end:
            return
        self._reported_ends[tail.name] = tail.end
        self._output.flush()  # a terminal must show the records before this line
        typer.echo(f"% Reached end of topic {tail.name} at offset {tail.end}", err=True)
        if tail.holding is not None:
            typer.echo(f"% {tail.name}: {tail.holding}", err=True)
