"""The protocol that replaces segments by new ones, and the recovery of a partition's directory after a crash.

New files are written as ``.cleaned``, then renamed to ``.swap`` from the last base offset down; the originals are
renamed to ``.deleted``, and the ``.swap`` files to their final names. Therefore a ``.swap`` is complete if no
``.cleaned`` with a base offset at or below its own exists; it then replaces every original whose base offset is within
its range. Only one swap is in progress at a time. :func:`swap_in` performs it.

:func:`plan_swaps` makes the same plan for the holder of the maintenance lock, which may finish a swap
(:func:`carry_out`), and for readers: applied to the names in a listing, it gives the segments that exist.

A compaction never drops a record from the middle of a log that the rest of it still needs, so a log whose first
segments are new and whose later ones are old is valid. The order of the steps leaves only logs of this kind, wherever
it is interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property

from ..filesystem.port import FileSystem
from ..format.files import file_names
from .collection import LogSegments
from .reader import SegmentReader
from .walk import LogContext
from .writer import LogSegment, mark_deleted

_ON_THEIR_WAY = (file_names.DELETED, file_names.CLEANED, file_names.SWAP)


@dataclass(frozen=True)
class SwapPlan:
    """The steps to finish or undo all unfinished swaps. The lists contain file names in the partition's directory."""

    undone: list[
        str
    ]  # .swap files of an unfinished swap: removed before its .cleaned files, which show it is unfinished
    deleted: list[str]  # to be removed: .cleaned, .deleted, and originals that a complete .swap replaces
    swapped_in: list[str]  # complete .swap files: to be renamed to the name without .swap
    kept: list[str]  # not to be changed

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to finish or undo."""
        return not (self.undone or self.deleted or self.swapped_in)

    @cached_property
    def kept_by_suffix(self) -> Mapping[str, set[int]]:
        """The base offsets in the names that stay unchanged, by suffix."""
        return file_names.by_suffix(self.kept)

    def segment_suffixes(self) -> dict[int, str]:
        """By the base offset of each segment, the suffix that its ``.log`` now has: ``""`` or ``.swap``."""
        logs = filter(_is_swapped_log, self.swapped_in)
        return dict.fromkeys(self.kept_by_suffix[file_names.LOG], "") | dict.fromkeys(
            map(file_names.offset_in, logs), file_names.SWAP
        )


def plan_swaps(listing: Sequence[str], next_offset: Callable[[int], int]) -> SwapPlan:
    """Returns the plan for the names in a listing of a partition's directory.

    ``next_offset(base)`` returns the offset after the last batch of the ``.log.swap`` with that base offset.
    """
    files = file_names.segment_files(listing)
    nothing_to_do = SwapPlan([], [], [], files)
    if not any(suffix.endswith(_ON_THEIR_WAY) for suffix in nothing_to_do.kept_by_suffix):
        return nothing_to_do
    first_cleaned = min(
        (file_names.offset_in(name) for name in files if name.endswith(file_names.CLEANED)), default=None
    )
    swaps = [name for name in files if name.endswith(file_names.SWAP)]
    swapped_in = [name for name in swaps if first_cleaned is None or file_names.offset_in(name) < first_cleaned]
    undone = [name for name in swaps if name not in swapped_in]
    bases = [file_names.offset_in(name) for name in filter(_is_swapped_log, swapped_in)]
    ends = [max(next_offset(base), base + 1) for base in bases]  # an empty one still replaces its own original
    replaced = range(min(bases), max(ends)) if bases else range(0)
    kept = [name for name in files if not name.endswith(_ON_THEIR_WAY) and file_names.offset_in(name) not in replaced]
    known = {*undone, *swapped_in, *kept}
    return SwapPlan(undone, [name for name in files if name not in known], swapped_in, kept)


def swap_plan(context: LogContext, listing: Sequence[str]) -> SwapPlan:
    """Returns how to finish or undo the swaps that ``listing``, the names in the partition's directory, shows."""

    def next_offset(base: int) -> int:
        with closing(SegmentReader(context, base, file_names.SWAP)) as segment:
            return segment.next_offset()

    return plan_swaps(listing, next_offset)


def carry_out(plan: SwapPlan, filesystem: FileSystem, directory: str) -> None:
    """Remove and rename as planned. Only for the holder of the maintenance lock.

    A crash may leave some ``.swap`` files of an unfinished swap removed while its ``.cleaned`` files still exist; or
    some of the files to delete removed while all complete ``.swap`` files exist; or some ``.swap`` files renamed. A
    plan made from any of these states leads to the same result. One sync at the end is enough, because a file system
    keeps the order of name changes within one directory.
    """
    for name in [*plan.undone, *plan.deleted]:
        filesystem.remove(file_names.join(directory, name))
    for name in plan.swapped_in:
        filesystem.rename(
            file_names.join(directory, name), file_names.join(directory, name.removesuffix(file_names.SWAP))
        )
    if not plan.is_empty:
        filesystem.sync_directory(directory)


def is_waiting(deleted_ms: int, now_ms: int, delay_ms: int) -> bool:
    """Whether a ``.deleted`` file must be kept: it was renamed less than ``file.delete.delay.ms`` ago.

    ``deleted_ms`` is the modification time of the file, which is set before the rename. If it is in the future, a
    broker wrote the file or the clock was set back; such a file need not be kept, as when a broker starts.
    """
    return 0 <= now_ms - deleted_ms < delay_ms


def swap_in(
    context: LogContext, segments: LogSegments, new: Sequence[LogSegment], reach: int, replaced: Container[int]
) -> list[LogSegment]:
    """Replace the segments whose base offsets are in ``replaced`` by ``new``, which are ``.cleaned`` and synced.

    ``reach`` is the offset after the last batch of ``new``, or after the base offset of its last segment if that is
    empty. ``segments`` are those of the log, as yielded by :meth:`WritableLog.replacing_segments`: the caller maintains
    the log, and appends wait. Returns the old segments, all ``.deleted``.

    Steps, and what a log opened after a crash consists of:

    1. Rename ``.cleaned`` to ``.swap``, from the last base offset down. While a ``.cleaned`` exists: the old segments.
       After that and after every later step: the new segments as far as they reach, and the old ones above.
    2. Rename the old segments that the new ones reach to ``.deleted``.
    3. Rename ``.swap`` to the final names, ascending.
    4. Rename old segments above to ``.deleted``, ascending, and the snapshots of all removed segments.

    Syncs the directory after each rename that must not be lost alone.
    """
    old = [segment for segment in segments if segment.base_offset in replaced]
    for segment in reversed(new):
        segment.change_suffix(file_names.SWAP)
        context.filesystem.sync_directory(context.directory)
    for segment in old:
        if segment.base_offset < reach:
            segment.mark_deleted()
    context.filesystem.sync_directory(context.directory)
    for segment in new:
        segment.change_suffix("")
    context.filesystem.sync_directory(context.directory)
    for segment in old:
        if segment.base_offset >= reach:
            segment.mark_deleted()
            context.filesystem.sync_directory(context.directory)
        segments.remove(segment)
    for segment in new:
        segments.add(segment)
    _mark_snapshots_deleted(
        context, {segment.base_offset for segment in old} - {segment.base_offset for segment in new}
    )
    return old


def _is_swapped_log(name: str) -> bool:
    return name.endswith(file_names.LOG + file_names.SWAP)


def _mark_snapshots_deleted(context: LogContext, base_offsets: set[int]) -> None:
    """Delete the snapshots at these base offsets: without one, loading the log at most reads more batches."""
    for base_offset in base_offsets:
        path = file_names.join(context.directory, file_names.segment_file(base_offset, file_names.SNAPSHOT))
        if context.config.file_delete_delay_ms:
            mark_deleted(context, path)
        else:
            context.filesystem.remove(path)
