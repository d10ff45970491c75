"""``commitlog recover``: logs into order after a crash."""

from __future__ import annotations

from typing import Annotated

import typer

from pyspark_commitlog import storage
from pyspark_commitlog.cli.flags import AsJson, LogDir
from pyspark_commitlog.cli.maintenance import Asked, Config, Topics, maintain

DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing; verify, and tell what recovery would find.")]


def recover(
    *, log_dir: LogDir, topics: Topics = None, config: Config = None, dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Bring logs into order after a crash, as opening them to write does.

    What at the end of a log is not whole, and so was never acknowledged, is cut off; unfinished compactions are ended
    or undone, and missing indexes made. What was acknowledged is never cut: damage there is told, the log is left as it
    is, and the exit code is 3.
    """
    maintain("recover", Asked(log_dir, topics, config, as_json, dry_run), storage.recover_partitions)
