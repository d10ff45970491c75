"""What the suffixes in a partition's directory mean after a crash, or while a compaction works (spec 9.2, 12.8).

A swap replaces segments by new ones: the new files are written as ``.cleaned``, renamed to ``.swap`` from the last base
offset down, the originals renamed to ``.deleted``, and the ``.swap`` files renamed to their final names. So a ``.swap``
is complete if no ``.cleaned`` with a base offset at or below its own is left, and then stands for every original whose
base offset lies within it.

The same plan serves both who may finish a swap, the holder of the maintenance lock, and who only looks: applied to the
names in a listing, it tells which segments there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pyspark_commitlog.storage.filesystem import FileSystem
from pyspark_commitlog.storage.format import names


class SwapPlan(NamedTuple):
    """What finishing or undoing everything unfinished comes to; names are file names in the partition's directory."""

    deleted: list[str]
    swapped_in: list[str]  # ends with .swap; the final name lacks it
    left: list[str]  # untouched

    def segment_suffixes(self) -> dict[int, str]:
        """Base offset of each segment, and the suffix under which its ``.log`` lies now: ``""`` or ``.swap``."""
        found = {_base(name): "" for name in self.left if name.endswith(names.LOG)}
        found.update({_base(name): names.SWAP for name in self.swapped_in if name.endswith(names.LOG + names.SWAP)})
        return found


def plan_swaps(listing: Sequence[str], next_offset: Callable[[int], int]) -> SwapPlan:
    """Sort the names of a listing; ``next_offset(base)`` tells where the ``.log.swap`` with that base offset ends."""
    files = [name for name in listing if names.base_offset_of(name) is not None]
    first_cleaned = min((_base(name) for name in files if name.endswith(names.CLEANED)), default=None)

    def is_swapped_in(name: str) -> bool:
        return name.endswith(names.SWAP) and (first_cleaned is None or _base(name) < first_cleaned)

    swapped_in = [name for name in files if is_swapped_in(name)]
    bases = [_base(name) for name in swapped_in if name.endswith(names.LOG + names.SWAP)]
    low, high = min(bases, default=0), max(map(next_offset, bases), default=0)
    unfinished = (names.DELETED, names.CLEANED, names.SWAP)
    deleted = [
        name for name in files if name not in swapped_in and (name.endswith(unfinished) or low <= _base(name) < high)
    ]
    gone = {*deleted, *swapped_in}
    return SwapPlan(deleted, swapped_in, [name for name in files if name not in gone])


def carry_out(plan: SwapPlan, filesystem: FileSystem, directory: str) -> None:
    """Remove and rename as planned. Only for the holder of the maintenance lock.

    On disk after a crash: fewer originals, or some ``.swap`` files under their final names; the plan made of what is
    then there comes to the same end, since no original goes before its replacement is complete.
    """
    for name in plan.deleted:
        filesystem.remove(names.join(directory, name))
    for name in plan.swapped_in:
        filesystem.rename(names.join(directory, name), names.join(directory, name.removesuffix(names.SWAP)))
    if plan.deleted or plan.swapped_in:
        filesystem.sync_directory(directory)


def _base(name: str) -> int:
    base = names.base_offset_of(name)
    assert base is not None, name
    return base
