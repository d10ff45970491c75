"""The report of a retention run, or of a dry run, as text: deleted and kept segments, why, and until when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from ..clock import instant
from ..text import counted
from .plan import RetentionPlan, SegmentFate
from .survey import DeletedFile
from .wording import duration

SEGMENTS_SHOWN = 3  # number of kept segments that are shown: the oldest, which will be deleted next


@dataclass(frozen=True)
class RetentionReport:
    """The result of retention of one log, or of a dry run; ``str()`` gives a few lines of text."""

    plan: RetentionPlan
    is_dry_run: bool
    files_removed: tuple[DeletedFile, ...]  # from earlier runs: their file.delete.delay.ms has passed
    files_waiting: tuple[DeletedFile, ...]  # from earlier runs
    is_in_bucket: bool = False  # the log is on an object store, where a collector deletes objects later

    def __str__(self) -> str:
        lines = [self._head(), *self._removed(), *self._kept(), *self._files(), *self._warnings()]
        return "\n  ".join(lines)

    def _head(self) -> str:
        plan, facts = self.plan, self.plan.facts
        name = facts.directory.rstrip("/").rpartition("/")[2]
        moment = f"as of {instant(plan.now_ms)}" + (", a dry run" if self.is_dry_run else "")
        if not plan.removed:
            kept = counted(len(plan.kept), "segment")
            return f"{name}, {moment}: nothing to delete; keeping {kept}, {facts.size:,} bytes"
        return (
            f"{name}, {moment}: deleting {len(plan.removed):,} of {counted(len(plan.fates), 'segment')}, "
            f"{_size(plan.removed):,} of {facts.size:,} bytes; "
            f"the log start offset rises from {facts.log_start_offset} to {plan.log_start_offset}"
        )

    def _removed(self) -> Iterator[str]:
        for rule, group in groupby(self.plan.removed, key=lambda fate: fate.rule):
            fates = list(group)
            yield f"by {rule}: {_extent(fates)}; the last one: {fates[-1].reason}"
        if self.plan.rolls:
            yield "the active segment is one of them; a new, empty segment replaces it"
        if self.plan.removed:
            delay_ms = self.plan.file_delete_delay_ms
            after = f"are renamed to .deleted, and removed {duration(delay_ms)} later" if delay_ms else "are removed"
            if self.is_in_bucket:
                yield f"their objects are deleted {duration(delay_ms)} later, unless they have other records of the log"
            else:
                yield f"their files {after}"

    def _kept(self) -> Iterator[str]:
        kept = self.plan.kept
        for fate in kept[:SEGMENTS_SHOWN]:
            until = "" if fate.until_ms is None else f" until {instant(fate.until_ms)}"
            yield f"kept{until}: {_extent([fate])}: {fate.reason}{self._by_when(fate)}"
        if len(kept) > SEGMENTS_SHOWN:
            yield f"also kept: {_extent(kept[SEGMENTS_SHOWN:])}, all newer"

    def _by_when(self, fate: SegmentFate) -> str:
        if fate.removed_by_ms is None:
            return ""
        age = "" if fate.lifetime_ms is None else f", when its first record is {duration(fate.lifetime_ms)} old"
        if self.is_in_bucket:
            return ""  # an object may have records of other partitions
        delay_ms = self.plan.file_delete_delay_ms
        return (
            f"; off the disk by {instant(fate.removed_by_ms)} at the latest{age}: up to "
            f"{duration(self.plan.check_interval_ms)} until the next check, {duration(delay_ms)} as .deleted"
        )

    def _files(self) -> Iterator[str]:
        if self.files_removed:
            yield f"removed from disk: {_files(self.files_removed)} from earlier runs"
        if self.files_waiting:
            last_ms = max(file.deleted_ms for file in self.files_waiting) + self.plan.file_delete_delay_ms
            yield f"still on disk as .deleted: {_files(self.files_waiting)} from earlier runs, until {instant(last_ms)}"

    def _warnings(self) -> Iterator[str]:
        for warning in self.plan.warnings:
            yield f"warning: {warning}"


def _size(fates: Sequence[SegmentFate]) -> int:
    return sum(fate.segment.size for fate in fates)


def _extent(fates: Sequence[SegmentFate]) -> str:
    first, last = fates[0].segment.base_offset, fates[-1].segment.next_offset - 1
    offsets = f"offsets {first} to {last}" if first <= last else f"no offset before {first}"
    return f"{counted(len(fates), 'segment')}, {offsets}, {_size(fates):,} bytes"


def _files(files: Sequence[DeletedFile]) -> str:
    return f"{counted(len(files), 'file')}, {sum(file.size for file in files):,} bytes,"
