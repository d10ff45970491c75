"""Walk: reads the batches of a segment's log and continues after damage, with sound batches and damaged ranges.

The checksum of a batch does not cover its length and offset, so the length of a damaged batch is trusted only if a
sound batch begins at its end. Otherwise, the walk searches for the next position where a sound batch begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .. import format as formats
from ..bytes_read import counted
from ..filesystem.port import File
from ..format import StopReason
from ..format.constants import LOG_OVERHEAD
from ..format.tables import BatchHeaders, Bytes
from ..segment.resync import Search, length_at
from ..segment.walk import WINDOW_BYTES, Window
from .findings import Kind


class Damage(NamedTuple):
    """A range in which no sound batch begins."""

    kind: Kind
    position: int
    end: int
    what: str


class Tail(NamedTuple):
    """The bytes after the last sound batch of a file: torn, being written, or damaged."""

    damage: Damage


class Walk:
    """Goes through the first ``end`` bytes of a log: sound batches, and the damage between them."""

    def __init__(self, file: File, base_offset: int, end: int) -> None:
        self._file = file
        self._base_offset = base_offset
        self._end = end

    def __iter__(self) -> Iterator[Window | Damage | Tail]:
        """Yields windows of sound batches and ranges of damage, in file order; a Tail, if there is one, comes last.

        Every window holds at least one batch.
        """
        position = 0
        while position < self._end:
            window, fault = self._read(position)
            if len(window.headers):
                yield window
                position = window.position + window.headers.end
            if fault is None:
                continue
            resume_at = self._resume_after(fault)
            damage = fault._replace(end=self._end if resume_at is None else resume_at)
            if resume_at is None:
                yield Tail(damage)
                return
            yield damage
            position = resume_at

    def _read(self, position: int) -> tuple[Window, Damage | None]:
        """Reads about :data:`WINDOW_BYTES` from ``position`` on; returns the sound batches up to the first fault.

        The second result is that fault; None if all batches read are sound.
        """
        wanted = WINDOW_BYTES
        while True:
            buffer = self._bytes(position, min(wanted, self._end - position))
            if len(buffer) < min(wanted, self._end - position):
                self._end = position + len(buffer)  # truncated in the meantime, by a writer that recovered
            scan = formats.scan(buffer)
            is_short = scan.reason == StopReason.TRUNCATED and position + len(buffer) < self._end
            if len(scan.headers) or not is_short:
                break
            wanted = max(2 * wanted, length_at(buffer, 0) + LOG_OVERHEAD)
        sound = formats.checksums_match(buffer, scan.headers)
        good = len(sound) if sound.all() else int(np.argmin(sound))
        window = Window(position, buffer, scan.headers[:good])
        if good < len(sound):
            return window, self._bad_checksum(window, scan.headers[good : good + 1])
        if scan.reason == StopReason.END or is_short:
            return window, None
        return window, self._stopped(position, scan, buffer)

    def _bad_checksum(self, window: Window, batch: BatchHeaders) -> Damage:
        row, found = batch.table[0], int(formats.checksums_of(window.buffer, batch)[0])
        begin = window.position + int(row["position"])
        what = f"a batch of {row['size']} bytes: {formats.checksum_text(found, int(row['crc']))}"
        return Damage(Kind.BAD_CHECKSUM, begin, begin + int(row["size"]), what)

    def _stopped(self, position: int, scan: formats.Scan, buffer: Bytes) -> Damage:
        begin = position + scan.end
        if scan.reason == StopReason.TRUNCATED:
            return Damage(Kind.BAD_BATCH, begin, self._end, "a batch begins that is not complete")
        kind = Kind.UNKNOWN_MAGIC if scan.reason == StopReason.UNKNOWN_MAGIC else Kind.BAD_BATCH
        end = begin + max(length_at(buffer, scan.end) + LOG_OVERHEAD, 1)
        return Damage(kind, begin, min(end, self._end), formats.stop_error(scan, buffer).reason)

    # After damage

    def _resume_after(self, damage: Damage) -> int | None:
        """Returns the position of the next sound batch after damage; None if there is none.

        That is the end of the damaged batch, if its length is right.
        """
        search = Search(self._file, self._base_offset, self._end)
        if damage.end < self._end and search.is_sound_at(damage.end):
            return damage.end
        return search.next_sound(damage.position + 1)

    def _bytes(self, position: int, length: int) -> Bytes:
        return np.frombuffer(counted(self._file.read(position, length)), dtype=np.uint8)
