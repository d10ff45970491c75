"""A small batch has the bytes that the encoder of columns writes, and the log takes it as it is."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, strategies as st

from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.constants import CONTROL_MASK, TRANSACTIONAL_MASK
from pyspark_commitlog.storage.format.tables import Records
from pyspark_commitlog.storage.writing.checks.checked_batch import check_batch

TEXTS = st.binary(max_size=200)


def by_columns(
    records: Sequence[tuple[bytes, bytes | None]], now_ms: int, fields: v2.BatchFields | None = None
) -> bytes:
    keys, values = ([record[field] for record in records] for field in (0, 1))
    columns = Records.to_append(keys, values, now_ms)
    buffer, _ = v2.encode_batches(columns, fields or v2.BatchFields(), batch_bytes_max=1 << 30)
    return buffer.tobytes()


@given(records=st.lists(st.tuples(TEXTS, st.none() | TEXTS), min_size=1, max_size=200), now_ms=st.integers(0, 2**45))
def test_a_small_batch_is_what_the_encoder_of_columns_writes(
    records: list[tuple[bytes, bytes | None]], now_ms: int
) -> None:
    batch = v2.encode_small(records, now_ms)
    assert batch == by_columns(records, now_ms)
    assert check_batch(batch, LogConfig(cleanup_policy=frozenset({"compact"}))).is_plain


@given(
    records=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=3),
    now_ms=st.integers(0, 2**45),
    producer_id=st.integers(0, 2**63 - 1),
    producer_epoch=st.integers(0, 2**15 - 1),
)
def test_a_small_control_batch_is_what_the_encoder_of_columns_writes(
    records: list[tuple[bytes, bytes | None]], now_ms: int, producer_id: int, producer_epoch: int
) -> None:
    producer = {"producer_id": producer_id, "producer_epoch": producer_epoch}
    batch = v2.encode_small(records, now_ms, attributes=TRANSACTIONAL_MASK | CONTROL_MASK, **producer)
    assert batch == by_columns(records, now_ms, v2.BatchFields(transactional=True, control=True, **producer))


def test_lengths_of_each_size_of_varint_are_encoded() -> None:
    records = [(b"k" * size, b"v" * size) for size in (0, 1, 63, 64, 8191, 8192, 1 << 20)]
    assert v2.encode_small(records, 0) == by_columns(records, 0)
