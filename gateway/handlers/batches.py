"""Checks of a Produce request's records that do not need the log (as ``ProduceRequest``)."""

from __future__ import annotations

import struct

from ...protocol.bodies import ErrorCode
from ...protocol.errors import RequestError
from ...storage import Codec, is_of_driver, is_of_transactional_client

_SIZE_AT, _MAGIC_AT = 8, 16
MAGIC = 2  # the magic of record batches; smaller ones mean message sets, larger ones do not exist
_HEADER_BYTES = 61  # of a batch of magic 2
_ATTRIBUTES = struct.Struct(">h")
_ATTRIBUTES_AT = 21
_CODEC_MASK = 0x07
ONE_BATCH_FROM = 3  # the first version of Produce with one batch of magic 2 per partition
ZSTD_FROM = 7


def check_batch_set(records: memoryview, version: int) -> None:
    """Raises RequestError with Kafka's code unless a version of Produce may have the records of a partition.

    Old versions may have anything. The batch's content and its producer are checked later, for all versions.
    """
    if version < ONE_BATCH_FROM:
        return
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


def check_idempotent(producer_id: int) -> None:
    """Raises RequestError if a plain batch has the producer id of a transactional id or of a writer here.

    An idempotent producer has its id from InitProducerId, in ranges of its own. With the id of another producer, it
    could fence that one by a large epoch, or make its records look like repetitions.
    """
    if is_of_driver(producer_id) or is_of_transactional_client(producer_id):
        raise RequestError(
            ErrorCode.invalid_producer_id_mapping,
            f"producer id {producer_id} is that of a transactional id or of a writer of this log, such as Spark's, and "
            "is not taken from an idempotent producer: start the producer again, so that it asks for an id of its own",
        )
