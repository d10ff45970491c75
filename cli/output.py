"""Output of rows: Kafka's plain columns, a table on a terminal, or one JSON object per line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, TypeVar

import typer

from .. import storage

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDEST = 10_000  # columns of text
TEXT_WIDTH_MIN = 30  # of columns with sentences, on a terminal

T = TypeVar("T")


class Column(NamedTuple):
    """A column; ``width`` is its minimum width in plain text, as in Kafka's tool."""

    name: str
    width: int = 15
    is_number: bool = False
    is_text: bool = False  # sentences may wrap on a terminal; values do not


def is_watched() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> None:
    """Prints rows, with ``-`` for None. Plain text begins with an empty line, as Kafka's does."""
    cells = [["-" if cell is None else storage.printable(str(cell)) for cell in row] for row in rows]
    if is_watched():
        _print_for_people(columns, cells)
        return
    typer.echo("")
    widths = [max([column.width, *map(len, texts)]) for column, *texts in zip(columns, *cells, strict=True)]
    for line in ([column.name for column in columns], *cells):
        padded = [cell.ljust(width) for cell, width in zip(line[:-1], widths, strict=False)]
        typer.echo(" ".join((*padded, line[-1])))


def _print_for_people(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    from rich import box  # noqa: PLC0415  takes a quarter of the time of a command without a terminal
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
    """Prints a table that may be wider than the terminal: only columns of sentences wrap, names are never cut."""
    options = console.options.update(max_width=WIDEST)
    needed = 1 + len(table.columns) * 3  # between the columns
    for column in table.columns:
        widest = max(console.measure(cell, options=options).maximum for cell in (column.header, *column.cells))
        needed += widest if column.no_wrap else min(widest, TEXT_WIDTH_MIN)
    width, console.width = console.width, max(console.width, needed)
    console.print(table)
    console.width = width


def print_json(rows: Iterable[Mapping[str, Any]]) -> None:
    """Prints one object per line, as ``jq`` reads it."""
    for row in rows:
        typer.echo(json.dumps(row, ensure_ascii=False))


class Failures:
    """Collects the errors of single partitions, so that the others are still shown."""

    def __init__(self) -> None:
        self.errors: list[storage.LogStoreError] = []

    def attempt(self, task: Callable[[], T]) -> T | None:
        """Returns the result of ``task``; keeps a LogStoreError from it for :meth:`end` and returns None."""
        try:
            return task()
        except storage.LogStoreError as error:
            self.errors.append(error)
            return None

    def end(self) -> None:
        """Prints the errors, after all partitions were shown. Exits with 3 if a log is damaged, 1 for other errors."""
        for message in dict.fromkeys(map(str, self.errors)):
            typer.echo(f"commitlog: {_in_lines(message)}", err=True)
        if self.errors:
            is_damaged = any(isinstance(error, storage.CorruptionError) for error in self.errors)
            raise typer.Exit(storage.EXIT_DAMAGED if is_damaged else 1)


def fail(message: str, code: int = 1) -> NoReturn:
    """Prints one line with the reason and exits with ``code``."""
    typer.echo(f"commitlog: {_in_lines(message)}", err=True)
    raise typer.Exit(code)


def nearest_or_all(name: str, known: Iterable[str], what: str) -> str:
    """Returns the end of an error about an unknown name: the most similar known name, or all known names."""
    names = list(known)
    return storage.did_you_mean(name, names) or f"; there are {', '.join(names) or f'no {what}'}"


def _in_lines(message: str) -> str:
    """Returns a message with its lines, and without other control characters."""
    return "\n".join(map(storage.printable, message.split("\n")))
