"""``commitlog verify``: checks every byte of a log directory."""

from __future__ import annotations

from ... import storage
from ..flags import AsJson, MaybeLogDir, TierKeys, TierUrl, located
from ..maintenance.run import Asked, Config, Every, TopicConfigs, Topics, carry_out


def verify(
    *,
    log_dir: MaybeLogDir = None,
    tier: TierUrl = None,
    tier_key: TierKeys = None,
    topics: Topics = None,
    config: Config = None,
    topic_configs: TopicConfigs = None,
    every: Every = None,
    as_json: AsJson = False,
) -> None:
    """Check checksums, records, offsets, indexes, snapshots and checkpoints, each against the others.

    Reads everything, changes nothing and takes no lock, so it is safe on a running broker's directory. The exit code is
    3 if anything is damaged or has to be rebuilt. Works in one process; for large directories, spark-submit
    runs jobs/verify.py of the package.
    """
    log_dir = located(log_dir, tier, tier_key)
    asked = Asked(log_dir, topics, config, as_json, topic_configs=topic_configs, every=every)
    carry_out("verify", asked, storage.verify_partitions)
