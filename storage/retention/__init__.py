"""Retention: which old segments of a log go, which are kept, why, and until when (Kafka's deleteOldSegments; spec 11).

Segments go whole, from the oldest on, never from the middle. :func:`survey` looks at a log, :func:`plan` decides and
touches nothing, :func:`apply` does what was decided. :func:`retain` is all of it, :func:`preview_retention` the same
without the doing.

Kafka's rules, each a :class:`RetentionPolicy`, in Kafka's order; each passes over the log from the oldest segment left
to the first one it keeps:

1. :class:`LogStartRetention`: what lies wholly below the log start offset, which ``delete_records`` raises;
2. :class:`SizeRetention`: ``retention.bytes``, while at least as many bytes stay without the segment;
3. :class:`TimeRetention`: ``retention.ms``, by the largest record timestamp. The time of the file counts only where no
   record has one: copies and restores reset it (KAFKA-3802).

Where ``cleanup.policy`` has no ``delete``, only the first. Whatever they say, nothing goes that is not wholly below the
last stable offset, or that a group named in ``keep_for_groups`` has not read.
"""

from pyspark_commitlog.storage.retention.applying import apply, preview_retention, remove_deleted_files, retain
from pyspark_commitlog.storage.retention.facts import DeletedFile, LogFacts, SegmentFacts, survey
from pyspark_commitlog.storage.retention.planning import (
    CHECK_INTERVAL_MS,
    RetentionOptions,
    RetentionPlan,
    SegmentFate,
    plan,
)
from pyspark_commitlog.storage.retention.policies import (
    LogStartRetention,
    RetentionPolicy,
    Situation,
    SizeRetention,
    SparingRetention,
    TimeRetention,
    Verdict,
    kafka_policies,
)
from pyspark_commitlog.storage.retention.report import RetentionReport

__all__ = [
    "CHECK_INTERVAL_MS",
    "DeletedFile",
    "LogFacts",
    "LogStartRetention",
    "RetentionOptions",
    "RetentionPlan",
    "RetentionPolicy",
    "RetentionReport",
    "SegmentFacts",
    "SegmentFate",
    "Situation",
    "SizeRetention",
    "SparingRetention",
    "TimeRetention",
    "Verdict",
    "apply",
    "kafka_policies",
    "plan",
    "preview_retention",
    "remove_deleted_files",
    "retain",
    "survey",
]
