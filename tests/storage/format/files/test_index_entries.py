"""Entries of the index files, as bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyspark_commitlog.storage.errors import CorruptIndexError
from pyspark_commitlog.storage.format.files import index_entries
from pyspark_commitlog.storage.format.files.index_entries import AbortedTxn
from tests.support.logs.sidecars import partition_files

ABORTED = [AbortedTxn(7, 10, 20, 11), AbortedTxn(2**40, 11, 30, 31)]


def test_an_offset_entry_is_relative_to_the_base_and_big_endian() -> None:
    data = index_entries.encode_offset_entries(1000, np.array([1001, 1000 + 2**31 - 1]), np.array([4096, 2**31 - 1]))
    assert data.hex() == "00000001000010007fffffff7fffffff"
    offsets, positions = index_entries.decode_offset_entries(1000, data)
    assert offsets.tolist() == [1001, 1000 + 2**31 - 1]
    assert positions.tolist() == [4096, 2**31 - 1]
    assert offsets.dtype == positions.dtype == np.int64


def test_a_time_entry_has_the_timestamp_first() -> None:
    data = index_entries.encode_time_entries(5, np.array([258]), np.array([8]))
    assert data.hex() == "000000000000010200000003"
    timestamps, offsets = index_entries.decode_time_entries(5, data)
    assert (timestamps.tolist(), offsets.tolist()) == ([258], [8])


def test_an_aborted_transaction_takes_34_bytes() -> None:
    data = index_entries.encode_aborted(ABORTED)
    assert data[:34].hex() == "00000000000000000007000000000000000a0000000000000014000000000000000b"
    assert len(data) == 68
    assert index_entries.decode_aborted(data) == ABORTED


def test_a_partial_entry_at_the_end_is_ignored() -> None:
    assert index_entries.decode_aborted(index_entries.encode_aborted(ABORTED)[:-1]) == ABORTED[:1]
    assert index_entries.decode_offset_entries(0, bytes(15))[0].tolist() == [0]
    assert index_entries.decode_time_entries(0, bytes(11))[0].tolist() == []


def test_an_aborted_transaction_of_an_unknown_version_is_named_with_its_position() -> None:
    data = bytearray(index_entries.encode_aborted(ABORTED))
    data[34:36] = b"\x00\x01"
    with pytest.raises(CorruptIndexError, match="version 1") as caught:
        index_entries.decode_aborted(data)
    assert caught.value.position == 34


@pytest.mark.parametrize(("offset", "there"), [(99, False), (100, True), (100 + 2**31 - 1, True), (100 + 2**31, False)])
def test_a_segment_holds_offsets_up_to_2_31_above_its_base(offset: int, there: bool) -> None:
    assert index_entries.fits(100, offset) is there


@pytest.mark.parametrize("path", partition_files(".txnindex"), ids=lambda p: f"{p.parent.name}/{p.name}")
def test_aborted_transactions_of_kafka_are_encoded_byte_for_byte(path: Path) -> None:
    assert index_entries.encode_aborted(index_entries.decode_aborted(path.read_bytes())) == path.read_bytes()
