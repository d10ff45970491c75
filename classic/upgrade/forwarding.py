"""Converts fetched messages of Kafka 0.7 to batches for a log of today."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ...storage.errors import CorruptionError
from ...storage.format.constants import Codec
from ...storage.format.tables import Records
from ...storage.writing.forwarding import Forwarded, Placing, forwarded_records
from ..log_0_7.entries import Entries
from ..log_0_7.records import records_of

_COLUMNS = ("key", "value")


class PositionAnswer(NamedTuple):
    """An answer to a fetch from Kafka 0.7: whole messages from a position on."""

    data: bytes | memoryview  # the last message may be cut off
    position: int
    place: str  # what it was fetched from, for errors


def forwarded_messages(
    placing: Placing, answer: PositionAnswer, *, count: int, batch_size_max: int, codec: Codec | None = None
) -> Forwarded:
    """Returns messages of 0.7 as batches of ``count`` shares, to which ``placing`` assigns each message.

    They have no key and no time. Those of a compressed message are encoded with its codec, unless the target stores
    only ``codec``. The next offset is a position: after the last whole message, or of the answer if there is none.

    Raises CorruptRecordError, InvalidRecordError and their kin for damage, with place and position in the log, and
    RecordTooLargeError for a message that needs a larger batch.
    """
    entries = Entries.of(np.frombuffer(answer.data, dtype=np.uint8))
    try:
        entries.check_as_set()
        return forwarded_records(
            _by_codec(entries, answer.position),
            placing,
            answer.position + entries.stop,
            count=count,
            batch_size_max=batch_size_max,
            codec=codec,
        )
    except CorruptionError as error:
        raise error.located(answer.place, answer.position) from error


def _by_codec(entries: Entries, position: int) -> Iterator[tuple[Codec, Records]]:
    """Yields the messages of each run of entries of one codec."""
    codecs = entries.codecs
    bounds = [0, *(np.flatnonzero(np.diff(codecs)) + 1).tolist(), len(codecs)]
    for first, last in pairwise(bounds):
        if first < last:
            rows = slice(first, last)
            stop = int(entries.ends[last - 1])
            part = Entries(entries.buffer, entries.positions[rows], entries.sizes[rows], stop, entries.reason)
            for records in records_of(part, position, _COLUMNS):
                yield Codec(int(codecs[first])), records
