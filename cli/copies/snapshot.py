"""``commitlog snapshot``: takes a snapshot of a log directory."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ... import storage
from ..flags import AsJson, LogDir
from ..output import print_json

To = Annotated[str, typer.Option("--to", help="The directory to create; it must be missing or empty.")]


def snapshot(*, log_dir: LogDir, to: To, as_json: AsJson = False) -> None:
    """Take a snapshot of all topics at one moment, including those of groups and transactions.

    On the same file system, closed segments become hard links, which take no space until the log deletes the segments;
    all else is copied. Writers wait until the snapshot is taken. A transaction is included in all its partitions or in
    none. A broker must be stopped. Of a log on an object store, everything is copied, as it is after one commit, and
    nobody waits.
    """
    with storage.LogManager.open(log_dir) as manager:
        taken = storage.snapshot_log(manager, to)
    if as_json:
        print_json([{"snapshot": to, **facts(taken)}])
        return
    linked, copied = taken.bytes_of(linked=True), taken.bytes_of(linked=False)
    typer.echo(
        f"snapshot {to}: {storage.counted(len(taken.partitions), 'partition')} of {log_dir}, "
        f"{storage.counted(len(taken.files), 'file')}: {linked:,} bytes linked, {copied:,} copied"
    )


def facts(taken: storage.Snapshot) -> dict[str, Any]:
    """Returns the fields of a snapshot in JSON output."""
    return {
        "source": taken.source,
        "taken_at": taken.taken_at_ms,
        "partitions": taken.partitions,
        "files": len(taken.files),
        "linked_bytes": taken.bytes_of(linked=True),
        "copied_bytes": taken.bytes_of(linked=False),
    }
