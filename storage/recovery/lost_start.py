"""Finds traces of lost first segments of a log: an index below the first segment, without its ``.log``.

Deleting a segment removes its ``.log`` first, so a crash may leave such an index too. Then the ``.log`` is there with
the suffix ``.deleted``, or the checkpoint has a log start above: only an index that neither explains is a trace.
If the indexes are lost too, the leader epochs are a weaker trace, which verification, copies and messages use, and
which writers keep.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import MissingSegmentError
from ..filesystem.operations import holds_from_log_start, is_zero
from ..filesystem.port import MadeFileSystem
from ..format.files import file_names
from ..format.files.checkpoints import EpochEntry
from ..segment.swap import SwapPlan
from ..segment.walk import FILE_KINDS, LogContext


def find_lost_start(context: LogContext, listing: Iterable[str], plan: SwapPlan, log_start_offset: int) -> range | None:
    """Returns the offsets below the first segment that were lost, or deleted by retention without its checkpoint.

    None if nothing shows that there were any. ``log_start_offset``: as in the checkpoint, 0 if it has none.
    """
    bases = plan.segment_suffixes()
    first = min(bases, default=0)
    if first <= log_start_offset:
        return None
    if holds_from_log_start(context.filesystem, context.directory):
        return range(log_start_offset, first)
    names = {*listing}
    traces = sorted(
        base
        for base in {base for kind in FILE_KINDS[1:] for base in plan.kept_by_suffix[kind]}
        if base < first and file_names.segment_file(base, file_names.LOG) + file_names.DELETED not in names
    )
    found = next((base for base in traces if _has_entries(context, base)), None)
    return None if found is None else range(max(found, log_start_offset), first)


def lost_by_epochs(
    context: LogContext, first: int, epochs: Sequence[EpochEntry], log_start_offset: int
) -> range | None:
    """Returns the offsets that leader epochs have below the first segment, at ``first``.

    Deleting records raises the epochs, too.

    None if there are none, if files there wait for their removal, because retention has just run, or if this is not a
    directory. A broker's tier may have these records.
    """
    start = max(min((entry.start_offset for entry in epochs), default=first), log_start_offset)
    if start >= first or isinstance(context.filesystem, MadeFileSystem):  # a tier has the epochs of an earlier time
        return None
    names = context.filesystem.list(context.directory)
    deleted = [name for name in names if name.endswith(file_names.LOG + file_names.DELETED)]
    return None if any(file_names.offset_in(name) < first for name in deleted) else range(start, first)


def lost_start_text(context: LogContext, lost: range) -> str:
    """Returns the sentence about offsets that :func:`find_lost_start` has found."""
    if holds_from_log_start(context.filesystem, context.directory):
        return f"records {lost.start} to {lost.stop - 1} are in no segment, here or in the tier"
    return (
        f"records {lost.start} to {lost.stop - 1} are gone, and only an index is there: damage, or retention without "
        "its checkpoint"
    )


def lost_by_epochs_text(lost: range, epochs: Sequence[EpochEntry]) -> str:
    """Returns the sentence about offsets that :func:`lost_by_epochs` has found."""
    return (
        f"records {lost.start} to {lost.stop - 1} are in no segment, but leader epoch {epochs[0].epoch} begins at "
        f"offset {lost.start}: damage, or retention without its checkpoint"
    )


def lost_start_error(context: LogContext, lost: range, text: str) -> MissingSegmentError:
    """Returns the error about offsets that were found to be lost in a partition; ``text``: the sentence about them."""
    error = MissingSegmentError(
        f"{text}; restore the files of these segments, or, if the records were deleted, "
        f"state it by commitlog delete-records up to offset {lost.stop}",
        path=context.directory,
    )
    error.skipped_offsets = lost.start, lost.stop - 1
    return error


def _has_entries(context: LogContext, base: int) -> bool:
    """Whether an index of a segment has entries: a segment without records has none."""
    return any(_has_content(context, file_names.segment_file(base, kind)) for kind in FILE_KINDS[1:])


def _has_content(context: LogContext, name: str) -> bool:
    try:
        with context.filesystem.open(file_names.join(context.directory, name), "read") as file:
            return not is_zero(file, 0, file.size())
    except FileNotFoundError:
        return False
