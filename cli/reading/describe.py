"""``commitlog describe``: shows the segments of partitions, why each is kept, and until when; or all topics."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ... import storage
from ..arguments import parse_instant
from ..flags import TOPIC, AsJson, Layout, LogLayout, MaybeLogDir, TierKeys, TierUrl, complete_topic, located
from ..output import Column, Failures, is_watched, print_json, print_table, print_wide
from . import positions, summary

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS = (
    Column("BASE-OFFSET", 11, is_number=True),
    Column("NEXT-OFFSET", 11, is_number=True),
    Column("BYTES", 10, is_number=True),
    Column("FIRST-TIME", 27),
    Column("NEWEST-TIME", 27),
    Column("COMPACTION", 11),
    Column("KEPT-UNTIL", 27),
    Column("WHY"),
)
BAR_WIDTH = 16
STYLES = {
    "deletable": "red",
    "active": "green",
    "dirty": "yellow",
    "clean": "cyan",
    "uncleanable": "blue",
    "closed": "blue",
}

Topic = Annotated[
    str | None,
    typer.Option(*TOPIC, autocompletion=complete_topic, help="The topic; default: a line for each topic."),
]
Partitions = Annotated[
    list[int] | None, typer.Option("--partition", "-p", help="Show only this partition. Repeatable.")
]
AsOf = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Show the state as of this time: 2026-11-21T06:00 in UTC, or ms since 1970."),
]


def describe(
    *,
    log_dir: MaybeLogDir = None,
    tier: TierUrl = None,
    tier_key: TierKeys = None,
    topic: Topic = None,
    partition: Partitions = None,
    as_of: AsOf = None,
    as_json: AsJson = False,
    layout: Layout = LogLayout.KAFKA,
) -> None:
    """Show what is in a log: its topics, or the segments of one, why each is kept and until when.

    Without --topic: a line for each topic, from indexes and sizes, which takes no longer for larger logs. OFFSETS goes
    from log start to log end, and so also counts markers and what compaction removed. FIRST-TIME is that of the first
    batch, LAST-TIME the largest of the last segment, MAGIC the format of batches there (2 is today's), OPEN-TXNS the
    number of producers with an open transaction. LAG is that of each group, in offsets.

    With --topic, KEPT-UNTIL is the last moment at which a time limit keeps the segment, '-' if no time limit decides,
    or deletable if the next retention run deletes it. COMPACTION is clean (no key occurs twice), dirty (the next
    compaction reads the segment), or uncleanable (the next compaction must not touch it). Takes no lock.
    """
    log_dir = located(log_dir, tier, tier_key)
    if topic is None and (partition or as_of is not None):
        raise typer.BadParameter("--partition and --as-of need --topic")
    if layout.is_0_7:
        if as_of is not None:
            raise typer.BadParameter("--layout kafka-0.7 goes without --as-of")
        if topic is None:
            positions.describe_all(log_dir, as_json=as_json)
        else:
            positions.describe(log_dir, topic, partition, as_json=as_json)
        return
    if topic is None:
        summary.show(log_dir, as_json=as_json)
        return
    as_of_ms = None if as_of is None else parse_instant("--as-of", as_of)
    with storage.LogManager.open(log_dir) as manager:
        numbers = partition or manager.topic(topic).partitions
        failures = Failures()
        tasks = [partial(storage.describe_partition, manager, topic, number, as_of_ms=as_of_ms) for number in numbers]
        for found in filter(None, map(failures.attempt, tasks)):
            _show(found, as_json=as_json)
    failures.end()


def _show(found: storage.PartitionDescription, *, as_json: bool) -> None:
    if as_json:
        print_json([_json(found)])
        return
    typer.echo("\n".join(_head(found)))
    if is_watched():
        _draw(found)
    else:
        print_table(COLUMNS, [_row(found, fate) for fate in found.retention.plan.fates])
        typer.echo("")


def _head(found: storage.PartitionDescription) -> Iterator[str]:
    plan = found.retention.plan
    facts = plan.facts
    stable = "" if facts.last_stable_offset == facts.log_end_offset else f" (stable up to {facts.last_stable_offset})"
    yield (
        f"{found.topic}-{found.partition}: offsets {facts.log_start_offset} to {facts.log_end_offset}{stable}, "
        f"{storage.counted(len(facts.segments), 'segment')}, {facts.size:,} bytes"
    )
    if found.remote is not None:
        yield f"  {storage.remote_text(found.remote)}"
    if found.holding is not None:
        yield f"  {found.holding}: readers of committed records wait for it; see commitlog transactions"
    for each in found.hanging:
        yield f"  {each}"
    if found.compaction_text is not None:
        yield f"  {found.compaction_text}"
    waiting = found.retention.files_waiting + found.retention.files_removed
    if waiting:
        size = sum(file.size for file in waiting)
        yield f"  still on disk: {storage.counted(len(waiting), '.deleted file')} with {size:,} bytes"


def _row(found: storage.PartitionDescription, fate: storage.SegmentFate) -> tuple[object, ...]:
    segment = fate.segment
    return (
        segment.base_offset,
        segment.next_offset,
        segment.size,
        _time(segment.first_timestamp_ms),
        _time(segment.largest_timestamp_ms),
        found.compaction_of(fate),
        "deletable" if fate.goes else None if fate.until_ms is None else storage.instant(fate.until_ms),
        f"{'active; ' if segment.is_active else ''}{fate.why}",
    )


def _time(timestamp_ms: int) -> str | None:
    return None if timestamp_ms < 0 else storage.instant(timestamp_ms)


def _json(found: storage.PartitionDescription) -> dict[str, Any]:
    facts, what = found.retention.plan.facts, found.cleanable
    return {
        "topic": found.topic,
        "partition": found.partition,
        "log_start_offset": facts.log_start_offset,
        "last_stable_offset": facts.last_stable_offset,
        "log_end_offset": facts.log_end_offset,
        **({} if found.holding is None else {"open_transaction": found.holding._asdict()}),
        **({"hanging_transactions": [_hanging_json(each) for each in found.hanging]} if found.hanging else {}),
        "bytes": facts.size,
        "dirty_ratio": None if what is None else what.ratio,
        "compaction_due": None if what is None else what.is_due,
        "remote_offsets": None if found.remote is None else [found.remote.start, found.remote.stop],
        "segments": [_segment_json(found, fate) for fate in found.retention.plan.fates],
    }


def _hanging_json(found: storage.HangingTransaction) -> dict[str, Any]:
    return {**found.transaction._asdict(), "abort": found.abort}


def _segment_json(found: storage.PartitionDescription, fate: storage.SegmentFate) -> dict[str, Any]:
    segment = fate.segment
    return {
        "base_offset": segment.base_offset,
        "next_offset": segment.next_offset,
        "bytes": segment.size,
        "first_timestamp": segment.first_timestamp_ms,
        "largest_timestamp": segment.largest_timestamp_ms,
        "active": segment.is_active,
        "compaction": found.compaction_of(fate),
        "goes": fate.goes,
        "rule": fate.rule,
        "reason": fate.reason,
        "kept_until": fate.until_ms,
        "removed_by": fate.removed_by_ms,
    }


# On a terminal


def _draw(found: storage.PartitionDescription) -> None:
    from rich.console import Console  # noqa: PLC0415  needed only on a terminal

    console = Console(file=sys.stdout, highlight=False)
    fates = found.retention.plan.fates
    print_wide(console, _table(found, fates))
    for reason, group in groupby(fates, key=lambda fate: fate.reason):
        first, *rest = list(group)
        span = _offsets(first) if not rest else f"{first.segment.base_offset:,} to {rest[-1].segment.next_offset - 1:,}"
        console.print(f"  {span}: {reason}", style="dim", markup=False)
    console.print()


def _table(found: storage.PartitionDescription, fates: Sequence[storage.SegmentFate]) -> Table:
    """Returns a row per segment, with a bar that shows the segment's position and size in the log, in bytes."""
    from rich import box  # noqa: PLC0415
    from rich.bar import Bar  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("OFFSETS", "BYTES"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("IN THE LOG", "NEWEST RECORD", "STATE", "KEPT UNTIL"):
        table.add_column(name, no_wrap=True)
    whole, begin = max(found.retention.plan.facts.size, 1), 0
    for fate in fates:
        size, state = fate.segment.size, found.state_of(fate)
        bar = Bar(whole, begin, begin + size, width=BAR_WIDTH, color=STYLES[state])
        begin += size
        until = "deletable" if fate.goes else "" if fate.until_ms is None else _short(fate.until_ms)
        table.add_row(_offsets(fate), f"{size:,}", bar, _short(fate.segment.largest_timestamp_ms), state, until)
    return table


def _offsets(fate: storage.SegmentFate) -> str:
    segment = fate.segment
    if segment.next_offset == segment.base_offset:
        return f"from {segment.base_offset:,}"
    return f"{segment.base_offset:,} to {segment.next_offset - 1:,}"


def _short(timestamp_ms: int) -> str:
    """Returns a time to the minute; '-' for none."""
    return "-" if timestamp_ms < 0 else storage.instant(timestamp_ms)[:16]
