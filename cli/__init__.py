"""The ``commitlog`` command: one module a group of commands, :func:`main` for the shell.

A command imports what it works with when it runs, so that one which touches no record bytes answers at once.
"""

from __future__ import annotations

import sys

import typer

from pyspark_commitlog import storage
from pyspark_commitlog.cli import dump_log, groups, metrics, topics, transactions

app = typer.Typer(
    name="commitlog",
    help="Kafka's commit log without a broker: look at logs, and at what is in their directories.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Boxes and colours are for people; what a program reads stays plain.
    rich_markup_mode="rich" if sys.stdout.isatty() and sys.stderr.isatty() else None,
)
app.command("dump-log")(dump_log.dump_log)
app.command("topics")(topics.topics)
app.command("groups")(groups.groups)
app.command("transactions")(transactions.transactions)
app.command("metrics")(metrics.metrics)


@app.callback()
def _commands() -> None:
    """Makes every command a subcommand, however many there are."""


def main() -> None:
    """Exit code 0, 1 for what went wrong with the log (one line on stderr), 2 for wrong use."""
    try:
        app()
    except storage.LogStoreError as error:
        typer.echo(f"commitlog: {error}", err=True)
        sys.exit(1)
