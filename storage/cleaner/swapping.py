"""How new segments take the place of old ones (spec 12.8; what is found after a crash is storage/swaps.py's).

Compaction has dropped nothing from the middle of a log that its rest still needs, so a log whose first segments are new
and whose later ones are old is as good as either; the order below leaves nothing else behind, wherever it ends.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from pyspark_commitlog.storage.format import names
from pyspark_commitlog.storage.segment import LogSegment, give_up_file
from pyspark_commitlog.storage.segment_list import LogSegments
from pyspark_commitlog.storage.segment_reader import LogContext


def swap_in(
    context: LogContext, segments: LogSegments, new: Sequence[LogSegment], reach: int, replaced: Container[int]
) -> list[LogSegment]:
    """Replace the segments whose base offsets are ``replaced`` by ``new``, which are ``.cleaned`` and synced.

    ``reach`` is the offset behind the last batch of ``new``, or behind the base offset of the last one, if it is empty.
    ``segments`` are those of the log, as :meth:`SharedLog.replacing_segments` yields them: the caller is maintaining
    the log, and appends wait. Returns the old ones, all ``.deleted``. On disk after a crash that follows each step:

    1. ``.cleaned`` renamed to ``.swap``, from the last base offset down: with a ``.cleaned`` left, the old segments;
       then, for every later step, the new ones wherever they reach, and the old ones behind.
    2. the old segments that the new ones reach renamed to ``.deleted``.
    3. ``.swap`` renamed to the final names, ascending.
    4. old segments behind what is left renamed to ``.deleted``, ascending, and the snapshots of all that are gone.

    The directory is synced after each of these names that must not be lost alone.
    """
    old = [segment for segment in segments if segment.base_offset in replaced]
    for segment in reversed(new):
        segment.change_suffix(names.SWAP)
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
    """Snapshots belong to the bases of segments; losing one costs a longer replay at most."""
    for base_offset in base_offsets:
        path = names.join(context.directory, names.segment_file(base_offset, names.SNAPSHOT))
        if context.config.file_delete_delay_ms:
            give_up_file(context, path)
        else:
            context.filesystem.remove(path)
