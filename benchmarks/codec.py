"""Decode batches to columns and encode them, compared with aiokafka's compiled codec and kafka-python's.

The same bytes are used in one process: 200,000 records in batches of 16 KiB, as a producer makes them, and of 256 KiB.
Both sides verify checksums when they decode, and read offset, timestamp, key and value of every record. The libraries
return one object per record, ours returns columns; what an engine does with the records afterwards is not measured. The
levels are Kafka's defaults on both sides. For lz4 that is the fast compressor, which has to be set in aiokafka, because
it takes Kafka's level 9 for lz4's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import aiokafka.codec
import numpy as np
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from kafka.record import (
    default_records as kafka_python,  # type: ignore[import-untyped]
    memory_records as kafka_python_reading,
)

from benchmarks.comparison import Comparison, Setting
from benchmarks.rows import records
from benchmarks.timing import Timing, alternate
from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.tables import Bytes, Records

RECORDS = 200_000
SLOWER = 10  # kafka-python gets this many times fewer records
BATCH_BYTES = (16 * 2**10, 256 * 2**10)
CALLS = 8  # per round: calls are short, and the cores of a shared machine may be slow for a second or so

Rows = list[tuple[int, bytes, bytes]]


class Library(NamedTuple):
    """A library to compare with. Both have the same classes; aiokafka's derive from kafka-python's."""

    name: str
    builder: Callable[..., Any]
    reader: Callable[[bytes], Any]


class Asked(NamedTuple):
    decode: float | None = None
    encode: float | None = None
    decode_aim: float | None = None
    encode_aim: float | None = None


AIOKAFKA = Library("aiokafka", DefaultRecordBatchBuilder, MemoryRecords)
KAFKA_PYTHON = Library("kafka-python", kafka_python.DefaultRecordBatchBuilder, kafka_python_reading.MemoryRecords)
ASKED = {
    Codec.NONE: Asked(5, 3, 10, 5),
    Codec.SNAPPY: Asked(),
    Codec.LZ4: Asked(1.3, 1.3),
    Codec.ZSTD: Asked(1.3, 1.3),
}


def measure(setting: Setting) -> Iterator[Comparison]:
    with kafkas_lz4_level():
        for codec, batch_bytes in product(ASKED, BATCH_BYTES):
            batches = Batches(setting.sized(RECORDS), codec, batch_bytes)
            yield from compare(batches, AIOKAFKA, ASKED[codec], setting.rounds * CALLS)
    batches = Batches(setting.sized(RECORDS // SLOWER), Codec.NONE, BATCH_BYTES[0])
    yield from compare(batches, KAFKA_PYTHON, Asked(), setting.rounds * CALLS)


@contextmanager
def kafkas_lz4_level() -> Iterator[None]:
    """Make aiokafka compress as Kafka does by default: with lz4's fast compressor, level 0 of its library."""
    defaults = aiokafka.codec.lz4_encode.__defaults__
    aiokafka.codec.lz4_encode.__defaults__ = (0,)
    yield
    aiokafka.codec.lz4_encode.__defaults__ = defaults


class Batches:
    """The same records as columns, as rows, and as the bytes of a log."""

    def __init__(self, count: int, codec: Codec, batch_bytes: int) -> None:
        self.codec, self.batch_bytes = codec, batch_bytes
        self.records: Records = records(np.arange(count))
        self.rows = make_rows(self.records)
        self.buffer = self.encode().buffer
        self.data = self.buffer.tobytes()

    def encode(self) -> v2.EncodedBatches:
        return v2.encode_batches(self.records, v2.BatchFields(codec=self.codec), batch_bytes_max=self.batch_bytes)

    def work(self, direction: str) -> Mapping[str, float]:
        """Checksums of the bytes in the log, one copy of each record's bytes, the codec."""
        moved = float(sum(len(column.data) for column in (self.records.keys, self.records.values) if column))
        codec = {} if self.codec not in {Codec.LZ4, Codec.ZSTD} else {f"{self.codec.name.lower()} {direction}": moved}
        return {"crc32c": float(len(self.data)), "memcpy": moved, **codec}


def make_rows(table: Records) -> Rows:
    assert table.keys is not None
    assert table.values is not None
    columns = (table.timestamps.tolist(), table.keys.to_list(), table.values.to_list())
    return list(zip(*columns, strict=True))  # type: ignore[arg-type]


def compare(batches: Batches, library: Library, asked: Asked, rounds: int) -> Iterator[Comparison]:
    theirs, ours = partial(decode_theirs, library, batches.data), partial(decode_ours, batches.buffer)
    if theirs() != ours():
        raise ValueError(f"{library.name} does not read the records that ours reads")
    name = f"in process, {batches.codec.name.lower()}, batches of {batches.batch_bytes // 2**10} KiB"
    timings = alternate({"ours": ours, "theirs": theirs}, rounds)
    yield _comparison(f"decode {name}", library, timings, asked.decode, asked.decode_aim, batches.work("decompress"))
    timings = alternate({"ours": batches.encode, "theirs": partial(encode_theirs, library, batches)}, rounds)
    yield _comparison(f"encode {name}", library, timings, asked.encode, asked.encode_aim, batches.work("compress"))


def _comparison(
    operation: str,
    library: Library,
    timings: Mapping[str, Timing],
    asked: float | None,
    aim: float | None,
    work: Mapping[str, float],
) -> Comparison:
    return Comparison(operation, library.name, **timings, asked=asked, aim=aim, work=work)


def encode_theirs(library: Library, batches: Batches) -> list[bytes]:
    """Encode as their producers do: append until the batch is full."""
    encoded, left = [], iter(batches.rows)
    row = next(left, None)
    while row is not None:
        builder = library.builder(2, int(batches.codec), 0, -1, -1, -1, batches.batch_bytes)
        offset = 0
        while row is not None and builder.append(offset, row[0], row[1], row[2], []) is not None:
            offset += 1
            row = next(left, None)
        encoded.append(bytes(builder.build()))
    return encoded


def decode_theirs(library: Library, data: bytes) -> int:
    batches, count = library.reader(data), 0
    while (batch := batches.next_batch()) is not None:
        if not batch.validate_crc():
            raise ValueError("checksum")
        for record in batch:
            if record.offset < 0 or record.timestamp < 0 or record.key is None or record.value is None:
                raise ValueError("record")
            count += 1
    return count


def decode_ours(buffer: Bytes) -> int:
    return len(formats.decode(buffer, formats.scan(buffer).headers).records)
