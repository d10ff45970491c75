"""``commitlog retain``: deletes old segments."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from ... import storage
from ..flags import AsJson, DryRun, LogDir
from .run import Asked, AsOf, Config, Every, TopicConfigs, Topics, Wait, carry_out

KeepForGroups = Annotated[
    list[str] | None,
    typer.Option(
        metavar="GROUPS", help="Keep what these consumer groups have not read; separated by commas. Repeatable."
    ),
]
Policy = Annotated[
    str | None,
    typer.Option(
        metavar="PACKAGE.MODULE:CLASS",
        help="Use a retention policy of your own instead of retention.ms and retention.bytes.",
    ),
]
PolicyOption = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="Pass this keyword argument to the policy. Repeatable.")
]


def retain(
    *,
    log_dir: LogDir,
    topics: Topics = None,
    config: Config = None,
    topic_configs: TopicConfigs = None,
    keep_for_groups: KeepForGroups = None,
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
    directories, jobs/retain.py does the same with Spark.
    """
    asked = Asked(log_dir, topics, config, as_json, dry_run, wait, topic_configs, as_of, every)
    if policy is None and policy_option:
        raise typer.BadParameter("--policy-option needs --policy")
    own = None if policy is None else storage.load_policy(policy, policy_option or ())
    carry_out("retain", asked, partial(storage.retain_partitions, keep_for_groups=keep_for_groups or (), policy=own))
