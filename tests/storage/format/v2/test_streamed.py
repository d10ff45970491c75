"""Surveys of compressed batches in pieces: they say what a survey of the whole says, in the memory of some pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pyspark_commitlog.storage.format.compression import compress
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.tables import Bytes
from pyspark_commitlog.storage.format.v2 import streamed
from pyspark_commitlog.storage.format.v2.streamed import chunks, survey_stream
from tests.support.logs import reference

CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
LIMIT = 1 << 24
HEADERS = st.lists(st.tuples(st.binary(max_size=20), st.none() | st.binary(max_size=90)), max_size=3)
RECORDS = st.lists(
    st.tuples(st.integers(-1, 2**62), st.none() | st.binary(max_size=90), st.none() | st.binary(max_size=300), HEADERS),
    min_size=1,
    max_size=9,
)


def encoded(*rows: tuple[object, ...]) -> bytes:
    records = [reference.Record(offset, *row) for offset, row in enumerate(rows)]  # type: ignore[arg-type]
    return b"".join(reference.encode_record(record, 0, 0) for record in records)


def stream(codec: Codec, body: bytes) -> Bytes:
    return compress(codec, np.frombuffer(body, dtype=np.uint8))


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are larger than a chunk."""
    monkeypatch.setattr(streamed, "CHUNK_BYTES", 50)


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=60, deadline=None)
@given(rows=RECORDS, at=st.integers(0, 5000), byte=st.none() | st.integers(0, 255), more=st.integers(-1, 1))
def test_a_survey_in_pieces_says_what_a_survey_of_all_says(
    codec: Codec, rows: list[tuple[object, ...]], at: int, byte: int | None, more: int
) -> None:
    body = bytearray(encoded(*((time, key, value, tuple(headers)) for time, key, value, headers in rows)))
    if byte is not None:
        body[at % len(body)] = byte
    count = len(rows) + more
    found = survey_stream(codec, stream(codec, bytes(body)), count, 0, LIMIT)
    expected = reference.survey(bytes(body), count, 0) if count else None
    assert (None if found is None else tuple(found)) == (None if expected is None else (*expected, len(body)))


@pytest.mark.parametrize("codec", CODECS)
def test_a_stream_that_is_cut_off_or_too_large_is_not_surveyed(codec: Codec) -> None:
    body = encoded(*((5, b"k", bytes(200), ()) for _ in range(20)))
    whole = stream(codec, body)
    assert survey_stream(codec, whole, 20, 0, len(body)) is not None
    assert survey_stream(codec, whole, 20, 0, len(body) - 1) is None
    for cut in (1, 4, 9, len(whole) // 2):
        assert survey_stream(codec, whole[:-cut], 20, 0, LIMIT) is None


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_no_piece_is_larger_than_a_chunk(codec: Codec) -> None:
    pieces = [len(piece) for piece in chunks(codec, stream(codec, bytes(1 << 20)), LIMIT)]
    assert sum(pieces) == 1 << 20
    assert max(pieces) <= streamed.CHUNK_BYTES
