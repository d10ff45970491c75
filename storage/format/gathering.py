"""Batches that are encoded a table at a time, and appended together."""

from __future__ import annotations

import numpy as np

from pyspark_commitlog.storage.format.tables import BatchHeaders, Int64s, Records
from pyspark_commitlog.storage.format.v2 import BatchFields, EncodedBatches, Scratch, encode_batches


class GatheredBatches:
    """Batches of one partition, one behind the other, for a single append.

    An append costs the same whatever is in it; encoding is fastest in tables that the processor's cache holds. So many
    tables are encoded, and appended once. Memory: twice what is gathered.
    """

    def __init__(self, fields: BatchFields, batch_bytes_max: int) -> None:
        """Of all batches: what they say of their records, and how large they are at most (``v2.encode_batches``)."""
        self._fields = fields
        self._batch_bytes_max = batch_bytes_max
        self._scratch = Scratch()
        self._tables: list[np.ndarray] = []
        self._records = 0

    def add(self, records: Records, rows: Int64s | None) -> None:
        """Encode these rows of a table, or all, behind those before."""
        encoded = encode_batches(
            records,
            self._fields,
            rows=rows,
            batch_bytes_max=self._batch_bytes_max,
            base_offset=self._records,
            scratch=self._scratch,
        )
        table = encoded.headers.table
        table["position"] += len(self._scratch.held)
        self._scratch.hold(len(encoded.buffer))
        self._tables.append(table)
        self._records += len(records) if rows is None else len(rows)

    def all(self) -> EncodedBatches:
        """All of them, of one table at least; good until more are added."""
        return EncodedBatches(self._scratch.held, BatchHeaders(np.concatenate(self._tables)))
