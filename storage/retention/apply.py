"""Carries out retention plans, and removes ``.deleted`` files once their delay has passed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import pairwise

from ..clock import instant
from ..filesystem.port import FileStatus
from ..format.files import file_names
from ..reading.reader import LogReader
from ..segment.swap import is_waiting
from ..segment.walk import LogContext
from ..segment.writer import mark_deleted
from ..writing.log import Log
from .plan import RetentionOptions, RetentionPlan, plan_retention
from .report import SEGMENTS_SHOWN, RetentionReport
from .survey import DeletedFile, LogFacts, deleted_files, survey_log, with_confirmed, with_markers

logger = logging.getLogger(__name__)


def preview_retention(
    log: LogReader, options: RetentionOptions | None = None, *, as_of_ms: int | None = None
) -> RetentionReport:
    """Returns the report that :func:`retain` would return. Changes nothing, takes no lock.

    ``as_of_ms``: the time to assume; now by default.
    """
    context, facts = log.context, survey_log(log)
    now_ms = context.clock.now_ms()
    decided = _decided(log, facts, now_ms if as_of_ms is None else as_of_ms, options)
    waiting = tuple(file for file in facts.deleted_files if _is_waiting(file, context))
    removed = tuple(file for file in facts.deleted_files if file not in waiting)
    return RetentionReport(decided, True, removed, waiting)


def retain(
    log: Log,
    options: RetentionOptions | Callable[[], RetentionOptions] | None = None,
    *,
    as_of_ms: int | None = None,
    holder: str = "",
) -> RetentionReport:
    """Deletes segments that the policies release, and ``.deleted`` files whose delay has passed. Returns the report.

    ``options``: a function is called under the maintenance lock, for what may change until then. ``as_of_ms``: the time
    that the policies assume; now by default. Processes that find the partition locked show ``holder`` in their errors.

    Raises LogDirLockedError, without waiting, while another process compacts, deletes or rebuilds; PolicyViolationError
    if policies other than Kafka's would delete from a topic that is only compacted; StorageError if the disk fails.
    """
    context = log.context
    before = tuple(deleted_files(context))  # before taking the lock, which tidies the directory
    with log.maintaining(holder or f"retention since {instant(context.clock.now_ms())}"):
        now_ms = context.clock.now_ms() if as_of_ms is None else as_of_ms
        decided = _decided(log, survey_log(log), now_ms, options() if callable(options) else options)
        for warning in decided.warnings:
            logger.warning("%s: %s", context.directory, warning)
        apply_plan(log, decided)
        remove_deleted_files(context)
    after = {file.name for file in deleted_files(context)}
    removed = tuple(file for file in before if file.name not in after)
    return RetentionReport(decided, False, removed, tuple(file for file in before if file.name in after))


def _decided(log: LogReader, facts: LogFacts, now_ms: int, options: RetentionOptions | None) -> RetentionPlan:
    """Returns the plan. Reads the age of segments to be deleted from their logs, since a time index may be wrong.

    For the next segments to be deleted, adds whether the time that keeps them is the end of a transaction.
    """
    decided = plan_retention(facts, log.context.config, now_ms, options)
    if decided.removed:
        facts = with_confirmed(log, facts, {fate.segment.base_offset for fate in decided.removed})
        decided = plan_retention(facts, log.context.config, now_ms, options)
    shown = {fate.segment.base_offset for fate in decided.kept[:SEGMENTS_SHOWN] if fate.until_ms is not None}
    return plan_retention(with_markers(log, facts, shown), log.context.config, now_ms, options) if shown else decided


def apply_plan(log: Log, decided: RetentionPlan) -> None:
    """Removes the segments that a plan deletes. The caller holds the maintenance lock.

    Steps, and the state on disk after a crash that follows each:

    1. If the active segment is to be deleted, it is rolled: there is one more segment, empty. If it has grown since the
       plan was made, it is kept.
    2. The log start offset is raised in the checkpoint, durably: the segments still exist below it, no reader sees
       them, and the next run deletes them. (Kafka renames first and writes the checkpoint within a minute. A power cut
       may keep the rename of one segment and lose that of an older one: records would then reappear, with a hole after
       them. With the checkpoint first, every segment whose rename is lost lies below the log start; no kept segment
       does, since the new start is the base offset of the oldest one kept.)
    3. Each file gets the current time, then the suffix ``.deleted``, oldest segment first, the ``.log`` of each first:
       some files still have their names. Opening the log removes index files without their log.
    4. The directory is synced.

    If a tier has the segments, step 2 writes the log start as it is, and the directory is synced after each segment:
    what a power cut leaves are the newest ones, and readers find the others in the tier.

    Any run, or opening the log for writing, removes ``.deleted`` files ``file.delete.delay.ms`` later. The time of a
    file is set because renaming does not change it and the file system port offers no other time; it is set before the
    rename, so that no crash leaves a ``.deleted`` file that looks old. Only ``.deleted`` names are ever removed, so a
    snapshot or a segment that has since taken the old name is kept (KAFKA-12964).

    Raises StorageError if the disk fails, or if another process truncated the log since the plan was made; even then,
    only records below the log start are lost.
    """
    if not decided.removed:
        return
    if decided.rolls:
        log.roll()
    found = _still_there(log, decided)
    if not found:
        return
    log_start_offset = max(next_offset for next_offset, _ in found.values())
    if decided.is_local:
        log.checkpoints.note_start(log.log_start_offset if log.remote is None else log.remote.start)
    elif log_start_offset > log.log_start_offset:
        log.delete_records(log_start_offset)
    with log.replacing_segments({base: status for base, (_, status) in found.items()}) as segments:
        for segment in segments:
            if segment.base_offset in found:
                segments.remove(segment)
                mark_deleted(log.context, segment.path(file_names.SNAPSHOT))
                segment.mark_deleted()
                if decided.is_local:  # nothing else records this deletion: older segments must be gone first
                    log.context.filesystem.sync_directory(log.context.directory)
        log.context.filesystem.sync_directory(log.context.directory)


def _still_there(log: Log, decided: RetentionPlan) -> dict[int, tuple[int, FileStatus]]:
    """Closed segments to delete that still end where the plan says: base offset to (next offset, status of the log)."""
    wanted = {fate.segment.base_offset: fate.segment.next_offset for fate in decided.removed}
    return {
        segment.base_offset: (following.base_offset, segment.status())
        for segment, following in pairwise(log.segments)
        if wanted.get(segment.base_offset) == following.base_offset
    }


def remove_deleted_files(context: LogContext) -> list[DeletedFile]:
    """Removes and returns the ``.deleted`` files whose delay has passed. The caller holds the maintenance lock."""
    expired = [file for file in deleted_files(context) if not _is_waiting(file, context)]
    for file in expired:
        context.filesystem.remove(file_names.join(context.directory, file.name))
    return expired


def _is_waiting(file: DeletedFile, context: LogContext) -> bool:
    return is_waiting(file.deleted_ms, context.clock.now_ms(), context.config.file_delete_delay_ms)
