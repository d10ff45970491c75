"""Checks of batches that decompress to much: what may take long is not begun, what must be rewritten is bounded."""

from __future__ import annotations

import pytest

from pyspark_commitlog.storage import CheckLimits, LongCheckError, RecordTooLargeError, check_batch
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.format import by_magic
from pyspark_commitlog.storage.format.checksums import crc32c
from pyspark_commitlog.storage.format.compression import LEVELS
from pyspark_commitlog.storage.format.constants import Codec
from tests.support.logs import building

CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
SIZE = 500_000
REWRITES = LogConfig(message_timestamp_type="LogAppendTime")


def compressed(codec: Codec) -> bytes:
    return building.batch(bytes(SIZE), codec=codec).tobytes()


def wrapper(codec: Codec, magic: int) -> bytes:
    found = by_magic(magic).encode(building.records([bytes(SIZE)]), codec)
    return bytes(found.tobytes())


@pytest.mark.parametrize("codec", CODECS)
def test_a_check_that_would_take_long_is_not_made(codec: Codec) -> None:
    with pytest.raises(LongCheckError):
        check_batch(compressed(codec), LogConfig(), CheckLimits(quick=SIZE))
    checked = check_batch(compressed(codec), LogConfig(), CheckLimits(quick=2 * SIZE))
    assert checked.is_plain
    assert checked.size > SIZE


@pytest.mark.parametrize("codec", CODECS)
def test_a_large_batch_is_plain_however_it_is_checked(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    small = check_batch(compressed(codec), LogConfig())
    monkeypatch.setattr("pyspark_commitlog.storage.writing.checks.checked_batch.SMALL_BYTES", 1000)
    assert check_batch(compressed(codec), LogConfig()) == small


@pytest.mark.parametrize("codec", LEVELS)
def test_a_batch_that_is_too_large_for_a_quick_check_is_not_decompressed_for_that(
    codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_commitlog.storage.writing.checks.checked_batch.decompress", None)
    with pytest.raises(LongCheckError):
        check_batch(compressed(codec), LogConfig(), CheckLimits(quick=SIZE // 2))


def test_a_gzip_stream_that_states_a_wrong_size_is_checked_by_its_content() -> None:
    batch = bytearray(compressed(Codec.GZIP))
    batch[-4:] = (2**31).to_bytes(4, "little")
    batch[17:21] = crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    assert not check_batch(bytes(batch), LogConfig()).is_plain, "so appending it decompresses it as a whole"


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_batch_that_must_be_rewritten_is_refused_if_it_is_too_large_for_that(codec: Codec) -> None:
    with pytest.raises(RecordTooLargeError, match=f"at most {SIZE} bytes of records"):
        check_batch(compressed(codec), REWRITES, CheckLimits(rewritten=SIZE))
    assert not check_batch(compressed(codec), REWRITES, CheckLimits(rewritten=2 * SIZE)).is_plain
    assert check_batch(compressed(codec), LogConfig(), CheckLimits(rewritten=SIZE)).is_plain


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4])
def test_old_messages_are_bounded_alike(codec: Codec, magic: int) -> None:
    with pytest.raises(RecordTooLargeError, match=f"at most {SIZE} bytes of records"):
        check_batch(wrapper(codec, magic), LogConfig(), CheckLimits(rewritten=SIZE))
    with pytest.raises(LongCheckError):
        check_batch(wrapper(codec, magic), LogConfig(), CheckLimits(quick=SIZE, rewritten=SIZE))
    assert not check_batch(wrapper(codec, magic), LogConfig(), CheckLimits(rewritten=2 * SIZE)).is_plain
