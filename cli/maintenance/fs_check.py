"""``commitlog fs-check``: checks whether a file system can hold logs."""

from __future__ import annotations

from typing import Annotated

import typer

from ... import storage
from ..flags import AsJson
from ..output import Column, is_watched, print_json, print_table

COLUMNS = (Column("CHECK"), Column("VERDICT"), Column("DETAIL", is_text=True))

LogDir = Annotated[
    str,
    typer.Option(help="A directory on the file system: the log directory, or its parent. Or an object store's URL."),
]


def fs_check(*, log_dir: LogDir, as_json: AsJson = False) -> None:
    """Check that a file system or an object store can hold logs.

    Of a file system, it checks renames, names, modification times, both kinds of lock, and syncs. It works in a
    temporary directory inside --log-dir and removes it. Whether synced bytes survive a power cut can only be shown by a
    power cut. For a shared file system, run the check on two machines.

    Of an object store (s3://bucket/folder), it checks that of many processes that create one object exactly one wins,
    and that what was written is read at once. It works in a folder of its own and deletes it. Credentials are taken
    from the environment.

    The exit code is 1 if a check fails.
    """
    check = storage.check_store if storage.is_store_url(log_dir) else storage.check_filesystem
    found = check(log_dir)
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
