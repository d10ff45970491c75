"""Retention: planned from what commits say of sizes and times, so that no record is read.

What a write added to a partition counts as a segment. A commit raises the log start offset; a collector deletes objects
later that have no records of the log any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...bucket import CollectLimits, Part, patiently, raise_log_start
from ...config import LogConfig
from ...retention.plan import RetentionOptions, plan_retention
from ...retention.report import RetentionReport
from ...retention.survey import LogFacts, SegmentFacts
from .scratch import Place

SEGMENTS_MAX = 2000  # of a plan: adjacent parts of a partition that has more count as one


def retain(
    place: Place,
    config: LogConfig,
    options: RetentionOptions,
    now_ms: int,
    limits: CollectLimits,
    *,
    dry_run: bool = False,
) -> RetentionReport:
    """Raises a partition's log start offset as its policies say; returns the report.

    Raises as :meth:`CommitLog.commit`, and PolicyViolationError.
    """
    plan = plan_retention(survey(place), replace(config, file_delete_delay_ms=limits.delete_grace_ms), now_ms, options)
    if plan.removed and not dry_run:
        ids = place.topic.topic_id, place.partition
        place.log.commit(lambda state: raise_log_start(state, *ids, plan.log_start_offset))
    return RetentionReport(plan, dry_run, (), (), is_in_bucket=True)


def survey(place: Place) -> LogFacts:
    """Returns what retention must know of a partition. Asks the store only for the ages of records without a time."""
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
    """Yields when the objects were written that have the parts: the age of records without a time."""
    log = place.log
    for key in {place.key(part) for part in parts}:
        facts = patiently(log.attempts(), lambda key=key: log.store.head(key))  # type: ignore[misc]
        yield 2**62 if facts is None else facts.modified_ms  # what is missing is not deleted by time
