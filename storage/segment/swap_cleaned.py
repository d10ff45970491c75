"""Replaces old segments by new ones (storage/segment/swap.py cleans up after a crash).

A compaction never drops from the middle of a log what the rest of it still needs, so a log whose first segments are new
and whose later ones are old is valid. The order of steps below leaves only logs of this kind, wherever it is
interrupted.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from ..format.files import file_names
from .collection import LogSegments
from .reader import LogContext
from .writer import LogSegment, give_up_file


def swap_in(
    context: LogContext, segments: LogSegments, new: Sequence[LogSegment], reach: int, replaced: Container[int]
) -> list[LogSegment]:
    """Replace the segments whose base offsets are in ``replaced`` by ``new``, which are ``.cleaned`` and synced.

    ``reach`` is the offset after the last batch of ``new``, or after the base offset of its last segment if that is
    empty. ``segments`` are those of the log, as yielded by :meth:`SharedLog.replacing_segments`: the caller maintains
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
            segment.give_up()
    context.filesystem.sync_directory(context.directory)
    for segment in new:
        segment.change_suffix("")
    context.filesystem.sync_directory(context.directory)
    for segment in old:
        if segment.base_offset >= reach:
            segment.give_up()
            context.filesystem.sync_directory(context.directory)
        segments.remove(segment)
    for segment in new:
        segments.add(segment)
    _give_up_snapshots(context, {segment.base_offset for segment in old} - {segment.base_offset for segment in new})
    return old


def _give_up_snapshots(context: LogContext, base_offsets: set[int]) -> None:
    """Remove the snapshots at these base offsets; losing one costs at most a longer replay."""
    for base_offset in base_offsets:
        path = file_names.join(context.directory, file_names.segment_file(base_offset, file_names.SNAPSHOT))
        if context.config.file_delete_delay_ms:
            give_up_file(context, path)
        else:
            context.filesystem.remove(path)
