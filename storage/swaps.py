"""What the suffixes in a partition's directory mean after a crash, or while a compaction works (spec 9.2, 12.8).

A swap replaces segments by new ones: the new files are written as ``.cleaned``, renamed to ``.swap`` from the last base
offset down, the originals renamed to ``.deleted``, and the ``.swap`` files renamed to their final names. So a ``.swap``
is complete if no ``.cleaned`` with a base offset at or below its own is left, and then stands for every original whose
base offset lies within it. One swap at a time is under way.

The same plan serves both who may finish a swap, the holder of the maintenance lock, and who only looks: applied to the
names in a listing, it tells which segments there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark_commitlog.storage.filesystem import FileSystem
from pyspark_commitlog.storage.format import names

_ON_THEIR_WAY = (names.DELETED, names.CLEANED, names.SWAP)


@dataclass(frozen=True)
class SwapPlan:
    """What finishing or undoing everything unfinished comes to; names are file names in the partition's directory."""

    undone: list[str]  # .swap of an operation that was not finished: to be removed before the .cleaned that say so
    deleted: list[str]  # left-overs, and originals that a finished .swap stands for
    swapped_in: list[str]  # ends with .swap; the final name lacks it
    left: list[str]  # untouched

    @property
    def is_empty(self) -> bool:
        """Whether nothing is unfinished."""
        return not (self.undone or self.deleted or self.swapped_in)

    @cached_property
    def left_by_suffix(self) -> Mapping[str, set[int]]:
        """The base offsets in the names that are left untouched."""
        return names.by_suffix(self.left)

    def segment_suffixes(self) -> dict[int, str]:
        """Base offset of each segment, and the suffix under which its ``.log`` lies now: ``""`` or ``.swap``."""
        logs = filter(_is_swapped_log, self.swapped_in)
        return dict.fromkeys(self.left_by_suffix[names.LOG], "") | dict.fromkeys(map(names.offset_in, logs), names.SWAP)


def plan_swaps(listing: Sequence[str], next_offset: Callable[[int], int]) -> SwapPlan:
    """Sort the names of a listing; ``next_offset(base)`` tells where the ``.log.swap`` with that base offset ends."""
    files = names.segment_files(listing)
    nothing_to_do = SwapPlan([], [], [], files)
    if not any(suffix.endswith(_ON_THEIR_WAY) for suffix in nothing_to_do.left_by_suffix):
        return nothing_to_do
    first_cleaned = min((names.offset_in(name) for name in files if name.endswith(names.CLEANED)), default=None)
    swaps = [name for name in files if name.endswith(names.SWAP)]
    swapped_in = [name for name in swaps if first_cleaned is None or names.offset_in(name) < first_cleaned]
    undone = [name for name in swaps if name not in swapped_in]
    bases = [names.offset_in(name) for name in filter(_is_swapped_log, swapped_in)]
    ends = [max(next_offset(base), base + 1) for base in bases]  # an emptied one still stands for its own original
    replaced = range(min(bases), max(ends)) if bases else range(0)
    left = [name for name in files if not name.endswith(_ON_THEIR_WAY) and names.offset_in(name) not in replaced]
    gone = {*undone, *swapped_in, *left}
    return SwapPlan(undone, [name for name in files if name not in gone], swapped_in, left)


def carry_out(plan: SwapPlan, filesystem: FileSystem, directory: str) -> None:
    """Remove and rename as planned. Only for the holder of the maintenance lock.

    On disk after a crash: fewer ``.swap`` files of an unfinished operation, its ``.cleaned`` still there to say so; or
    fewer originals and left-overs, the finished ``.swap`` all there; or some of those under their final names. The plan
    made of what is then there comes to the same end. A file system keeps the changes of one directory's names in their
    order, so one sync at the end is enough.
    """
    for name in [*plan.undone, *plan.deleted]:
        filesystem.remove(names.join(directory, name))
    for name in plan.swapped_in:
        filesystem.rename(names.join(directory, name), names.join(directory, name.removesuffix(names.SWAP)))
    if not plan.is_empty:
        filesystem.sync_directory(directory)


def is_waiting(deleted_ms: int, now_ms: int, delay_ms: int) -> bool:
    """Whether a ``.deleted`` file is still to be left alone: it was renamed less than ``file.delete.delay.ms`` ago.

    Its time of modification tells, which is set before the renaming. A time to come is none that was set: a broker's
    file, or a clock that went back, and such files go, as they do when a broker starts.
    """
    return 0 <= now_ms - deleted_ms < delay_ms


def _is_swapped_log(name: str) -> bool:
    return name.endswith(names.LOG + names.SWAP)
