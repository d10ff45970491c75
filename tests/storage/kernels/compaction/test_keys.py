"""Batches by their keys, as compaction reads and writes them, compared with the columns of the same batches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.errors import InvalidRecordError
from pyspark_commitlog.storage.format import compaction_view, v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.kernels.compaction.offset_map import hash_all
from tests.storage.kernels.test_bounds import INT32_MAX, LARGE, NULLS, WHOLE, batch, shortened
from tests.storage.kernels.test_twins import RECORDS, as_array, rows, table
from tests.support.logs import reference

SECRET = np.array([3, 2**63 + 5], dtype=np.uint64)
BATCHES = st.lists(st.tuples(RECORDS, st.sampled_from(Codec)), min_size=1, max_size=4)


def encoded(batches: list[tuple[list[reference.Record], Codec]]) -> np.ndarray:
    """Consecutive batches with ascending offsets."""
    pieces, above = [], 0
    for records, codec in batches:
        shifted = [replace(record, offset=record.offset + above) for record in records]
        pieces.append(v2.encode(table(shifted), v2.BatchFields(codec=codec)))
        above = shifted[-1].offset
    return np.concatenate(pieces)


@given(BATCHES)
def test_keys_are_hashed_in_place_as_in_columns(
    batches: list[tuple[list[reference.Record], Codec]],
) -> None:
    buffer = encoded(batches)
    headers = formats.scan(buffer).headers
    found, (plain, counts) = compaction_view.read(buffer, headers, SECRET), formats.decode(buffer, headers)
    expected = rows(plain)
    assert found.offsets.tolist() == [record.offset for record in expected]
    assert found.has_key.tolist() == [record.key is not None for record in expected]
    assert found.has_value.tolist() == [record.value is not None for record in expected]
    assert found.counts.tolist() == counts.tolist()
    assert plain.keys is not None
    assert np.array_equal(found.hashes[found.has_key], hash_all(plain.keys, SECRET)[found.has_key])


@given(BATCHES, st.randoms(use_true_random=False), st.sampled_from([compaction_view.NO_HORIZON, 5]))
def test_batches_are_written_again_with_the_records_that_stay(
    batches: list[tuple[list[reference.Record], Codec]], chance: np.random.Generator, horizon: int
) -> None:
    buffer = encoded(batches)
    headers = formats.scan(buffer).headers
    found, (plain, counts) = compaction_view.read(buffer, headers, SECRET), formats.decode(buffer, headers)
    kept = np.array([chance.random() < 0.5 for _ in range(len(plain))], dtype=np.bool_)
    survivors = np.array([int(part.sum()) for part in np.split(kept, np.cumsum(counts)[:-1])])
    some = np.flatnonzero(survivors)
    if not len(some):
        return
    horizons = np.full(len(some), horizon, dtype=np.int64)
    rebuilt = found.rebuild(
        compaction_view.Wanted(some, np.flatnonzero(kept), survivors[some], headers[some], horizons)
    )
    again = formats.scan(rebuilt.buffer)
    assert again.headers.table["size"].tolist() == rebuilt.sizes.tolist()
    for name in ("base_offset", "last_offset", "producer_id", "base_sequence"):
        assert again.headers.table[name].tolist() == headers.table[name][some].tolist()
    assert again.headers.codec.tolist() == headers.codec[some].tolist()
    left = rows(formats.decode(rebuilt.buffer, again.headers).records)
    assert left == [record for record, stays in zip(rows(plain), kept.tolist(), strict=True) if stays]
    starts = np.cumsum(survivors[some]) - survivors[some]
    firsts = [left[start].timestamp if horizon == compaction_view.NO_HORIZON else horizon for start in starts.tolist()]
    assert again.headers.table["base_timestamp"].tolist() == firsts


@pytest.mark.parametrize("wholes", [0, 1, 3])
@pytest.mark.parametrize("record", [NULLS, LARGE], ids=["nulls", "large"])
def test_batches_that_do_not_decode_cannot_be_read_by_keys_either(record: bytes, wholes: int) -> None:
    for size in range(1, len(record)):
        for count in (wholes + 1, INT32_MAX):
            data = as_array(batch(WHOLE * wholes + shortened(record, size), count))
            headers = formats.scan(data).headers
            with pytest.raises(InvalidRecordError) as expected:
                formats.decode(data, headers)
            with pytest.raises(InvalidRecordError) as found:
                compaction_view.read(data, headers, SECRET)
            assert str(found.value) == str(expected.value)
