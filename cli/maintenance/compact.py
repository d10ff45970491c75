"""``commitlog compact``: keeps only the newest record of each key."""

from __future__ import annotations

from ... import storage
from ..flags import AsJson, DryRun, LogDir
from .run import Asked, AsOf, Config, Every, TopicConfigs, Topics, Wait, carry_out


def compact(
    *,
    log_dir: LogDir,
    topics: Topics = None,
    config: Config = None,
    topic_configs: TopicConfigs = None,
    as_of: AsOf = None,
    dry_run: DryRun = False,
    wait: Wait = False,
    every: Every = None,
    as_json: AsJson = False,
) -> None:
    """Compact topics whose cleanup.policy has compact: keep only the newest record of each key.

    Logs are chosen as Kafka's cleaner does, the dirtiest first; the report says why the others were not chosen. Works
    in one process, with log.cleaner.dedupe.buffer.size of memory; for large directories, spark-submit runs
    jobs/compact.py of the package.
    """
    asked = Asked(log_dir, topics, config, as_json, dry_run, wait, topic_configs, as_of, every)
    carry_out("compact", asked, storage.compact_partitions)
