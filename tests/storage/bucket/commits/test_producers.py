"""The batches of producers in commits and checkpoints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from pyspark_commitlog.storage.bucket.commits.checkpoints import decode_checkpoint, encode_checkpoint
from pyspark_commitlog.storage.bucket.commits.codec import decode_commit, encode_commit
from pyspark_commitlog.storage.bucket.commits.commit import DataChange, PartitionSlices
from pyspark_commitlog.storage.bucket.commits.producers import Producers, add_batches
from pyspark_commitlog.storage.bucket.commits.state import State
from pyspark_commitlog.storage.errors import CorruptionError
from pyspark_commitlog.storage.format.constants import INT32_MAX
from pyspark_commitlog.storage.recovery.producer_state import ProducerBatch
from tests.support.stores.commits import LOG_ID, TOPIC_ID, create_topic, data, follow, state_of

BATCH = [7, 1, 5, 0, 3, 1000]  # producer, epoch, sequence, records before it, records, largest time


def change(*rows: Sequence[int]) -> DataChange:
    """A write of three records by producers."""
    made = data(1, 3)
    part = made.parts[0]
    parts = [PartitionSlices(part.topic_id, 0, 0, part.slices, np.array(rows, np.int64))]
    return DataChange(made.write, made.objects, parts)


def test_a_commit_has_the_batches_of_producers_and_a_checkpoint_keeps_them() -> None:
    state = state_of(create_topic())
    commit = decode_commit(encode_commit(follow(state, change(BATCH))))
    assert isinstance(commit.change, DataChange)
    state = state_of(create_topic(), commit.change)
    known = state.producers[TOPIC_ID, 0, 7]
    assert (known.epoch, known.batches) == (1, (ProducerBatch(7, 2, 2, 1000),))
    assert decode_checkpoint(encode_checkpoint(state)).producers == state.producers
    copied = state.copy()
    add_batches(state.producers, TOPIC_ID, 0, 3, np.array([BATCH], np.int64))
    assert copied.producers[TOPIC_ID, 0, 7] == known


@pytest.mark.parametrize(
    "row",
    [
        pytest.param([-1, 1, 5, 0, 3, 1000], id="no producer"),
        pytest.param([7, 1 << 15, 5, 0, 3, 1000], id="an epoch too large"),
        pytest.param([7, 1, -1, 0, 3, 1000], id="no sequence"),
        pytest.param([7, 1, 5, 1, 3, 1000], id="more records than the part has"),
        pytest.param([7, 1, 5, 0, 0, 1000], id="no records"),
        pytest.param([7, 1, 5, 0, 3], id="a number is missing"),
    ],
)
def test_batches_that_cannot_be_right_are_damage(row: list[int]) -> None:
    encoded = encode_commit(follow(State(LOG_ID), change(row)))
    with pytest.raises(CorruptionError, match="producers"):
        decode_commit(encoded)


def test_sequences_begin_again_after_the_largest_and_in_a_new_epoch() -> None:
    producers: Producers = {}
    add_batches(producers, TOPIC_ID, 0, 10, np.array([[7, 0, INT32_MAX, 0, 2, 5], [7, 0, 1, 2, 1, 6]], np.int64))
    known = producers[TOPIC_ID, 0, 7]
    assert [(each.first_sequence, each.last_sequence) for each in known.batches] == [(INT32_MAX, 0), (1, 1)]
    assert [each.first_offset for each in known.batches] == [10, 12]
    add_batches(producers, TOPIC_ID, 0, 13, np.array([[7, 1, 0, 0, 1, 7]], np.int64))
    assert [each.last_sequence for each in producers[TOPIC_ID, 0, 7].batches] == [0]
