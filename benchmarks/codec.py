"""Batches to columns and back, beside aiokafka's compiled codec, on the same bytes in the same run.

200,000 records of 16-byte keys and 100-byte values in batches of 16 KiB and of 256 KiB, every codec at its default
level. Both sides verify checksums when they decode and read offset, timestamp, key and value of every record. aiokafka
gives one object a record, ours columns: what an engine does with the records afterwards is not measured. The defaults
differ in two codecs: aiokafka has gzip's level 9 for our 6, and LZ4's high compressor for what Kafka calls level 9, the
fast one; their rows for encoding compare what a user gets, not equal work.

Run it with ``python -m benchmarks.codec`` (needs the extra ``bench``), on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import product

import numpy as np
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from rich.console import Console
from rich.table import Table

from benchmarks.timing import alternate
from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.fields import Codec
from pyspark_commitlog.storage.format.tables import BinaryColumn, Bytes, Records

KEY_BYTES, VALUE_BYTES = 16, 100
BATCH_BYTES = (16 * 2**10, 256 * 2**10)
WORDS = 5_000  # values are made of so many words, so that they compress about as text does

Rows = list[tuple[int, bytes, bytes]]


def make_records(count: int) -> Records:
    chance = np.random.default_rng(7)
    words = chance.integers(97, 123, size=(WORDS, 10), dtype=np.uint8)
    values = words[chance.integers(0, WORDS, size=count * VALUE_BYTES // 10)].reshape(-1)
    keys = np.frombuffer(b"".join(b"key-%012d" % i for i in range(count)), dtype=np.uint8)
    return Records(
        offsets=np.arange(count),
        timestamps=1_700_000_000_000 + np.arange(count) // 10,
        timestamp_types=np.zeros(count, dtype=np.int8),
        keys=BinaryColumn(keys, np.arange(count + 1, dtype=np.int32) * KEY_BYTES, None),
        values=BinaryColumn(values, np.arange(count + 1, dtype=np.int32) * VALUE_BYTES, None),
        headers=None,
    )


def make_rows(records: Records) -> Rows:
    assert records.keys is not None
    assert records.values is not None
    columns = (records.timestamps.tolist(), records.keys.to_list(), records.values.to_list())
    return list(zip(*columns, strict=True))  # type: ignore[arg-type]


def encode_theirs(rows: Rows, codec: Codec, batch_bytes: int) -> list[bytes]:
    """As its producer does it: append until the batch is full."""
    batches, left = [], iter(rows)
    row = next(left, None)
    while row is not None:
        builder = DefaultRecordBatchBuilder(2, int(codec), 0, -1, -1, -1, batch_bytes)
        offset = 0
        while row is not None and builder.append(offset, row[0], row[1], row[2], []) is not None:
            offset += 1
            row = next(left, None)
        batches.append(bytes(builder.build()))
    return batches


def decode_theirs(data: bytes) -> int:
    batches, count = MemoryRecords(data), 0
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


def peers(records: Records, rows: Rows, codec: Codec, batch_bytes: int) -> dict[str, dict[str, Callable[[], object]]]:
    fields = v2.BatchFields(codec=codec)
    buffer = v2.encode_batches(records, fields, batch_bytes_max=batch_bytes).buffer
    data = buffer.tobytes()
    if decode_theirs(data) != decode_ours(buffer):
        raise ValueError("the two do not read the same records")
    return {
        "decode": {"ours": lambda: decode_ours(buffer), "aiokafka": lambda: decode_theirs(data)},
        "encode": {
            "ours": lambda: v2.encode_batches(records, fields, batch_bytes_max=batch_bytes),
            "aiokafka": lambda: encode_theirs(rows, codec, batch_bytes),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    records = make_records(arguments.records)
    rows = make_rows(records)
    table = Table("batches", "codec", "", "ours, M/s", "aiokafka, M/s", "ratio", "spread ours", "spread aiokafka")
    for batch_bytes, codec in product(BATCH_BYTES, Codec):
        for what, pair in peers(records, rows, codec, batch_bytes).items():
            ours, theirs = alternate(pair, arguments.rounds).values()
            rates = [f"{len(rows) / timing.median / 1e6:.2f}" for timing in (ours, theirs)]
            spreads = [f"{timing.fastest * 1e3:.0f} to {timing.slowest * 1e3:.0f} ms" for timing in (ours, theirs)]
            table.add_row(
                f"{batch_bytes // 2**10} KiB",
                codec.name.lower(),
                what,
                *rates,
                f"{theirs.median / ours.median:.1f}",
                *spreads,
            )
    Console().print(table)


if __name__ == "__main__":
    main()
