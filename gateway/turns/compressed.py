"""Checks the records of compressed batches, before any partition is held: decompressing them takes longest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...storage import Found, FoundBatch, LongCheckError, ProduceTables, check_plain
from ..security.acls import Client
from .known import KnownPartitions

TURN_BYTES = 8 << 20  # decompressed in one turn, in 5 to 30 ms, while the thread serves nobody else


class CompressedChecks:
    """The checks of one turn. As in the usual way, a request may decompress to ``quick_bytes`` in this thread."""

    def __init__(
        self, tables: ProduceTables, known: KnownPartitions, found: Found, now_ms: int, quick_bytes: int
    ) -> None:
        self._tables, self._known, self._found = tables, known, found
        self._now_ms, self._quick_bytes = now_ms, quick_bytes
        self._left_bytes = TURN_BYTES

    def run(self, clients: Iterable[Client]) -> Mapping[int, bool]:
        """Returns the requests, at most one of each connection, that must go the usual way with all behind them.

        ``clients``: the client of each connection. True: such a request may be tried again, as it only came after
        too many others.
        """
        if not any(each.codec for each in self._found.batches):
            return {}
        stops: dict[int, bool] = {}
        for connection, client in zip(self._found.connections, clients, strict=True):
            for number in range(connection.frame_first, connection.frame_stop):
                if self._left_bytes <= 0:
                    stops[number] = True
                elif not self._passes(client, number):
                    stops[number] = False
                else:
                    continue
                break
        return stops

    def _passes(self, client: Client, number: int) -> bool:
        """Whether the logs store the compressed batches of a request as they are, by the settings known here."""
        frame, left_bytes = self._found.frames[number], self._quick_bytes
        for each in self._found.batches[frame.first : frame.stop]:
            if not each.codec:
                continue
            if left_bytes <= 0 or not self._known.may_write(client, each.part):
                return False
            size = self._size_of_plain(each, left_bytes)
            self._left_bytes -= left_bytes if size is None else size
            if size is None:
                return False
            left_bytes -= size
        return True

    def _size_of_plain(self, found: FoundBatch, quick_bytes: int) -> int | None:
        """Returns to how many bytes a batch decompresses; None: it must go the usual way."""
        config = self._known.config(found.part)
        try:
            batch = check_plain(self._tables.memory[found.at : found.at + found.size], config, quick_bytes)
        except LongCheckError:
            return None
        return batch.size if batch is not None and batch.may_stay(config, self._now_ms) else None
