"""``commitlog rebuild-index``: rebuilds indexes and producer snapshots from the logs alone."""

from __future__ import annotations

from ... import storage
from ..flags import AsJson, DryRun, LogDir
from .run import Asked, Config, Topics, Wait, carry_out


def rebuild_index(
    *,
    log_dir: LogDir,
    topics: Topics = None,
    config: Config = None,
    dry_run: DryRun = False,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Rebuild indexes and producer snapshots that are missing or do not match the log.

    The whole log is read before anything is written. A damaged log is not changed, and the exit code is 3.
    """
    carry_out("rebuild-index", Asked(log_dir, topics, config, as_json, dry_run, wait), storage.rebuild_partitions)
