"""The parts of the benchmarks, by the door that they measure: the order in which they run and are shown."""

from __future__ import annotations

DOORS = {
    "Spark on a disk": ("appending", "writing", "reading", "microbatch"),
    "Spark on a bucket": ("bucket_writing", "bucket_reading", "bucket_opening"),
    "Table and tail": ("tables", "bucket_tables"),
    "The wire": (
        "gateway_writing",
        "gateway_reading",
        "gateway_secured",
        "gateway_coordinating",
        "gateway_idle",
        "gateway_quotas",
    ),
    "Clients": ("clients", "codec"),
    "Find and browse": ("finding", "browse"),
    "Maintenance": ("compaction", "erasing", "recovery", "dump", "verify", "opening", "times", "memory"),
    "Backup": ("backups",),
    "Tiers": ("tier_reading",),
    "Growth": (
        "growth",
        "scale_topics",
        "scale_bucket",
        "scale_partitions",
        "scale_segments",
        "scale_groups",
        "scale_executors",
    ),
}
PARTS = tuple(part for parts in DOORS.values() for part in parts)
