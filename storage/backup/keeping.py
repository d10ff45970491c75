"""Which backups are kept, and the deletion of the others.

The lists of deleted backups are removed first, then the pieces that no list names. If the process is killed in between,
the next run deletes the remaining pieces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, Self

from ..errors import InvalidConfigError
from .cuts import OBJECTS, CutName, file_of, list_cuts, read_cut
from .places import BackupPlace

_PERIODS: dict[str, Callable[[datetime], object]] = {
    "last": lambda moment: moment,
    "hourly": lambda moment: (moment.date(), moment.hour),
    "daily": lambda moment: moment.date(),
    "weekly": lambda moment: moment.isocalendar()[:2],
    "monthly": lambda moment: (moment.year, moment.month),
}
_PART = re.compile(rf"({'|'.join(_PERIODS)})=([0-9]{{1,6}})")


@dataclass(frozen=True)
class KeepRule:
    """The rule for keeping backups: the newest one of each of the last N hours, days, and so on, in UTC."""

    counts: dict[str, int]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads ``hourly=24,daily=7,weekly=4``. Raises InvalidConfigError."""
        counts: dict[str, int] = {}
        for part in text.split(","):
            found = _PART.fullmatch(part.strip())
            if found is None or found[1] in counts:
                names = ", ".join(f"{each}=N" for each in _PERIODS)
                raise InvalidConfigError(f"--keep {part!r}: must be some of {names}, each once, separated by commas")
            counts[found[1]] = int(found[2])
        return cls(counts)

    def choose(self, cuts: Sequence[CutName]) -> list[CutName]:
        """Returns the cuts to keep, of those in ``cuts``, which ascend; the newest is always one of them."""
        kept = set(cuts[-1:])
        for period, count in self.counts.items():
            newest: dict[object, CutName] = {}
            for cut in cuts:
                newest[_PERIODS[period](datetime.fromtimestamp(cut.taken_at_ms / 1000, UTC))] = cut
            kept |= {*sorted(newest.values())[-count:]} if count else set()
        return sorted(kept)


class Pruned(NamedTuple):
    """The files that were deleted, or would be."""

    cuts: int
    objects: int
    bytes: int


def prune_backup(place: BackupPlace, keep: KeepRule, taken: str | None = None, *, dry_run: bool = False) -> Pruned:
    """Deletes the backups that ``keep`` does not choose, and pieces that no other one needs.

    ``taken``: the name of the one just taken, which stays, although by a wrong clock others may have later times. Call
    it within ``place.locked()``. Raises CorruptionError, and deletes no piece, if a kept list is damaged, because
    its pieces are not known.
    """
    cuts = list_cuts(place)
    kept = {*keep.choose(cuts), *(each for each in cuts if each.name == taken)}
    needed = {piece.name for each in kept for piece in read_cut(place, each.name).pieces}
    gone = [file_of(each.name) for each in cuts if each not in kept]
    garbage = [each for each in place.list_abandoned(OBJECTS) if each.name not in needed]
    if not dry_run:
        place.delete(gone)
        place.delete([each.name for each in garbage])
    return Pruned(len(gone), len(garbage), sum(each.size for each in garbage))
