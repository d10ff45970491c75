"""Names and bytes of the files around a ``.log``: indexes, producer snapshots, checkpoints."""
