"""The library's checksums, whose methods differ by length and alignment, compared with slow ones."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from pyspark_commitlog.storage.format import checksums
from tests.support.logs import reference

BYTES = np.random.default_rng(1).integers(0, 256, size=70_000, dtype=np.uint8)


@pytest.mark.parametrize("start", [0, 1, 7, 21])
def test_checksums_of_every_short_length(start: int) -> None:
    ends = np.arange(start, start + 700)
    found = checksums.of_parts(checksums.crc32c, BYTES, np.full(len(ends), start), ends)
    assert found == [reference.crc32c(BYTES[start:end].tobytes()) for end in ends]


@pytest.mark.parametrize("length", [4_095, 4_096, 4_097, 16_363, 65_536, 69_979])
def test_checksums_of_longer_parts(length: int) -> None:
    part = BYTES[21 : 21 + length]
    assert checksums.crc32c(part) == reference.crc32c(part.tobytes())


@pytest.mark.parametrize("start", [0, 1, 7, 21])
def test_checksums_of_old_messages(start: int) -> None:
    ends = np.concatenate((np.arange(start, start + 700), [5_000, 70_000]))
    found = checksums.of_parts(checksums.crc32, BYTES, np.full(len(ends), start), ends)
    assert found == [zlib.crc32(BYTES[start:end]) for end in ends]
