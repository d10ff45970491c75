"""``commitlog verify``: is every byte as it should be."""

from __future__ import annotations

from pyspark_commitlog import storage
from pyspark_commitlog.cli.flags import AsJson, LogDir
from pyspark_commitlog.cli.maintenance import Asked, Config, Topics, maintain


def verify(*, log_dir: LogDir, topics: Topics = None, config: Config = None, as_json: AsJson = False) -> None:
    """Check checksums, records, offsets, indexes, snapshots and checkpoints, each against the others.

    Reads all, changes nothing and takes no lock: a running broker's directory may be checked. The exit code is 3 where
    something is damaged or has to be rebuilt.
    """
    maintain("verify", Asked(log_dir, topics, config, as_json), storage.verify_partitions)
