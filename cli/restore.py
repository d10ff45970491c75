"""``commitlog restore``: a log directory from a snapshot."""

from __future__ import annotations

from typing import Annotated

import typer

from pyspark_commitlog import storage
from pyspark_commitlog.cli.flags import AsJson, DryRun
from pyspark_commitlog.cli.output import print_json
from pyspark_commitlog.cli.snapshot import facts

From = Annotated[str, typer.Option("--from", help="The snapshot.")]
LogDir = Annotated[str, typer.Option(help="The log directory to make; it is missing or empty.")]


def restore(*, source: From, log_dir: LogDir, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Make a log directory of a snapshot, which stays as it is: everything is copied.

    A snapshot of which a file is missing, or has another size than when it was taken, is refused. The files' contents
    are not looked at: commitlog verify does that afterwards.
    """
    log_dir = storage.local_path(log_dir)
    taken = storage.read_snapshot(source) if dry_run else storage.restore_snapshot(source, log_dir)
    if as_json:
        print_json([{"log_dir": log_dir, "snapshot": source, **facts(taken), "restored": not dry_run}])
        return
    size = taken.bytes_of(linked=True) + taken.bytes_of(linked=False)
    did = "would restore" if dry_run else "restored"
    typer.echo(
        f"{did} {len(taken.partitions):,} partitions, {len(taken.files):,} files "
        f"with {size:,} bytes, as they were in {taken.source} at {storage.instant(taken.taken_at_ms)}"
    )
