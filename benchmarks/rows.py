"""The records of the benchmarks: 16-byte keys and 100-byte values of words, which compress about as well as text."""

from __future__ import annotations

import numpy as np

from pyspark_commitlog.storage.format.tables import BinaryColumn, Bytes, Int64s, Records

KEY_BYTES, VALUE_BYTES = 16, 100
WORD_BYTES, WORDS = 10, 5_000


def words(count: int, seed: int = 7) -> Bytes:
    """``count`` bytes, made of 5,000 words of 10 lower-case letters."""
    chance = np.random.default_rng(seed)
    known = chance.integers(97, 123, size=(WORDS, WORD_BYTES), dtype=np.uint8)
    return known[chance.integers(0, WORDS, size=-(-count // WORD_BYTES))].reshape(-1)[:count]


def keys(numbers: Int64s) -> BinaryColumn:
    """``key-000000000042`` for 42; digits are written column by column, for a million keys at once."""
    table = np.empty((len(numbers), KEY_BYTES), dtype=np.uint8)
    table[:, :4] = np.frombuffer(b"key-", dtype=np.uint8)
    for place in range(KEY_BYTES - 4):
        table[:, KEY_BYTES - 1 - place] = 48 + numbers // 10**place % 10
    return BinaryColumn(table.reshape(-1), np.arange(len(numbers) + 1, dtype=np.int32) * KEY_BYTES, None)


def records(numbers: Int64s, first_timestamp_ms: int = 1_700_000_000_000, seed: int = 7) -> Records:
    """One record for each number, from which its key is made; offsets from 0, ten records per millisecond."""
    count = len(numbers)
    return Records(
        offsets=np.arange(count),
        timestamps=first_timestamp_ms + np.arange(count) // 10,
        timestamp_types=np.zeros(count, dtype=np.int8),
        keys=keys(numbers),
        values=BinaryColumn(words(count * VALUE_BYTES, seed), np.arange(count + 1, dtype=np.int32) * VALUE_BYTES, None),
        headers=None,
    )
