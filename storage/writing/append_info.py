"""What an append returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..recovery.producer_state import ProducerBatch


class AppendInfo(NamedTuple):
    """The result of an append."""

    first_offset: int
    last_offset: int  # below first_offset if there was nothing to append
    max_timestamp: int  # ms; -1: no record has one
    log_append_time_ms: int  # -1 unless the log sets the time
    size: int  # bytes written
    duplicate: bool = False  # a retry of one of the producer's last five batches: offsets are those of the first


def repeated_append(batches: Sequence[ProducerBatch]) -> AppendInfo:
    """Returns the result of an append that repeats ``batches``: the offsets of the first attempt."""
    first, last = batches[0], batches[-1]
    return AppendInfo(first.first_offset, last.last_offset, last.timestamp, last.timestamp, 0, duplicate=True)
