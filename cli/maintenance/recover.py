"""``commitlog recover``: recovers logs after a crash."""

from __future__ import annotations

from typing import Annotated

import typer

from ... import storage
from ..flags import AsJson, LogDir
from .run import Asked, Config, Topics, carry_out

DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing; verify, and print what recovery would find.")]


def recover(
    *, log_dir: LogDir, topics: Topics = None, config: Config = None, dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Recover logs after a crash, as opening them for writing does.

    An incomplete end of a log, which was never acknowledged, is cut off; unfinished compactions are completed or
    undone, and missing indexes are rebuilt. Acknowledged records are never cut. Then every byte is checked, as by
    verify: damage is reported, also by --dry-run, and the exit code is 3. What is damaged is not changed.
    """
    carry_out("recover", Asked(log_dir, topics, config, as_json, dry_run), storage.recover_partitions)
