"""How commands show rows: Kafka's plain columns, a table on a terminal, or a JSON object a line."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, TypeVar

import typer

from pyspark_commitlog import storage

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDEST = 10_000  # columns of text
TEXT_WIDTH_MIN = 30  # of sentences on a terminal
DAMAGED = 3  # the exit code where a log is damaged; 2 is wrong use

T = TypeVar("T")


class Column(NamedTuple):
    """A column, and how wide it is in plain text at least, as in Kafka's tool."""

    name: str
    width: int = 15
    is_number: bool = False
    is_text: bool = False  # sentences, which a terminal may break; else a value, which it shows whole


def is_watched() -> bool:
    """Whether a person reads what is printed."""
    return sys.stdout.isatty()


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> None:
    """``None`` is shown as ``-``. Plain text begins with an empty line, as Kafka's does."""
    cells = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    if is_watched():
        _print_for_people(columns, cells)
        return
    typer.echo("")
    widths = [max([column.width, *map(len, texts)]) for column, *texts in zip(columns, *cells, strict=True)]
    for line in ([column.name for column in columns], *cells):
        padded = [cell.ljust(width) for cell, width in zip(line[:-1], widths, strict=False)]
        typer.echo(" ".join((*padded, line[-1])))


def _print_for_people(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    from rich import box  # noqa: PLC0415  a quarter of the time of a command that nobody watches
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        justify: Literal["left", "right"] = "right" if column.is_number else "left"
        min_width = TEXT_WIDTH_MIN if column.is_text else None
        table.add_column(column.name, justify=justify, no_wrap=not column.is_text, min_width=min_width)
    for row in rows:
        table.add_row(*row)
    print_wide(Console(), table)


def print_wide(console: Console, table: Table) -> None:
    """As wide as it is, but for texts: a name cut short helps nobody, and the terminal breaks lines."""
    options = console.options.update(max_width=WIDEST)
    needed = 1 + len(table.columns) * 3  # between the columns
    for column in table.columns:
        widest = max(console.measure(cell, options=options).maximum for cell in (column.header, *column.cells))
        needed += widest if column.no_wrap else min(widest, TEXT_WIDTH_MIN)
    width, console.width = console.width, max(console.width, needed)
    console.print(table)
    console.width = width


def print_json(rows: Iterable[Mapping[str, Any]]) -> None:
    """One object a line, as ``jq`` likes it."""
    for row in rows:
        typer.echo(json.dumps(row, ensure_ascii=False))


class Failures:
    """What is wrong with single partitions, which keeps nobody from the others."""

    def __init__(self) -> None:
        self.errors: list[storage.LogStoreError] = []

    def attempt(self, work: Callable[[], T]) -> T | None:
        """The result of ``work``; None where a log cannot be read."""
        try:
            return work()
        except storage.LogStoreError as error:
            self.errors.append(error)
            return None

    def end(self) -> None:
        """Tell them, once the others were shown; the command fails if there are any."""
        for error in self.errors:
            typer.echo(f"commitlog: {error}", err=True)
        if self.errors:
            is_damaged = any(isinstance(error, storage.CorruptionError) for error in self.errors)
            raise typer.Exit(DAMAGED if is_damaged else 1)


def fail(message: str) -> NoReturn:
    """Exit code 1, and one line that says why."""
    typer.echo(f"commitlog: {message}", err=True)
    raise typer.Exit(1)


def nearest(name: str, known: Iterable[str], what: str) -> str:
    """What to add to "there is no such ...": the name that was meant, or those there are."""
    names = list(known)
    close = difflib.get_close_matches(name, names, 1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(names) or f'no {what}'}"
