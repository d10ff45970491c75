"""What the suffixes in a partition's directory mean after a crash or during a compaction.

A swap replaces segments by new ones: the new files are written as ``.cleaned``, then renamed to ``.swap`` from the last
base offset down; the originals are renamed to ``.deleted``, and the ``.swap`` files to their final names. Therefore a
``.swap`` is complete if no ``.cleaned`` with a base offset at or below its own exists; it then replaces every original
whose base offset is within its range. Only one swap is in progress at a time.

The same plan serves the holder of the maintenance lock, who may finish a swap, and readers: applied to the names in a
listing, it gives the segments that exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..filesystem import FileSystem
from ..format.files import file_names

_ON_THEIR_WAY = (file_names.DELETED, file_names.CLEANED, file_names.SWAP)


@dataclass(frozen=True)
class SwapPlan:
    """How to finish or undo everything unfinished; names are file names in the partition's directory."""

    undone: list[str]  # .swap files of an unfinished operation: to be removed before the .cleaned that mark it
    deleted: list[str]  # leftovers, and originals that a finished .swap replaces
    swapped_in: list[str]  # end with .swap; the final name lacks it
    left: list[str]  # unchanged

    @property
    def is_empty(self) -> bool:
        """Whether nothing is unfinished."""
        return not (self.undone or self.deleted or self.swapped_in)

    @cached_property
    def left_by_suffix(self) -> Mapping[str, set[int]]:
        """The base offsets in the names that stay unchanged, by suffix."""
        return file_names.by_suffix(self.left)

    def segment_suffixes(self) -> dict[int, str]:
        """Base offset of each segment, and the present suffix of its ``.log``: ``""`` or ``.swap``."""
        logs = filter(_is_swapped_log, self.swapped_in)
        return dict.fromkeys(self.left_by_suffix[file_names.LOG], "") | dict.fromkeys(
            map(file_names.offset_in, logs), file_names.SWAP
        )


def plan_swaps(listing: Sequence[str], next_offset: Callable[[int], int]) -> SwapPlan:
    """Classify the names of a listing; ``next_offset(base)`` is the end of the ``.log.swap`` with that base offset."""
    files = file_names.segment_files(listing)
    nothing_to_do = SwapPlan([], [], [], files)
    if not any(suffix.endswith(_ON_THEIR_WAY) for suffix in nothing_to_do.left_by_suffix):
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
    left = [name for name in files if not name.endswith(_ON_THEIR_WAY) and file_names.offset_in(name) not in replaced]
    gone = {*undone, *swapped_in, *left}
    return SwapPlan(undone, [name for name in files if name not in gone], swapped_in, left)


def carry_out(plan: SwapPlan, filesystem: FileSystem, directory: str) -> None:
    """Remove and rename as planned. Only for the holder of the maintenance lock.

    After a crash, there are fewer ``.swap`` files of an unfinished operation, still marked by its ``.cleaned``; or
    fewer originals and leftovers, with the finished ``.swap`` files complete; or some of these have their final names.
    A plan made from any of these states leads to the same result. One sync at the end is enough, because a file system
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

    Uses its modification time, which is set before the rename. A time in the future was not set by us: it is a broker's
    file, or the clock went back. Such files are removed, as when a broker starts.
    """
    return 0 <= now_ms - deleted_ms < delay_ms


def _is_swapped_log(name: str) -> bool:
    return name.endswith(file_names.LOG + file_names.SWAP)
