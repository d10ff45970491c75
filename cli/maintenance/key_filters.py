"""``commitlog key-filters``: makes the filters that let a search for a key skip segments."""

from __future__ import annotations

from ... import storage
from ..flags import AsJson, DryRun, LogDir
from .run import Asked, Config, Every, TopicConfigs, Topics, Wait, carry_out


def key_filters(
    *,
    log_dir: LogDir,
    topics: Topics = None,
    config: Config = None,
    topic_configs: TopicConfigs = None,
    dry_run: DryRun = False,
    wait: Wait = False,
    every: Every = None,
    as_json: AsJson = False,
) -> None:
    """Make key filters for closed segments of topics with keyfilter.enable, so that commitlog find reads less.

    A filter takes at most 12 bits per distinct key. Filters that exist are kept; those of topics without the setting
    are removed.
    """
    asked = Asked(log_dir, topics, config, as_json, dry_run, wait, topic_configs, None, every)
    carry_out("key-filters", asked, storage.filter_partitions)
