"""``commitlog fs-check``: whether a log may be kept on a file system."""

from __future__ import annotations

from typing import Annotated

import typer

from pyspark_commitlog import storage
from pyspark_commitlog.cli.flags import AsJson
from pyspark_commitlog.cli.output import Column, is_watched, print_json, print_table

COLUMNS = (Column("CHECK"), Column("VERDICT"), Column("DETAIL", is_text=True))

LogDir = Annotated[str, typer.Option(help="A directory there: a log directory, or the one that is to hold it.")]


def fs_check(*, log_dir: LogDir, as_json: AsJson = False) -> None:
    """Try what a log needs of a file system: renames, links between names, both kinds of lock, syncs.

    Works in a directory of its own below, and removes it. That synced bytes outlive a power cut, only a power cut can
    show. For a shared file system run it on two machines. The exit code is 1 where a check failed.
    """
    found = storage.check_filesystem(log_dir)
    rows = [(each.check, each.verdict.value, each.detail) for each in found]
    if as_json:
        print_json(dict(zip(("check", "verdict", "detail"), row, strict=True)) for row in rows)
    elif is_watched():
        print_table(COLUMNS, rows)
    else:
        for each in found:
            typer.echo(str(each))
    if any(each.verdict is storage.Verdict.FAILED for each in found):
        raise typer.Exit(1)
