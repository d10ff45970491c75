"""Rebuilds indexes and snapshots from the logs alone.

The offset index and time index of a segment need only its log: :func:`rebuild_segment`. Transaction indexes and
snapshots need the producer state, which is carried from segment to segment: :func:`rebuild_log`. A large log can be
processed in pieces: :func:`survey_segment` reads a segment, in any process, and :func:`producer_changes` joins the
surveys.

The results equal those of Kafka's own recovery. A valid index may differ from them: a broker restarts the count of
``index.interval.bytes`` when it starts, brokers before 3 wrote one entry per append, and a snapshot lists producers in
any order. A snapshot that contains all that the log shows is kept, since it may contain more: producers whose batches
compaction or retention has removed.

Only damage in a log prevents rebuilding from it; damaged logs are reported, and nothing is rebuilt from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .log import (
        RebuildReport as RebuildReport,
        plan_rebuild as plan_rebuild,
        producer_changes as producer_changes,
        rebuild_active as rebuild_active,
        rebuild_log as rebuild_log,
        remove_temporary as remove_temporary,
    )
    from .segment import (
        Change as Change,
        IndexEntries as IndexEntries,
        SegmentSurvey as SegmentSurvey,
        carry_out as carry_out,
        rebuild_segment as rebuild_segment,
        survey_segment as survey_segment,
    )
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "log": [
                "RebuildReport",
                "plan_rebuild",
                "producer_changes",
                "rebuild_active",
                "rebuild_log",
                "remove_temporary",
            ],
            "segment": ["Change", "IndexEntries", "SegmentSurvey", "carry_out", "rebuild_segment", "survey_segment"],
        },
    )
