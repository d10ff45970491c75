"""Indexes and snapshots made anew, from the logs alone (spec 5, 9.4, 9.5).

The offset and the time index of a segment need nothing but its log: :func:`rebuild_segment`. Transaction indexes and
snapshots need the state of the producers, which goes from segment to segment: :func:`rebuild_log`. A large log is done
in pieces: :func:`survey_segment` reads a segment, in any process, and :func:`producer_changes` joins the surveys.

What is written is what Kafka's own recovery writes. A sound index may differ from it: a broker begins to count
``index.interval.bytes`` anew when it is started, brokers before 3 made one entry an append, and a snapshot lists
producers in any order. Snapshots that say all that the log says are left alone, since they may say more: of producers
whose batches compaction or retention has removed.

Only damaged logs stop it, each for itself: they are named, and nothing is rebuilt from them.
"""

from pyspark_commitlog.storage.rebuild.log import (
    RebuildReport,
    plan_rebuild,
    producer_changes,
    rebuild_active,
    rebuild_log,
    remove_temporary,
)
from pyspark_commitlog.storage.rebuild.segment import (
    Change,
    SegmentSurvey,
    carry_out,
    rebuild_segment,
    survey_segment,
)

__all__ = [
    "Change",
    "RebuildReport",
    "SegmentSurvey",
    "carry_out",
    "plan_rebuild",
    "producer_changes",
    "rebuild_active",
    "rebuild_log",
    "rebuild_segment",
    "remove_temporary",
    "survey_segment",
]
