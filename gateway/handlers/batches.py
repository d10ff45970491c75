"""Checks of a Produce request's records that do not need the log (as ``ProduceRequest``)."""

from __future__ import annotations

import struct
from typing import NamedTuple

from ...protocol import ErrorCode, RequestError
from ...storage import Codec

_SIZE_AT, _MAGIC_AT = 8, 16
MAGIC = 2  # of a record batch; older ones are of message sets, and there are no newer ones
_HEADER_BYTES = 61  # of a batch of magic 2
_ATTRIBUTES = struct.Struct(">h")
_ATTRIBUTES_AT = 21
_PRODUCER = struct.Struct(">qhi")  # id, epoch, base sequence
_PRODUCER_AT = 43
_CODEC_MASK, _TRANSACTIONAL_MASK = 0x07, 0x10
ONE_BATCH_FROM = 3  # the first version of Produce that has one batch of magic 2 a partition
ZSTD_FROM = 7


class BatchHead(NamedTuple):
    """The producer that a batch's header names."""

    producer_id: int
    producer_epoch: int
    is_transactional: bool


def check_batch_set(records: memoryview, version: int) -> BatchHead | None:
    """Returns the head of a partition's single batch; None for message sets, which old versions of Produce have.

    Raises RequestError with Kafka's code. The batch's content is checked when it is appended.
    """
    if version < ONE_BATCH_FROM:
        return None
    if len(records) <= _MAGIC_AT:
        raise RequestError(ErrorCode.invalid_record, "the request has no record batch for the partition")
    magic = records[_MAGIC_AT]
    if magic != MAGIC:
        code = ErrorCode.invalid_record if magic < MAGIC else ErrorCode.corrupt_message
        raise RequestError(code, f"the record batch has magic {magic}, but must have {MAGIC}")
    size = int.from_bytes(records[_SIZE_AT : _SIZE_AT + 4], "big", signed=True) + _SIZE_AT + 4
    if size < _HEADER_BYTES:
        raise RequestError(ErrorCode.corrupt_message, f"the record batch cannot have {size} bytes")
    if size > len(records):
        raise RequestError(ErrorCode.invalid_record, f"the record batch has {len(records)} of its {size} bytes")
    if size < len(records):
        raise RequestError(ErrorCode.invalid_record, "the request has more than one record batch for the partition")
    attributes: int = _ATTRIBUTES.unpack_from(records, _ATTRIBUTES_AT)[0]
    if attributes & _CODEC_MASK == Codec.ZSTD and version < ZSTD_FROM:
        raise RequestError(
            ErrorCode.unsupported_compression_type, f"zstd needs version {ZSTD_FROM} or later of Produce"
        )
    producer_id, producer_epoch, _ = _PRODUCER.unpack_from(records, _PRODUCER_AT)
    return BatchHead(producer_id, producer_epoch, bool(attributes & _TRANSACTIONAL_MASK))
