"""Checks a partition's log: each segment, and facts that only all segments together show, such as a missing one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ..errors import CorruptionError
from ..filesystem.operations import read_file
from ..format.constants import INT32_MAX
from ..format.files import checkpoints, file_names
from ..format.files.checkpoints import EpochEntry
from ..format.files.file_names import TopicPartition
from ..key_filters.files import FilterFiles
from ..recovery.leader_epochs import LeaderEpochCache
from ..recovery.lost_start import find_lost_start, lost_by_epochs, lost_by_epochs_text, lost_start_text
from ..segment.swap import SwapPlan, swap_plan
from ..segment.walk import FILE_KINDS, LogContext
from .findings import Finding, Findings, Kind, Severity
from .key_filters import FilterPlace
from .producer_state import add_missing_abort
from .segment import SegmentFindings, SegmentToVerify, verify_segment

CHECKPOINT_BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True)
class CheckpointedOffsets:
    """The offsets of a partition in the checkpoints at the root of a log directory; None: no entry."""

    recovery_point: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    cleaner_offset: int | None = None


@dataclass(frozen=True)
class LogFindings:
    """The content of a partition's log, and the findings about it."""

    findings: tuple[Finding, ...]
    log_end_offset: int
    segments: int
    batches: int
    records: int  # 0 unless records were decoded
    sound_bytes: int  # of the logs

    def of(self, severity: Severity) -> list[Finding]:
        """Returns the findings of one severity."""
        return [finding for finding in self.findings if finding.severity is severity]


def plan_verification(
    context: LogContext, checkpointed: CheckpointedOffsets | None = None
) -> tuple[list[SegmentToVerify], list[Finding]]:
    """Lists the segments of a partition's directory, and the findings that file names alone give.

    Pass each segment to :func:`verify_segment`, in any order and process, and all results to :func:`join`.
    """
    findings = Findings()
    listing = context.filesystem.list(context.directory)
    plan = swap_plan(context, listing)
    has_time_indexes = any(name.removesuffix(file_names.SWAP).endswith(file_names.TIME_INDEX) for name in listing)
    suffixes = plan.segment_suffixes()
    for base, unfinished in _unfinished(plan).items():
        what = f"files of an unfinished compaction or split: {', '.join(unfinished)}"
        findings.add(Kind.UNFINISHED_SWAP, context.directory, what, offset=base)
    checkpointed = checkpointed or CheckpointedOffsets()
    lost = find_lost_start(context, listing, plan, checkpointed.log_start_offset or 0)
    if lost is not None:
        what, bounds = lost_start_text(context, lost), (lost.start, lost.stop - 1)
        findings.add(Kind.LOST_START, context.directory, what, offset=lost.start, lost=bounds)
    for name in plan.kept:
        base = file_names.base_offset_of(name) or 0
        if name.endswith(FILE_KINDS[1:]) and base not in suffixes and (lost is None or base >= lost.stop):
            findings.add(Kind.ORPHAN_INDEX, file_names.join(context.directory, name), "its .log file is missing")
    snapshots = sorted(plan.kept_by_suffix[file_names.SNAPSHOT])
    bases = sorted(suffixes)
    filter_places = _filter_places(context, listing, bases)
    segments = [
        SegmentToVerify(
            base,
            following,
            swapped=tuple(
                kind for kind in FILE_KINDS if file_names.segment_file(base, kind) + file_names.SWAP in plan.swapped_in
            ),
            snapshots=tuple(n for n in snapshots if base < n and (following is None or n <= following)),
            has_time_indexes=has_time_indexes,
            recovery_point=checkpointed.recovery_point or 0,
            is_compacted=context.config.compact or checkpointed.cleaner_offset is not None,
            filters=filters,
        )
        for base, following, filters in zip(bases, [*bases[1:], None], filter_places, strict=False)  # may be none
    ]
    return segments, list(findings.all())


def _filter_places(context: LogContext, listing: Sequence[str], bases: Iterable[int]) -> list[FilterPlace | None]:
    """Returns for each segment where the filter of its keys is; None if it has none."""
    names = [None, *map(FilterFiles(context, listing).name_of, bases)]
    return [None if name is None else FilterPlace(name, name != before) for before, name in pairwise(names)]


def verify_log(
    context: LogContext, checkpointed: CheckpointedOffsets | None = None, *, deep: bool = True
) -> LogFindings:
    """Checks a partition's directory, with all segments in this process. Reads only; takes no lock.

    ``deep``: decode and check every record too. Damage is in the result, and raises nothing; raises FileNotFoundError
    if there is no such directory.
    """
    checkpointed = checkpointed or CheckpointedOffsets()
    segments, of_names = plan_verification(context, checkpointed)
    results: list[SegmentFindings] = []
    for segment in segments:
        results.append(verify_segment(context, _following_on(segment, results), deep=deep))
    return join(context, checkpointed, results, of_names)


def join(
    context: LogContext,
    checkpointed: CheckpointedOffsets,
    results: Sequence[SegmentFindings],
    of_names: Iterable[Finding] = (),
) -> LogFindings:
    """Combines the results of all segments, ordered by base offset, into those of the log.

    Adds findings that only all segments show: missing segments, offsets that go back between two segments, wrong leader
    epochs and checkpoints. ``of_names`` are the findings of :func:`plan_verification`.
    """
    findings = Findings()
    is_compacted = any(result.is_compacted for result in results)
    for before, after in pairwise(results):
        _compare_neighbours(context, before, after, findings, is_compacted=is_compacted)
    if not is_compacted:
        _add_gaps(context, results, findings)
    _add_missing_aborts(context, results, findings)
    log_end_offset = results[-1].next_offset if results else 0
    _check_checkpoints(context, checkpointed, results, findings)
    _check_newest_snapshot(context, results, findings)
    epochs = _check_epochs(context, results, log_end_offset, findings)
    if checkpointed.log_start_offset is None:  # otherwise a broker's tier may have the records below the first segment
        _check_start(context, results, epochs, [*of_names], findings)
    _check_metadata(context, findings)
    found = [*of_names, *(each for result in results for each in result.findings), *findings.all()]
    return LogFindings(
        tuple(found),
        log_end_offset,
        len(results),
        sum(result.batches for result in results),
        sum(result.records for result in results),
        sum(result.sound_bytes for result in results),
    )


def _unfinished(plan: SwapPlan) -> dict[int, list[str]]:
    """Returns the file names that end with ``.cleaned`` or ``.swap``, by base offset."""
    found: dict[int, list[str]] = {}
    for name in sorted(
        {*plan.undone, *plan.swapped_in, *(each for each in plan.deleted if each.endswith(file_names.CLEANED))}
    ):
        found.setdefault(file_names.offset_in(name), []).append(name)
    return found


def _following_on(segment: SegmentToVerify, results: list[SegmentFindings]) -> SegmentToVerify:
    """Returns ``segment`` with facts from earlier segments: the producer state, and whether the log is compacted.

    The producer state is unknown if offsets are missing before the segment, or the one before is damaged.
    """
    if not results:
        return segment
    before = results[-1]
    is_compacted = segment.is_compacted or before.is_compacted
    joins = before.next_offset == segment.base_offset or (is_compacted and before.next_offset < segment.base_offset)
    opening = before.closing if joins and not before.is_damaged else None
    return replace(segment, opening=opening, is_compacted=is_compacted)


def _log_path(context: LogContext, result: SegmentFindings) -> str:
    return result.segment.path(context.directory, file_names.LOG)


def _compare_neighbours(
    context: LogContext, before: SegmentFindings, after: SegmentFindings, findings: Findings, *, is_compacted: bool
) -> None:
    end, base = before.next_offset, after.segment.base_offset
    if end > base:
        what = f"it begins at offset {base}, but the segment before reaches up to {end - 1}"
        findings.add(Kind.OFFSETS_GO_BACK, _log_path(context, after), what, position=0, offset=base)
    is_far = base - before.segment.base_offset > INT32_MAX  # a roll forced by the range of offsets, which may skip some
    if end < base and not (is_compacted or before.has_damaged_end or is_far):
        what = f"offsets {end} to {base - 1} are in no segment, and the log shows no compaction"
        findings.add(Kind.MISSING_SEGMENT, context.directory, what, offset=end, lost=(end, base - 1))


def _add_gaps(context: LogContext, results: Iterable[SegmentFindings], findings: Findings) -> None:
    for result in results:
        for position, first, last in result.gaps:
            what = f"offsets {first} to {last} are in no batch, and the log shows no compaction"
            findings.add(Kind.OFFSET_GAP, _log_path(context, result), what, position=position, offset=first)


def _add_missing_aborts(context: LogContext, results: Iterable[SegmentFindings], findings: Findings) -> None:
    """Adds findings for aborted transactions without an index entry, if their records are in an earlier segment."""
    undecided: dict[int, int] = {}  # base offset of the last batch with records, by producer id
    for result in results:
        for aborted in result.without_entry:
            if undecided.get(aborted.producer_id, -1) >= aborted.first_offset:
                add_missing_abort(aborted, result.segment.path(context.directory, file_names.TXN_INDEX), findings)
        undecided.update(result.undecided)


def _check_newest_snapshot(context: LogContext, results: Sequence[SegmentFindings], findings: Findings) -> None:
    """Adds a finding if no snapshot is at the start of the newest segment: brokers then forget earlier producers."""
    if len(results) < 2 or not any(result.closing for result in results[-2:]):
        return
    base = results[-1].segment.base_offset
    if results[-1].segment.snapshots or base in results[-2].segment.snapshots:
        return
    path = file_names.join(context.directory, file_names.segment_file(base, file_names.SNAPSHOT))
    what = "the newest segment has no snapshot, so a broker would forget the producers before it"
    findings.add(Kind.MISSING_SNAPSHOT, path, what, offset=base)


# Checkpoints


def _check_checkpoints(
    context: LogContext, checkpointed: CheckpointedOffsets, results: Sequence[SegmentFindings], findings: Findings
) -> None:
    recovery_point, log_start_offset = checkpointed.recovery_point or 0, checkpointed.log_start_offset or 0
    if not results:
        if recovery_point > log_start_offset:
            what = f"there is no segment, but everything below offset {recovery_point} was synced once"
            lost = log_start_offset, recovery_point - 1
            findings.add(Kind.MISSING_SEGMENT, context.directory, what, offset=log_start_offset, lost=lost)
        return
    end = results[-1].next_offset
    if end < recovery_point and not results[-1].is_damaged:
        what = f"the log ends at offset {end}, but everything below {recovery_point} was synced once"
        findings.add(
            Kind.RECORDS_MISSING,
            _log_path(context, results[-1]),
            what,
            position=results[-1].sound_bytes,
            offset=end,
            lost=(end, recovery_point - 1),
        )
    above = {
        "log start": checkpointed.log_start_offset,
        "high watermark": checkpointed.high_watermark,
        "cleaner": checkpointed.cleaner_offset,
    }
    for name, offset in above.items():
        if offset is not None and offset > max(end, recovery_point):
            what = f"the {name} offset in the checkpoint is {offset}, but the log ends at {end}"
            findings.add(Kind.BAD_CHECKPOINT, context.directory, what, offset=offset)


def _check_start(
    context: LogContext,
    results: Sequence[SegmentFindings],
    epochs: Sequence[EpochEntry],
    of_names: Iterable[Finding],
    findings: Findings,
) -> None:
    """Adds a finding if the first leader epoch begins below the first segment: deleting records raises it, too."""
    lost = lost_by_epochs(context, results[0].segment.base_offset, epochs, 0) if results else None
    if lost is not None and not any(finding.kind is Kind.LOST_START for finding in of_names):
        what = lost_by_epochs_text(lost, epochs)
        findings.add(Kind.LOST_START, context.directory, what, offset=lost.start, lost=(lost.start, lost.stop - 1))


def _check_epochs(
    context: LogContext, results: Sequence[SegmentFindings], end: int, findings: Findings
) -> Sequence[EpochEntry]:
    """Checks that ``leader-epoch-checkpoint`` is readable and ascends, up to the log end, and matches the batches.

    Returns its entries; none if it is missing or unreadable.
    """
    path = file_names.join(context.directory, file_names.LEADER_EPOCH_CHECKPOINT)
    in_log = _epochs_in_log(results)
    try:
        entries = checkpoints.decode_leader_epochs(read_file(context.filesystem, path, CHECKPOINT_BYTES_MAX))
    except FileNotFoundError:
        if in_log:
            findings.add(Kind.BAD_EPOCHS, path, "the file is missing, although batches have leader epochs")
        return ()
    except CorruptionError as error:
        findings.add(Kind.BAD_EPOCHS, path, error.reason, position=error.position)
        return ()
    if len(LeaderEpochCache(entries).entries) != len(entries):
        findings.add(Kind.BAD_EPOCHS, path, "epochs and their offsets do not both increase")
    for entry in entries:
        if results and not results[-1].is_damaged and entry.start_offset > end:
            what = f"epoch {entry.epoch} begins at {entry.start_offset}, but the log ends at {end}"
            findings.add(Kind.BAD_EPOCHS, path, what, offset=entry.start_offset)
    for entry in in_log:
        stated = LeaderEpochCache(entries).epoch_for(entry.start_offset)
        if stated not in (entry.epoch, -1) or not entries:
            what = (
                f"the file has epoch {stated} at offset {entry.start_offset}, but a batch of epoch {entry.epoch} "
                "begins there"
            )
            findings.add(Kind.BAD_EPOCHS, path, what, offset=entry.start_offset)
    return entries


def _epochs_in_log(results: Iterable[SegmentFindings]) -> list[EpochEntry]:
    found: list[EpochEntry] = []
    for result in results:
        found += [entry for entry in result.epochs if not found or entry.epoch > found[-1].epoch]
    return found


def _check_metadata(context: LogContext, findings: Findings) -> None:
    """Adds a finding if ``partition.metadata`` is damaged; brokers before 2.8 did not write that file."""
    path = file_names.join(context.directory, file_names.PARTITION_METADATA_FILE)
    try:
        checkpoints.decode_partition_metadata(read_file(context.filesystem, path, CHECKPOINT_BYTES_MAX))
    except FileNotFoundError:
        return
    except CorruptionError as error:
        findings.add(Kind.BAD_METADATA, path, error.reason, position=error.position)


def read_checkpoints(
    context: LogContext, directory: str, topic: str, partition: int
) -> tuple[CheckpointedOffsets, list[Finding]]:
    """Returns a partition's offsets in the checkpoints of a log directory, and a finding per unreadable checkpoint."""
    findings = Findings()
    offsets: list[int | None] = []
    for name in file_names.OFFSET_CHECKPOINTS:
        path = file_names.join(directory, name)
        try:
            stored = checkpoints.decode_offsets(read_file(context.filesystem, path, CHECKPOINT_BYTES_MAX))
            offsets.append(stored.get(TopicPartition(topic, partition)))
        except FileNotFoundError:
            offsets.append(None)
        except CorruptionError as error:
            findings.add(Kind.BAD_CHECKPOINT, path, error.reason, position=error.position)
            offsets.append(None)
    return CheckpointedOffsets(*offsets), list(findings.all())
