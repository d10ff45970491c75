"""Batches that are encoded table by table are those of all tables, whatever memory they went through."""

from __future__ import annotations

import numpy as np
import pytest

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.fields import Codec
from pyspark_commitlog.storage.format.gathering import GatheredBatches
from tests.support.logs import records


def all_of(gathered: GatheredBatches) -> list[tuple[int, bytes | None]]:
    """Offset and value of each record, after a look at everything the headers say."""
    buffer, headers = gathered.all()
    scanned = formats.scan(buffer).headers
    assert scanned.end == len(buffer)
    assert scanned.table.tolist() == headers.table.tolist()
    assert formats.checksums_match(buffer, headers).all()
    decoded = formats.decode(buffer, headers).records
    assert decoded.values is not None
    return list(zip(decoded.offsets.tolist(), decoded.values.to_list(), strict=True))


@pytest.mark.parametrize("codec", Codec)
def test_tables_follow_one_another(codec: Codec) -> None:
    gathered = GatheredBatches(v2.BatchFields(codec=codec), batch_bytes_max=100)
    seen: list[bytes] = []
    for number, size in enumerate((3, 2000, 1, 500, 500)):  # into memory that grows, and into what is there
        values = [b"%d of table %d" % (row, number) * 3 for row in range(size)]
        gathered.add(records(values), None)
        seen += values
        assert all_of(gathered) == list(enumerate(seen))


@pytest.mark.parametrize("codec", Codec)
def test_what_compression_makes_larger_finds_room_behind_what_is_there(codec: Codec) -> None:
    random = np.random.default_rng(1)
    values = [random.bytes(1_000_000) for _ in range(3)]
    gathered = GatheredBatches(v2.BatchFields(codec=codec), batch_bytes_max=1)
    for value in values:
        gathered.add(records([value]), None)
    assert all_of(gathered) == list(enumerate(values))


def test_rows_are_chosen_and_sequences_of_a_producer_go_on() -> None:
    fields = v2.BatchFields(producer_id=7, producer_epoch=0, base_sequence=2**31 - 3)
    gathered = GatheredBatches(fields, batch_bytes_max=1)
    gathered.add(records([b"a", b"b", b"c"]), np.array([2, 0]))
    gathered.add(records([b"d", b"e"]), np.array([1]))
    buffer, headers = gathered.all()
    decoded = formats.decode(buffer, headers).records
    assert decoded.values is not None
    assert decoded.values.to_list() == [b"c", b"a", b"e"]
    assert headers.table["base_sequence"].tolist() == [2**31 - 3, 2**31 - 2, 2**31 - 1]
