"""Every refused record of a table, compared with appending each record alone."""

from __future__ import annotations

import re

import numpy as np
import pytest

from pyspark_commitlog.storage.errors import AppendError
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.tables import Records
from pyspark_commitlog.storage.writing.checks.batches import check_batch_sizes
from pyspark_commitlog.storage.writing.checks.records import Compression, bytes_in_batch, find_refused
from tests.support.logs.building import NOW_MS, config, open_log, records

LIMITS = {
    "max_message_bytes": 300,
    "segment_bytes": 1000,
    "cleanup_policy": "compact",
    "message_timestamp_before_max_ms": 1000,
    "message_timestamp_after_max_ms": 1000,
}


def mixed(count: int = 60) -> Records:
    random = np.random.default_rng(3)
    sizes = random.integers(0, 400, count)
    return records(
        [random.bytes(int(size)) if i % 3 else b"x" * int(size) for i, size in enumerate(sizes)],
        keys=[None if random.integers(0, 5) == 0 else b"k" for _ in range(count)],
        timestamps=[NOW_MS + int(random.integers(-1300, 1300)) for _ in range(count)],
    )


@pytest.mark.parametrize("smaller", [{}, {"max_message_bytes": 1000, "segment_bytes": 300}], ids=["batch", "segment"])
@pytest.mark.parametrize("codec", list(Codec))
def test_those_found_are_those_that_a_log_refuses_one_by_one(
    tmp_path: object, codec: Codec, smaller: dict[str, int]
) -> None:
    limits = {**LIMITS, **smaller}
    table = mixed()
    compression = Compression(codec, None)
    found = {each.row for each in find_refused(table, now_ms=NOW_MS, config=config(**limits), compression=compression)}
    refused = set()
    with open_log(tmp_path, **limits) as log:
        for index in range(len(table)):
            try:
                log.append_records(table.slice(index, index + 1), v2.BatchFields(codec=codec))
            except AppendError:
                refused.add(index)
    assert found == refused
    assert 5 < len(found) < len(table)


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        pytest.param(0, "alone makes a batch of .* bytes, but max.message.bytes allows 300", id="size"),
        pytest.param(1, "the topic is compacted and takes no record without a key", id="key"),
        pytest.param(2, f"its timestamp 5 lies outside {NOW_MS - 1000} to {NOW_MS + 1000}", id="time"),
    ],
)
def test_reason_is_reported(index: int, reason: str) -> None:
    table = records([b"x" * 400, b"", b"", b""], keys=[b"k", None, b"k", b"k"], timestamps=[NOW_MS, 5, 5, NOW_MS])
    found = find_refused(table, now_ms=NOW_MS, config=config(**LIMITS), compression=Compression(Codec.NONE, None))
    assert [each.row for each in found] == [0, 1, 2]
    assert re.fullmatch(reason, found[index].reason)


def test_record_at_the_size_limit_is_accepted_and_one_byte_more_is_not() -> None:
    table, compression = records([b"x" * 200]), Compression(Codec.NONE, None)
    size = len(v2.encode(table, v2.BatchFields()))
    for limit, refused in ((size, 0), (size - 1, 1)):
        limits = config(max_message_bytes=limit)
        assert len(find_refused(table, now_ms=NOW_MS, config=limits, compression=compression)) == refused


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_of_the_computed_size_fit_however_badly_they_compress(codec: Codec) -> None:
    random = np.random.default_rng(1)
    limits = config(max_message_bytes=2000)
    table = records([random.bytes(int(size)) for size in random.integers(0, 900, 300)])
    compression = Compression(codec, None)
    room = bytes_in_batch(limits.max_message_bytes, compression)
    encoded = v2.encode_batches(table, v2.BatchFields(codec=codec), batch_bytes_max=room)
    assert not find_refused(table, now_ms=NOW_MS, config=limits, compression=compression)
    check_batch_sizes(encoded.headers, limits)
