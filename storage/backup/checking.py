"""Reads every byte of a backup back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
            yield Problem(str(error), (each.name,), ())
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
            if damage is not None:
                yield _problem(damage, piece, cuts)


def _problem(error: CorruptionError, piece: Piece, cuts: list[Cut]) -> Problem:
    needing = [cut for cut in cuts if piece in cut.pieces]
    files = tuple(path for path, file in needing[-1].files.items() if piece in file.pieces)
    return Problem(str(error), tuple(cut.name for cut in needing), files)
