"""The ``commitlog`` command: one module a command, :func:`main` for the shell.

A module is imported when its command is called, and imports what it works with as late, so that a command which touches
no record bytes answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from pyspark_commitlog import storage
from pyspark_commitlog.cli.kafka_flags import KafkaCommand
from pyspark_commitlog.cli.output import DAMAGED

COMMANDS = (
    "topics",
    "configs",
    "offsets",
    "delete-records",
    "describe",
    "cat",
    "produce",
    "verify",
    "rebuild-index",
    "recover",
    "snapshot",
    "restore",
    "fs-check",
    "groups",
    "transactions",
    "metrics",
    "dump-log",
)

# Boxes and colours are for people; what a program reads stays plain.
_LOOKS: Mapping[str, Any] = {
    "pretty_exceptions_enable": False,
    "rich_markup_mode": "rich" if sys.stdout.isatty() and sys.stderr.isatty() else None,
}


class _Commands(Mapping[str, TyperCommand]):
    """All commands by name; one is loaded when it is asked for."""

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)

    def __getitem__(self, name: str) -> TyperCommand:
        if name not in COMMANDS:
            raise KeyError(name)
        function = name.replace("-", "_")
        one = typer.Typer(add_completion=False, **_LOOKS)
        one.command(name, cls=KafkaCommand)(getattr(import_module(f"pyspark_commitlog.cli.{function}"), function))
        command = typer.main.get_command(one)
        assert isinstance(command, TyperCommand)
        return command


class _Group(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": _Commands()})


app = typer.Typer(
    name="commitlog",
    cls=_Group,
    help="Kafka's commit log without a broker: its tools, on a log directory of a broker's or of our own.",
    no_args_is_help=True,
    **_LOOKS,
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(version("spark-commitlog"))
        raise typer.Exit


@app.callback()
def _commands(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version, and end.")
    ] = False,
) -> None:
    """Makes every command a subcommand."""


def main() -> None:
    """Exit code 0, 1 for what went wrong (one line on stderr), 2 for wrong use, 3 where a log is damaged."""
    try:
        app()
    except storage.CorruptionError as error:
        _end(str(error), DAMAGED)
    except storage.LogStoreError as error:
        _end(str(error), 1)
    except OSError as error:
        _end(f"{error.filename}: {error.strerror}" if error.filename else str(error), 1)


def _end(message: str, code: int) -> None:
    typer.echo(f"commitlog: {message}", err=True)
    sys.exit(code)
