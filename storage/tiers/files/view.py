"""PartitionView: the segments of a tier in a partition, as files of a log directory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from ...bucket.files.open_files import MadeBytes, ObjectBytes
from ...format.files import checkpoints, file_names as names
from ...format.files.checkpoints import EpochEntry
from ...format.files.index_entries import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    decode_aborted,
    decode_offset_entries,
    decode_time_entries,
    encode_aborted,
)
from ..choosing import Piece
from ..metadata_records import TopicIdPartition
from ..port import Tier
from ..segment_end import position_reaching

SHOWN = (names.LOG, names.INDEX, names.TIME_INDEX, names.TXN_INDEX)


@dataclass(frozen=True)
class PartitionView:
    """The files that a tier adds to a partition's directory, below ``stop``; they do not change."""

    tier: Tier
    partition: TopicIdPartition
    pieces: dict[int, Piece]  # by start offset, ascending
    stop: int | None  # where the local segments begin; None: there are none
    log_start: int
    epochs: tuple[EpochEntry, ...] = ()  # the epochs of the log; shown if there is no local directory
    _sizes: dict[int, int] = field(default_factory=dict)  # of pieces that are cut

    @cached_property
    def snapshots(self) -> dict[int, Piece]:
        """The producer snapshots by offset; each belongs to the end of a whole segment."""
        return {
            piece.next_offset: piece
            for piece in self.pieces.values()
            if not piece.is_cut and names.SNAPSHOT in piece.segment.kinds
        }

    def names(self) -> Iterable[str]:
        """Yields the names of its files."""
        for base, piece in self.pieces.items():
            yield from (names.segment_file(base, kind) for kind in SHOWN if kind in (names.LOG, *piece.segment.kinds))
        if self.stop is None:
            yield from (names.segment_file(offset, names.SNAPSHOT) for offset in self.snapshots)

    def has(self, name: str) -> bool:
        """Whether a file with this name could belong to one of its segments; the file need not exist."""
        return self.piece_of(name) is not None

    def piece_of(self, name: str) -> Piece | None:
        """Returns the piece that a file name belongs to; None for other files, and for local snapshots."""
        base, kind = names.base_offset_of(name), name[names.OFFSET_DIGITS :]
        if base is not None and kind == names.SNAPSHOT and self.stop is None:
            return self.snapshots.get(base)
        return self.pieces.get(base) if base is not None and kind in SHOWN else None

    def object_name(self, name: str) -> str | None:
        """Returns the name of the object with a segment's file, with the tier's URL; None for other files."""
        piece = self.piece_of(name)
        if piece is None:
            return None
        return f"{self.tier.url}/{piece.segment.name.removesuffix(names.LOG)}{name[names.OFFSET_DIGITS :]}"

    def size(self, name: str) -> int | None:
        """Returns the bytes of a file; None if there is none."""
        base, kind = names.offset_in(name), name[names.OFFSET_DIGITS :]
        if kind == names.LOG and base in self.pieces:
            return self._log_size(base)
        data = self.small(name)
        return None if data is None else len(data)

    def content(self, base: int) -> ObjectBytes:
        """Returns the bytes of a ``.log``, including those after its cut."""
        return self.tier.content(self.pieces[base].segment)

    def small(self, name: str) -> bytes | None:
        """Returns the content of a file other than a ``.log``; None if there is none."""
        base, kind = names.offset_in(name), name[names.OFFSET_DIGITS :]
        if kind == names.SNAPSHOT:
            found = self.snapshots.get(base)
            return None if found is None else self.tier.beside(found.segment, kind)
        if base not in self.pieces or kind not in SHOWN:
            return None
        piece = self.pieces[base]
        data = self.tier.beside(piece.segment, kind)
        return self._cut(piece, kind, data) if data and piece.is_cut else data

    def _log_size(self, base: int) -> int:
        piece = self.pieces[base]
        if not piece.is_cut:
            return piece.segment.size
        if base not in self._sizes:
            self._sizes[base] = self._cut_position(piece)
        return self._sizes[base]

    def _cut_position(self, piece: Piece) -> int:
        """Returns the position of the first batch that reaches the next segment."""
        segment, index = piece.segment, self.tier.beside(piece.segment, names.INDEX) or b""
        offsets, positions = decode_offset_entries(segment.start_offset, index)
        before = positions[(offsets < piece.next_offset) & (positions < segment.size)]
        path = f"{self.tier.url}/{segment.name}"
        from_ = int(before.max(initial=0))
        return position_reaching(
            path, lambda at, length: self.tier.read(segment, at, length), from_, segment.size, piece.next_offset
        )

    def _cut(self, piece: Piece, kind: str, data: bytes) -> bytes:
        """Returns the entries of an index for batches before the cut."""
        base = piece.segment.start_offset
        if kind == names.INDEX:
            _, positions = decode_offset_entries(base, data)
            return data[: int((positions < self._log_size(base)).sum()) * OFFSET_ENTRY.itemsize]
        if kind == names.TIME_INDEX:
            _, offsets = decode_time_entries(base, data)
            return data[: int((offsets < piece.next_offset).sum()) * TIME_ENTRY.itemsize]
        return encode_aborted([each for each in decode_aborted(data) if each.last_offset < piece.next_offset])

    def epochs_file(self) -> bytes:
        """Returns ``leader-epoch-checkpoint``."""
        return checkpoints.encode_leader_epochs(self.epochs)


def made(data: bytes) -> tuple[int, MadeBytes]:
    """Returns size and content of a file in memory."""
    return len(data), MadeBytes(data)
