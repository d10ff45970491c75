"""Checks the records of ``__consumer_offsets`` and ``__transaction_state``: whether coordinators can read them."""

from __future__ import annotations

import numpy as np

from .. import format as formats
from ..errors import CorruptionError, InvalidRecordError, UnsupportedCompressionTypeError
from ..format.files.file_names import parse_partition_directory
from ..format.internal.state_records import LaterKindError, check_state_record
from ..segment.walk import Window
from .batches import DECODED_BATCHES, BatchFindings
from .findings import Kind


def topic_of(directory: str) -> str:
    """Returns the topic of a partition's directory; an empty text if its name is no partition's."""
    found = parse_partition_directory(directory.rpartition("/")[2])
    return "" if found is None else found.topic


class StateChecks:
    """Decodes keys and values of an internal topic, and adds a finding for each record that does not decode."""

    def __init__(self, findings: BatchFindings, topic: str, decompressed_bytes_max: int) -> None:
        self._findings, self._topic = findings, topic
        self._decompressed_bytes_max = decompressed_bytes_max

    def check(self, window: Window) -> None:
        rows = np.flatnonzero(~window.headers.is_control & (window.headers.table["count"] != 0))
        for first in range(0, len(rows), DECODED_BATCHES):
            for row in rows[first : first + DECODED_BATCHES].tolist():
                self._check_batch(window, row)

    def _check_batch(self, window: Window, row: int) -> None:
        limit, batch = self._decompressed_bytes_max, window.headers[row : row + 1]
        try:
            found = formats.decode(window.buffer, batch, columns=("key", "value"), decompressed_bytes_max=limit).records
        except (CorruptionError, UnsupportedCompressionTypeError):
            return  # reported with the batch
        assert found.keys is not None
        assert found.values is not None
        for offset, key, value in zip(
            found.offsets.tolist(), found.keys.to_list(), found.values.to_list(), strict=True
        ):
            self._check_record(window, row, offset, key, value)

    def _check_record(self, window: Window, row: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        if key is None:
            return  # no coordinator reads it
        try:
            check_state_record(self._topic, key, value)
        except LaterKindError as error:
            self._findings.add(Kind.ODD_STATE, window, row, f"offset {offset}: {error.reason}")
        except InvalidRecordError as error:
            what = f"offset {offset}: a record of the coordinator cannot be read: {error.reason}"
            self._findings.add(Kind.BAD_STATE, window, row, what)
