"""The ``commitlog`` command: one module per command; :func:`main` is the entry point.

A command's module is imported only when the command runs, and imports its own dependencies late. A command that reads
no records therefore starts at once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from .. import storage
from .closed_output import ends_with_its_reader
from .kafka_flags import KafkaCommand, as_command

PANELS: Mapping[str, Mapping[str, str]] = {  # panels of the help, with the module of each command
    "Topics": {
        "topics": ".admin.topics",
        "configs": ".admin.configs",
        "describe": ".reading.describe",
    },
    "Records": {
        "cat": ".reading.cat",
        "find": ".reading.find",
        "produce": ".produce",
        "offsets": ".reading.offsets",
        "delete-records": ".admin.delete_records",
        "dump-log": ".reading.dump_log",
        "browse": ".browse",
        "table": ".reading.table",
    },
    "Groups and transactions": {
        "groups": ".admin.groups",
        "transactions": ".admin.transactions",
        "metrics": ".metrics",
    },
    "Maintenance": {
        "retain": ".maintenance.retain",
        "compact": ".maintenance.compact",
        "key-filters": ".maintenance.key_filters",
        "maintain": ".maintenance.maintain",
        "verify": ".reading.verify",
        "recover": ".maintenance.recover",
        "erase": ".maintenance.erase",
        "rebuild-index": ".maintenance.rebuild_index",
    },
    "Copies": {
        "snapshot": ".copies.snapshot",
        "backup": ".copies.backup",
        "restore": ".copies.restore",
        "copy": ".copies.copy",
        "tier": ".copies.tier",
        "fs-check": ".maintenance.fs_check",
    },
    "Gateway": {
        "gateway": ".gateway",
        "users": ".admin.users",
    },
    "Programs for Spark, and settings": {
        "export": ".spark_jobs",
        "mirror": ".spark_jobs",
        "ingest": ".spark_jobs",
        "upgrade": ".spark_jobs",
        "conf": ".conf",
    },
}
COMMANDS = {name: module for panel in PANELS.values() for name, module in panel.items()}

_PARTS = {  # subcommands of job commands, which users may type alone
    "to-table": "export",
    "to-topic": "export",
    "from-kafka": "mirror",
    "to-kafka": "mirror",
    "between-clusters": "mirror",
}

SENTENCE_MAX = 1000  # characters of a command's first sentence, none of which is cut off
HELP: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
# Boxes and colours only on a terminal: programs read plain text.
_LOOKS: Mapping[str, Any] = {
    "pretty_exceptions_enable": False,
    "rich_markup_mode": "rich" if sys.stdout.isatty() and sys.stderr.isatty() else None,
}


class _Commands(Mapping[str, TyperCommand]):
    """All commands by name, each imported when it is looked up."""

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)

    def __getitem__(self, name: str) -> TyperCommand:
        if name not in COMMANDS:
            raise KeyError(name)
        one = typer.Typer(add_completion=False, **_LOOKS)
        module = import_module(COMMANDS[name], __name__)
        function = getattr(module, name.replace("-", "_"))
        panel = next(title for title, commands in PANELS.items() if name in commands)
        kind = getattr(module, "JobCommand", KafkaCommand)
        one.command(name, cls=kind, context_settings=HELP, rich_help_panel=panel)(function)
        command = typer.main.get_command(one)
        assert isinstance(command, TyperCommand)
        return command


class _Group(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": _Commands()})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        parsed: list[str] = super().parse_args(ctx, as_command(args))
        return parsed

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in _PARTS:
            command = f"{_PARTS[args[0]]} {args[0]}"
            ctx.fail(f"No such command {args[0]!r}. Did you mean 'commitlog {command}'?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the commands by panel, as on a terminal; click would cut the sentences off at the line's end."""
        for title, names in PANELS.items():
            with formatter.section(title):
                rows = [(name, self.commands[name].get_short_help_str(SENTENCE_MAX)) for name in names]
                formatter.write_dl([(name.ljust(max(map(len, COMMANDS))), text) for name, text in rows])


app = typer.Typer(
    name="commitlog",
    cls=_Group,
    help="Kafka's command-line tools without a broker, for log directories of a broker or of spark-commitlog.",
    no_args_is_help=True,
    context_settings=HELP,
    **_LOOKS,
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(version("spark-commitlog"))
        raise typer.Exit


@app.callback()
def _commands(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Defines the options that come before the command's name."""


def main() -> None:
    """Runs a command.

    Exit code: 0 success, 1 failure (one line on stderr), 2 wrong usage, 3 a damaged log, 141 the reader of the output
    has ended.
    """
    with ends_with_its_reader():
        _run()


def _run() -> None:
    try:
        with storage.needs_extra("this command"):
            app()
    except storage.CorruptionError as error:
        _end(str(error), storage.EXIT_DAMAGED)
    except storage.LogStoreError as error:
        _end(str(error), 1)
    except OSError as error:
        _end(storage.text_of(error), 1)


def _end(message: str, code: int) -> None:
    typer.echo(f"commitlog: {message}", err=True)
    sys.exit(code)
