"""``commitlog snapshot``: a log directory as it is at one moment."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pyspark_commitlog import storage
from pyspark_commitlog.cli.flags import AsJson, LogDir
from pyspark_commitlog.cli.output import print_json

To = Annotated[str, typer.Option("--to", help="Where to make it: a directory that is missing or empty.")]


def snapshot(*, log_dir: LogDir, to: To, as_json: AsJson = False) -> None:
    """Make a snapshot of all topics, those of groups and transactions too, at one moment.

    On the same disk closed segments are hard links, which cost no room until the log lets them go; all else is copied.
    Who writes waits meanwhile. A transaction is in it with all its partitions or with none. A broker must be stopped.
    """
    with storage.LogManager.open(log_dir) as manager:
        taken = storage.take_snapshot(manager, to)
    if as_json:
        print_json([{"snapshot": to, **facts(taken)}])
        return
    linked, copied = taken.bytes_of(linked=True), taken.bytes_of(linked=False)
    typer.echo(
        f"snapshot {to}: {len(taken.partitions):,} partitions of {log_dir}, {len(taken.files):,} files: "
        f"{linked:,} bytes linked, {copied:,} copied"
    )


def facts(taken: storage.Snapshot) -> dict[str, Any]:
    """What a program is told of a snapshot."""
    return {
        "source": taken.source,
        "taken_at": taken.taken_at_ms,
        "partitions": taken.partitions,
        "files": len(taken.files),
        "linked_bytes": taken.bytes_of(linked=True),
        "copied_bytes": taken.bytes_of(linked=False),
    }
