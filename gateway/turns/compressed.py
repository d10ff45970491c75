"""Checks the records of compressed batches, before any partition is held: decompressing them takes longest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic

from ...storage import CheckedBatch, Found, LongCheckError, ProduceTables, check_plain
from ..security.acls import Client
from .known import KnownPartitions, L

TURN_BYTES = 8 << 20  # decompressed in one turn, in 5 to 30 ms, while the thread serves nobody else


class CompressedChecks(Generic[L]):
    """The checks of one turn. As in the usual way, a request may decompress to ``quick_bytes`` in this thread."""

    def __init__(
        self, tables: ProduceTables, known: KnownPartitions[L], found: Found, now_ms: int, quick_bytes: int
    ) -> None:
        self._tables, self._known, self._found = tables, known, found
        self._now_ms, self._quick_bytes = now_ms, quick_bytes
        self._left_bytes = TURN_BYTES
        self.passed: dict[int, CheckedBatch] = {}  # by their numbers

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
        for at, each in enumerate(self._found.batches[frame.first : frame.stop], frame.first):
            if not each.codec:
                continue
            if left_bytes <= 0 or not self._known.may_write(client, each.part):
                return False
            batch = self._plain(at, left_bytes)
            self._left_bytes -= left_bytes if batch is None else batch.size
            if batch is None:
                return False
            self.passed[at] = batch
            left_bytes -= batch.size
        return True

    def _plain(self, number: int, quick_bytes: int) -> CheckedBatch | None:
        """Returns a batch with what its check found; None: it must go the usual way."""
        found = self._found.batches[number]
        config = self._known.config(found.part)
        try:
            batch = check_plain(self._tables.memory[found.at : found.at + found.size], config, quick_bytes)
        except LongCheckError:
            return None
        return batch if batch is not None and batch.may_stay(config, self._now_ms) else None
