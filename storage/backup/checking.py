"""Reads every byte of a backup back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from typing import NamedTuple

from ..errors import CorruptionError
from ..prefetch import in_order
from .cuts import Cut, Piece, list_cuts, read_cut
from .places import BackupPlace
from .restoring import READ_AHEAD, read_piece


class Problem(NamedTuple):
    """A damaged or missing part of a backup."""

    what: str  # with the file
    cuts: tuple[str, ...]  # the cuts that need it
    files: tuple[str, ...]  # of the newest of these


def verify_backup(place: BackupPlace, note_read: Callable[[int], None] = lambda _: None) -> Iterator[Problem]:
    """Reads all lists and all pieces that they name, and yields damaged or missing ones.

    ``note_read`` is called with the bytes of each piece. Raises ObjectStoreError and OSError.
    """
    cuts: list[Cut] = []
    for each in list_cuts(place):
        try:
            cuts.append(read_cut(place, each.name))
        except (CorruptionError, ValueError, KeyError, TypeError) as error:
            if still_there := _still_there(place, [each.name]):
                yield Problem(str(error), still_there, ())
    pieces = sorted({piece for cut in cuts for piece in cut.pieces})

    def read(piece: Piece) -> tuple[Piece, CorruptionError | None]:
        try:
            read_piece(place, piece)
        except CorruptionError as error:
            return piece, error
        return piece, None

    with closing(in_order(read, pieces, READ_AHEAD)) as results:
        for piece, damage in results:
            note_read(piece.size)
            if damage is None:
                continue
            needing = {cut.name: cut for cut in cuts if piece in cut.pieces}
            if still_there := _still_there(place, needing):
                newest = needing[still_there[-1]]
                files = tuple(path for path, file in newest.files.items() if piece in file.pieces)
                yield Problem(str(damage), still_there, files)


def _still_there(place: BackupPlace, names: Collection[str]) -> tuple[str, ...]:
    """Returns the cuts that were not deleted by another process in the meantime, oldest first."""
    return tuple(each.name for each in list_cuts(place) if each.name in names)
