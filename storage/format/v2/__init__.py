"""Message format 2: record batches (Kafka's DefaultRecordBatch and DefaultRecord), and how to locate their records."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ...errors import InvalidRecordError
from ...kernels import records as reading
from .. import record_columns as filling
from ..constants import Codec
from ..decompressed_parts import decompressed
from ..tables import BatchHeaders, Bools, Bytes, Int64s
from .header import (
    CHECKED_FROM,
    CRC_AT,
    LAYOUT,
    MAGIC,
    Header,
    checksums,
    empty_batch,
    encode_header,
    header_of,
    headers,
    placed,
    produced,
    read_header,
    set_append_time,
    set_max_timestamp,
    sign,
    stamp,
    stamp_producer,
)
from .small import encode_small
from .streamed import Survey, grows_to, survey_stream
from .writing import (
    HEADER_OVERHEAD_MAX,
    RECORD_OVERHEAD_MAX,
    BatchFields,
    Divided,
    EncodedBatches,
    ShareEncoder,
    encode,
    encode_batches,
)

__all__ = [
    "CHECKED_FROM",
    "CRC_AT",
    "HEADER_OVERHEAD_MAX",
    "LAYOUT",
    "MAGIC",
    "RECORD_OVERHEAD_MAX",
    "BatchFields",
    "Divided",
    "EncodedBatches",
    "Header",
    "ShareEncoder",
    "Survey",
    "checksums",
    "empty_batch",
    "encode",
    "encode_batches",
    "encode_header",
    "encode_small",
    "grows_to",
    "header_of",
    "headers",
    "parts",
    "placed",
    "produced",
    "read_header",
    "set_append_time",
    "set_max_timestamp",
    "sign",
    "stamp",
    "stamp_producer",
    "survey_stream",
    "value_of",
]


def parts(buffer: Bytes, headers: BatchHeaders, decompressed_bytes_max: int) -> list[filling.Part]:
    """Returns the parts that contain the records: each run of uncompressed batches is one; compressed ones are joined.

    A batch without bytes after its header holds no compressed stream, whatever codec it states.

    Raises InvalidRecordError with the position of a batch whose count is negative or that does not decompress.
    """
    table = headers.table
    wrong = np.flatnonzero(table["count"] < 0)
    if len(wrong):
        row = table[wrong[0]]
        raise InvalidRecordError(
            (f"the batch has a negative record count, {row['count']}"), position=int(row["position"])
        )
    layout = _record_table(headers)
    compressed = (headers.codec != Codec.NONE) & (table["size"] > LAYOUT.itemsize)
    found = []
    for first, last in runs(compressed):
        positions = table["position"][first:last]
        if not compressed[first]:
            found.append(filling.Part(buffer, layout[first:last], False, positions))
        else:
            batches = filling.Part(buffer, layout[first:last], False, positions)
            found += decompressed(batches, headers.codec[first:last], decompressed_bytes_max)
    return found


def runs(flags: Bools) -> list[tuple[int, int]]:
    """Returns (first row, last row + 1) for each run of equal neighbours."""
    bounds = [0, *(np.flatnonzero(flags[1:] != flags[:-1]) + 1).tolist(), len(flags)]
    return [(first, last) for first, last in pairwise(bounds) if last > first]


def _record_table(headers: BatchHeaders) -> Int64s:
    table = headers.table
    layout = np.empty((len(headers), reading.BATCH_FIELDS), dtype=np.int64)
    layout[:, reading.START] = table["position"] + LAYOUT.itemsize
    layout[:, reading.STOP] = table["position"] + table["size"]
    layout[:, reading.BASE_OFFSET] = table["base_offset"]
    layout[:, reading.BASE_TIMESTAMP] = table["base_timestamp"]
    layout[:, reading.FIXED_TIMESTAMP] = table["max_timestamp"]
    layout[:, reading.TIMESTAMP_TYPE] = headers.timestamp_type
    layout[:, reading.COUNT] = table["count"]
    return layout


def value_of(buffer: Bytes, headers: BatchHeaders) -> Bytes:
    """Returns the records of the first batch, as they are stored."""
    row = headers.table[0]
    return buffer[int(row["position"]) + LAYOUT.itemsize : int(row["position"] + row["size"])]
