"""How new segments take the place of old ones (spec 12.8; what is found after a crash is storage/swaps.py's).

Compaction has dropped nothing from the middle of a log that its rest still needs, so a log whose first segments are new
and whose later ones are old is as good as either; the order below leaves nothing else behind, wherever it ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark_commitlog.storage.filesystem import FileStatus
from pyspark_commitlog.storage.format import names
from pyspark_commitlog.storage.log import Log
from pyspark_commitlog.storage.segment import LogSegment, give_up_file
from pyspark_commitlog.storage.segment_reader import LogContext


def swap_in(log: Log, new: Sequence[LogSegment], found: Mapping[int, FileStatus]) -> None:
    """Replace the segments whose base offsets are in ``found`` by ``new``, which are ``.cleaned`` and synced.

    The caller is maintaining the log; appends wait. On disk after a crash that follows each step:

    1. ``.cleaned`` renamed to ``.swap``, from the last base offset down: with a ``.cleaned`` left, the old segments;
       then, for every later step, the new ones wherever they reach, and the old ones behind.
    2. the old segments that the new ones reach renamed to ``.deleted``.
    3. ``.swap`` renamed to the final names, ascending.
    4. old segments behind what is left renamed to ``.deleted``, ascending, and the snapshots of all that are gone.

    The directory is synced after each of these names that must not be lost alone. Raises StorageError, with nothing
    replaced, where another process has cut the log meanwhile.
    """
    context = log.context
    reach = max(max(segment.next_offset(), segment.base_offset + 1) for segment in new)
    with log.replacing_segments(found) as segments:
        old = [segment for segment in segments if segment.base_offset in found]
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
        _give_up_snapshots(context, {*found} - {segment.base_offset for segment in new})
    if not context.config.file_delete_delay_ms:
        for segment in old:
            segment.remove_files()


def _give_up_snapshots(context: LogContext, base_offsets: set[int]) -> None:
    """Snapshots belong to the bases of segments; losing one costs a longer replay at most."""
    for base_offset in base_offsets:
        path = names.join(context.directory, names.segment_file(base_offset, names.SNAPSHOT))
        if context.config.file_delete_delay_ms:
            give_up_file(context, path)
        else:
            context.filesystem.remove(path)
