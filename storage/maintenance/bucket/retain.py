"""Retention: planned from the sizes and times in commits, so that no record is read.

The part of a write in a partition counts as a segment. A commit raises the log start offset; later, a collector deletes
objects without records of the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...bucket.collecting import CollectLimits
from ...bucket.upkeep import Part, raise_log_start
from ...config import LogConfig
from ...retention.plan import RetentionOptions, plan_retention
from ...retention.report import RetentionReport
from ...retention.survey import LogFacts, SegmentFacts
from .scratch import Place

SEGMENTS_MAX = 2000  # limit of a plan: in a partition with more parts, adjacent ones count as one


def retain(
    place: Place,
    config: LogConfig,
    options: RetentionOptions,
    now_ms: int,
    limits: CollectLimits,
    *,
    dry_run: bool = False,
) -> RetentionReport:
    """Raises a partition's log start offset by its policies; returns the report.

    Raises the errors of :meth:`CommitLog.commit`, and PolicyViolationError.
    """
    plan = plan_retention(survey(place), replace(config, file_delete_delay_ms=limits.delete_grace_ms), now_ms, options)
    if plan.removed and not dry_run:
        ids = place.topic.topic_id, place.partition
        place.log.commit(lambda state: raise_log_start(state, *ids, plan.log_start_offset))
    return RetentionReport(plan, dry_run, (), (), is_in_bucket=True)


def survey(place: Place) -> LogFacts:
    """Returns the facts about a partition that retention needs.

    Asks the store only for the ages of records without a time.
    """
    parts, state = place.parts, place.state
    together = -(-len(parts) // SEGMENTS_MAX) or 1
    groups = [parts[start : start + together] for start in range(0, len(parts), together)]
    facts = tuple(_facts(place, group) for group in groups)
    return LogFacts(f"{place.log.store.url}/{place}", facts, state.log_start, state.end, state.end)


def _facts(place: Place, parts: Sequence[Part]) -> SegmentFacts:
    newest_ms = max(part.max_timestamp for part in parts)
    modified_ms = newest_ms if newest_ms >= 0 else max(_modified_ms(place, parts))
    return SegmentFacts(parts[0].base, parts[-1].end, sum(part.size for part in parts), newest_ms, modified_ms)


def _modified_ms(place: Place, parts: Sequence[Part]) -> Iterator[int]:
    """Yields when the objects of the parts were written, which counts as the time of records without one."""
    log = place.log
    for key in {place.key(part) for part in parts}:
        facts = log.patient_store.head(key)
        yield 2**62 if facts is None else facts.modified_ms  # a missing object is not deleted by time
