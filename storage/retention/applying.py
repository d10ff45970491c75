"""Carrying out what was planned, and removing what waited long enough."""

from __future__ import annotations

import logging
from itertools import pairwise

from pyspark_commitlog.storage.clock import instant
from pyspark_commitlog.storage.filesystem import FileStatus
from pyspark_commitlog.storage.format import names
from pyspark_commitlog.storage.log import Log
from pyspark_commitlog.storage.reader import LogReader
from pyspark_commitlog.storage.retention.facts import (
    DeletedFile,
    LogFacts,
    deleted_files,
    survey,
    with_confirmed,
    with_markers,
)
from pyspark_commitlog.storage.retention.planning import RetentionOptions, RetentionPlan, plan
from pyspark_commitlog.storage.retention.report import SEGMENTS_SHOWN, RetentionReport
from pyspark_commitlog.storage.segment import give_up_file
from pyspark_commitlog.storage.segment_reader import LogContext
from pyspark_commitlog.storage.swaps import is_waiting

logger = logging.getLogger(__name__)


def preview_retention(
    log: LogReader, options: RetentionOptions | None = None, *, as_of_ms: int | None = None
) -> RetentionReport:
    """What :func:`retain` would do; nothing is changed, no lock is taken.

    ``as_of_ms``: as if it were that time; now by default.
    """
    context, facts = log.context, survey(log)
    now_ms = context.clock.now_ms()
    decided = _decided(log, facts, now_ms if as_of_ms is None else as_of_ms, options)
    waiting = tuple(file for file in facts.deleted_files if _is_waiting(file, context))
    removed = tuple(file for file in facts.deleted_files if file not in waiting)
    return RetentionReport(decided, True, removed, waiting)


def retain(
    log: Log, options: RetentionOptions | None = None, *, as_of_ms: int | None = None, work: str = ""
) -> RetentionReport:
    """Take out of the log what its policies let go, and remove what an earlier run took out long enough ago.

    ``as_of_ms``: the policies count as if it were that time; now by default. ``work`` is told to whoever finds the
    partition locked meanwhile. Raises LogDirLockedError, without waiting,
    while another process compacts, deletes or rebuilds, PolicyViolationError where policies other than Kafka's would
    delete from a topic that is only compacted, and StorageError where the disk failed.
    """
    context = log.context
    before = tuple(deleted_files(context))  # taking the lock brings the directory into order
    with log.maintaining(work or f"retention since {instant(context.clock.now_ms())}"):
        now_ms = context.clock.now_ms() if as_of_ms is None else as_of_ms
        decided = _decided(log, survey(log), now_ms, options)
        for warning in decided.warnings:
            logger.warning("%s: %s", context.directory, warning)
        apply(log, decided)
        remove_deleted_files(context)
    after = {file.name for file in deleted_files(context)}
    removed = tuple(file for file in before if file.name not in after)
    return RetentionReport(decided, False, removed, tuple(file for file in before if file.name in after))


def _decided(log: LogReader, facts: LogFacts, now_ms: int, options: RetentionOptions | None) -> RetentionPlan:
    """The plan. What goes is as old as the log itself says, not only its time indexes.

    It tells of the segments that go next whether the end of a transaction is what keeps them.
    """
    decided = plan(facts, log.context.config, now_ms, options)
    if decided.removed:
        facts = with_confirmed(log, facts, {fate.segment.base_offset for fate in decided.removed})
        decided = plan(facts, log.context.config, now_ms, options)
    shown = {fate.segment.base_offset for fate in decided.kept[:SEGMENTS_SHOWN] if fate.until_ms is not None}
    return plan(with_markers(log, facts, shown), log.context.config, now_ms, options) if shown else decided


def apply(log: Log, decided: RetentionPlan) -> None:
    """Take the segments that a plan removes out of the log. The caller holds the maintenance lock.

    On disk after a crash that follows each step:

    1. If the active segment goes, it is rolled: one more segment, empty. Were it grown since the plan was made, it
       stays.
    2. The log start offset is raised in the checkpoint, durably: the segments are there, below it, and no reader sees
       them; the next run takes them. (Kafka renames first and writes the checkpoint within a minute. A power cut may
       keep the rename of one segment and lose that of an older one: then records would be back, with a hole behind
       them. With the checkpoint first, whatever of the renames is lost lies below the log start; and no segment that
       is kept does, since the new start is the base offset of the oldest one kept.)
    3. Each file gets the time of its renaming, then the suffix ``.deleted``, oldest segment first, in each the ``.log``
       first: some still have their names. Index files left without their log are removed when the log is opened.
    4. The directory is synced.

    ``.deleted`` files are removed ``file.delete.delay.ms`` later by any run, or by whoever opens the log to write. The
    time of a file is set because a rename leaves it as it was, and the port has no other time of it; before the
    rename, so that no crash leaves a ``.deleted`` that looks old. Only ``.deleted`` names are ever removed: a
    snapshot or a segment that has meanwhile come to the old name stays (KAFKA-12964).

    Raises StorageError where the disk failed, or where another process cut the log since the plan was made: nothing
    more is then lost than what is below the log start.
    """
    if not decided.removed:
        return
    if decided.rolls:
        log.roll()
    found = _still_there(log, decided)
    if not found:
        return
    log_start_offset = max(next_offset for next_offset, _ in found.values())
    if log_start_offset > log.log_start_offset:
        log.delete_records(log_start_offset)
    with log.replacing_segments({base: status for base, (_, status) in found.items()}) as segments:
        for segment in segments:
            if segment.base_offset in found:
                segments.remove(segment)
                give_up_file(log.context, segment.path(names.SNAPSHOT))
                segment.give_up()
        log.context.filesystem.sync_directory(log.context.directory)


def _still_there(log: Log, decided: RetentionPlan) -> dict[int, tuple[int, FileStatus]]:
    """Those to go that end where they did, but never the active one: where the next begins, and their files."""
    wanted = {fate.segment.base_offset: fate.segment.next_offset for fate in decided.removed}
    return {
        segment.base_offset: (following.base_offset, segment.status())
        for segment, following in pairwise(log.segments)
        if wanted.get(segment.base_offset) == following.base_offset
    }


def remove_deleted_files(context: LogContext) -> list[DeletedFile]:
    """Remove the ``.deleted`` files whose time has come. The caller holds the maintenance lock."""
    expired = [file for file in deleted_files(context) if not _is_waiting(file, context)]
    for file in expired:
        context.filesystem.remove(names.join(context.directory, file.name))
    return expired


def _is_waiting(file: DeletedFile, context: LogContext) -> bool:
    return is_waiting(file.deleted_ms, context.clock.now_ms(), context.config.file_delete_delay_ms)
