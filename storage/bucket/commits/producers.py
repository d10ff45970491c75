"""The last batches of idempotent producers: in a commit beside its slices, and in the state.

They reveal a batch that is sent again, even to another gateway or after a restart. The state keeps those of
the partitions' producers that wrote last, without a clock: at most :data:`PRODUCERS_KEPT`.
"""

from __future__ import annotations

from typing import Any

from ...errors import CorruptionError
from ...format.constants import INT32_MAX
from ...format.tables import Int64s, last_sequence
from ...recovery.producer_state import ProducerBatch, ProducerState
from .fields import INT64_MAX, Fields

Key = tuple[str, int, int]  # topic id, partition, producer id
Producers = dict[Key, ProducerState]  # the producer that wrote last is last

PRODUCERS_KEPT = 100_000  # pairs of a partition and a producer, in the whole log
EPOCH_MAX = 2**15 - 1

# Columns of a commit's batches of producers, shape (batches, 6); ``FIRST``: records before it in the commit's part.
PRODUCER, EPOCH, SEQUENCE, FIRST, RECORDS, MAX_TIMESTAMP = range(6)
COLUMNS = 6


def read_batches(fields: Fields, records: int) -> Int64s | None:
    """Returns the batches of producers in a part of ``records``; None if it has none. Raises CorruptionError."""
    if not fields.has("producers"):
        return None
    rows = fields.rows("producers", COLUMNS)
    most = [INT64_MAX, EPOCH_MAX, INT32_MAX, records, records, INT64_MAX]
    is_wrong = (rows < [0, 0, 0, 0, 1, -1]).any() or (rows > most).any()
    if is_wrong or (rows[:, FIRST] + rows[:, RECORDS] > records).any():
        raise fields.wrong("producers", "a list of batches within the part")
    return rows


def add_batches(producers: Producers, topic_id: str, partition: int, base: int, rows: Int64s) -> None:
    """Adds the batches of a commit's part that begins at offset ``base``; forgets producers idle for longest."""
    for producer_id, epoch, sequence, first, records, max_timestamp in rows.tolist():
        key, end = (topic_id, partition, producer_id), base + first + records
        known = producers.pop(key, None) or ProducerState(producer_id)
        newest = ProducerBatch(last_sequence(sequence, records - 1), end - 1, records - 1, max_timestamp)
        producers[key] = ProducerState(
            producer_id, epoch, last_timestamp=max_timestamp, batches=known.batches_with(epoch, newest)
        )
    while len(producers) > PRODUCERS_KEPT:
        del producers[next(iter(producers))]


def drop_topic(producers: Producers, topic_id: str) -> None:
    """Forgets the producers of a deleted topic."""
    for key in [key for key in producers if key[0] == topic_id]:
        del producers[key]


def to_json(producers: Producers) -> list[Any]:
    """Returns the producers for a checkpoint, in their order."""
    return [[*key, state.epoch, state.last_timestamp, *map(list, state.batches)] for key, state in producers.items()]


def from_json(fields: Fields) -> Producers:
    """Parses the output of :func:`to_json`.

    Raises CorruptionError, even for a missing list: then a version that does not know producers has written it, and
    repeated batches would count as new ones.
    """
    if not fields.has("producers"):
        raise CorruptionError("was written by a version that does not know the batches of idempotent producers")
    found: Producers = {}
    for value in fields.values("producers"):
        match value:
            case [str(topic_id), int(partition), int(producer_id), int(epoch), int(timestamp), *batches]:
                kept = tuple(_batch(each) for each in batches)
                key = topic_id, partition, producer_id
                found[key] = ProducerState(producer_id, epoch, last_timestamp=timestamp, batches=kept)
            case _:
                raise fields.wrong("producers", "a list of producers")
    return found


def _batch(value: Any) -> ProducerBatch:
    match value:
        case [int(), int(), int(), int()]:
            return ProducerBatch(*value)
    raise CorruptionError(f"has {str(value)[:80]!r} where the batch of a producer is expected")
