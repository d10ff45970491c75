"""``commitlog table``: shows what a query over a topic's table and its log would read from which of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ... import storage
from ..flags import AsJson, LogDir, complete_topic
from ..output import Column, print_json, print_table

if TYPE_CHECKING:
    from ...pipeline.delta.table_and_tail.plan import Span

COLUMNS = (
    Column("PARTITION"),
    Column("TABLE-BELOW", is_number=True),
    Column("LOG-START-OFFSET", is_number=True),
    Column("LOG-FROM", is_number=True),
    Column("LOG-BELOW", is_number=True),
    Column("TAIL", is_number=True),
)

Table = Annotated[str, typer.Option(metavar="PATH", help="The Delta table, or the folder with Parquet files.")]
Topic = Annotated[
    str, typer.Option("--topic", "-t", "--topics", autocompletion=complete_topic, help="The topic of the table.")
]


def table(*, log_dir: LogDir, topic: Topic, table: Table, as_json: AsJson = False) -> None:
    """Print what topic_table would read of an exported topic: which offsets from the table, and which from the log.

    The table must be on a local file system. If the log no longer has what follows the table, the command says which
    offsets are in neither, and ends with 1.
    """
    from ...pipeline.delta.table_and_tail.kept import known_table  # noqa: PLC0415
    from ...pipeline.delta.table_and_tail.plan import spans  # noqa: PLC0415

    with storage.LogManager.open(log_dir) as manager:
        found = known_table(table)
        parts = spans(manager, topic, f"table {table}", found.known)
        starts = {each.partition: _log_start(manager, each.partition) for each in parts}
    if as_json:
        print_json(_row(each, starts[each.partition]) for each in parts)
        return
    typer.echo(f"{table}: {found.description}")
    print_table(COLUMNS, [_cells(each, starts[each.partition]) for each in parts])


def _log_start(manager: storage.LogManager, partition: storage.TopicPartition) -> int:
    with manager.open_reader(*partition) as reader:
        return reader.earliest_offset


def _cells(span: Span, log_start: int) -> tuple[object, ...]:
    bounds = (span.start, span.end) if span.offset_count else (None, None)
    return str(span.partition), span.start, log_start, *bounds, span.offset_count


def _row(span: Span, log_start: int) -> dict[str, object]:
    return {
        **span.partition._asdict(),
        "table_below": span.start,
        "log_start_offset": log_start,
        "log_below": span.end,
        "tail": span.offset_count,
    }
