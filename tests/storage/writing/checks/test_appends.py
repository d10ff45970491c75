"""What a log refuses because of its state, and what it gives to batches: from a view of it, which stays as it was."""

from __future__ import annotations

import pytest

from pyspark_commitlog.storage.errors import (
    AppendError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    RecordValidationError,
    UnexpectedAppendOffsetError,
)
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.tables import Bytes
from pyspark_commitlog.storage.reading.marks import KeptInMemory
from pyspark_commitlog.storage.recovery.producer_state import Origin, Producer
from pyspark_commitlog.storage.segment.joining import Holes
from tests.support.logs.building import NOW_MS, batch, records, replicated
from tests.support.logs.parts import Parts

ONE, TWO = 1, 2  # producers: the first has written a batch, the second has begun a transaction


def parts(**settings: object) -> Parts:
    """A log that ends at offset 4."""
    found = Parts(b"0", b"1", **settings)
    found.append(batch(b"2", producer_id=ONE, base_sequence=0, producer_epoch=3))
    found.append(batch(b"3", producer_id=TWO, base_sequence=0, transactional=True))
    return found


def state(found: Parts) -> object:
    view = found.view
    return view.log_end_offset, view.producers.entries(), [*view.epochs.entries], found.bases, found.marks.read()


@pytest.mark.parametrize(
    ("data", "origin", "error"),
    [
        (batch(b"x", producer_id=ONE, base_sequence=2, producer_epoch=3), Origin.CLIENT, OutOfOrderSequenceError),
        (batch(b"x", producer_id=ONE, base_sequence=1, producer_epoch=2), Origin.CLIENT, InvalidProducerEpochError),
        (batch(b"x", producer_id=TWO, base_sequence=1), Origin.CLIENT, InvalidTxnStateError),
        (batch(b"x" * 900), Origin.CLIENT, RecordBatchTooLargeError),
        (batch(b"x", timestamps=-7), Origin.CLIENT, RecordValidationError),
        (replicated(b"x", base_offset=3), Origin.REPLICATION, UnexpectedAppendOffsetError),
        (replicated(b"x" * 900, base_offset=4), Origin.REPLICATION, RecordBatchTooLargeError),
    ],
    ids=["a gap", "an old epoch", "an open transaction", "large", "its time", "below the end", "large, of a leader"],
)
def test_what_is_refused_changes_nothing(data: Bytes, origin: Origin, error: type[AppendError]) -> None:
    found = parts(segment_bytes=800)
    before = state(found)
    with pytest.raises(error):
        found.check(data, origin)
    assert state(found) == before


def test_what_is_accepted_changes_nothing_before_it_is_written() -> None:
    found = parts()
    before = state(found)
    checked = found.check(batch(b"4", b"5", producer_id=ONE, base_sequence=1, producer_epoch=3))
    table = checked.window.headers.table
    assert (table["base_offset"].tolist(), table["last_offset"].tolist()) == ([4], [5])
    assert checked.update.map_end_offset == 6
    assert not checked.leaves_gaps
    assert state(found) == before


def test_a_batch_that_is_there_already_is_found() -> None:
    duplicate = parts().check(batch(b"2", producer_id=ONE, base_sequence=0, producer_epoch=3)).update.duplicate
    assert duplicate is not None
    assert (duplicate.first_offset, duplicate.last_offset) == (2, 2)


@pytest.mark.parametrize(
    ("holes", "offset", "leaves"),
    [(Holes.INSIDE_SEGMENTS, 9, True), (Holes.INSIDE_SEGMENTS, 4, False), (Holes.ANYWHERE, 9, False)],
    ids=["a first gap", "no gap", "one more"],
)
def test_gaps_are_found_before_they_are_noted(holes: Holes, offset: int, leaves: bool) -> None:
    marks = KeptInMemory(holes=holes)
    found = parts(marks=marks)
    assert found.check(replicated(b"x", base_offset=offset), Origin.REPLICATION).leaves_gaps == leaves
    assert marks.holes() is holes


def test_sizes_are_refused_without_the_lock() -> None:
    found = Parts(max_message_bytes=300, segment_bytes=200)
    for size, error in ((250, RecordBatchTooLargeError), (350, RecordTooLargeError)):
        _, headers = v2.encode_batches(records([b"x" * (size - 70)]), v2.BatchFields(), batch_bytes_max=1 << 20)
        with pytest.raises(error):
            found.checks.check_sizes(headers)


def test_encoded_batches_get_the_end_and_the_time_of_the_log() -> None:
    found = parts(message_timestamp_type="LogAppendTime")
    buffer, headers = v2.encode_batches(records([b"a", b"b"], timestamps=5), v2.BatchFields(), batch_bytes_max=0)
    checked = found.checks.encoded(buffer, headers)
    assert found.checks.sets_time
    assert checked.window.headers.table["base_offset"].tolist() == [4, 5]
    assert checked.window.headers.table["max_timestamp"].tolist() == [NOW_MS, NOW_MS]
    assert checked.log_append_time_ms == NOW_MS


def test_batches_of_a_transaction_get_its_producer_and_its_next_sequences() -> None:
    found, producer = parts(), Producer(2, 0)
    buffer, headers = v2.encode_batches(records([b"a", b"b"]), v2.BatchFields(), batch_bytes_max=0)
    one = found.checks.one_of(producer, v2.header_of(headers))
    many = found.checks.transactional(buffer, headers, producer).window.headers
    assert (one.base_offset, one.producer_id, one.producer_epoch, one.base_sequence) == (4, 2, 0, 1)
    assert many.table[["base_offset", "producer_id", "base_sequence"]].tolist() == [(4, 2, 1), (5, 2, 2)]
    assert many.is_transactional.all()


@pytest.mark.parametrize(
    ("producer", "sequence"),
    [(Producer(1, 3), 1), (Producer(1, 4), 0), (Producer(9, 0), 0)],
    ids=["known", "of a new epoch", "unknown"],
)
def test_the_next_sequence(producer: Producer, sequence: int) -> None:
    assert parts().checks.next_sequence(producer) == sequence
