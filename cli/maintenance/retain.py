"""``commitlog retain``: deletes old segments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from ... import storage
from ..flags import AsJson, DryRun, LogDir
from .run import Asked, AsOf, Config, Every, TopicConfigs, Topics, Wait, carry_out, option

KeepForGroups = Annotated[list[str] | None, option("keep_for_groups")]
KeepForTables = Annotated[list[str] | None, option("keep_for_tables")]
Policy = Annotated[str | None, option("policy")]
PolicyOption = Annotated[list[str] | None, option("policy_option")]


def retain(
    *,
    log_dir: LogDir,
    topics: Topics = None,
    config: Config = None,
    topic_configs: TopicConfigs = None,
    keep_for_groups: KeepForGroups = None,
    keep_for_tables: KeepForTables = None,
    policy: Policy = None,
    policy_option: PolicyOption = None,
    as_of: AsOf = None,
    dry_run: DryRun = False,
    wait: Wait = False,
    every: Every = None,
    as_json: AsJson = False,
) -> None:
    """Delete old segments by time, size and log start offset, or by a policy of your own.

    The report says what was deleted and why, and what is kept, why and until when. Works in one process; for large
    directories, spark-submit runs jobs/retain.py of the package.
    """
    asked = Asked(log_dir, topics, config, as_json, dry_run, wait, topic_configs, as_of, every)
    if policy is None and policy_option:
        raise typer.BadParameter("--policy-option needs --policy")
    own = None if policy is None else storage.load_policy(policy, policy_option or ())
    operation = partial(
        storage.retain_partitions,
        keep_for_groups=keep_for_groups or (),
        keep_for_tables=tables_kept(keep_for_tables),
        policy=own,
    )
    carry_out("retain", asked, operation)


def tables_kept(paths: Sequence[str] | None) -> storage.TablesKept:
    """Returns a function that reads the tables' next offsets at each run; ``paths`` may have commas."""
    if paths is None:
        return storage.no_tables
    from ...pipeline.delta.table_and_tail.kept import tables_kept as kept  # noqa: PLC0415  only with this flag

    return kept(storage.parse_names("--keep-for-tables", paths))
