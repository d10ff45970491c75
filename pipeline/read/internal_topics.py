"""Kafka's internal topics as columns: the option ``decode``.

``offsets``: a row per commit in ``__consumer_offsets``. If the commit deleted an offset, only ``group``, ``topic``,
``partition`` and the ``record…`` columns are not null. ``transactions``: a row per state in ``__transaction_state``.

Columns are named as in Kafka's message schemas (OffsetCommitValue, TransactionLogValue); times are timestamps.
``recordPartition``, ``recordOffset`` and ``recordTimestamp`` are those of the record in the internal topic. Records of
other kinds, such as those of group members, are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import pyarrow as pa

from ...arrow.batches import is_beyond_spark, time_beyond_spark
from ...storage import (
    CorruptionError,
    CorruptRecordError,
    OffsetCommitKey,
    OffsetCommitValue,
    Records,
    TopicPartition,
    TransactionLogValue,
    decode_group_key,
    decode_transaction_key,
)

Row = dict[str, Any]

DECODED_FROM = ("key", "value")  # the columns of a record that decoding needs

_TIME = pa.timestamp("ms", tz="UTC")
_US_TIME = pa.timestamp("us", tz="UTC")  # Spark's
_RECORD = {"recordPartition": pa.int32(), "recordOffset": pa.int64(), "recordTimestamp": _US_TIME}
_OFFSETS = {
    "group": pa.string(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "leaderEpoch": pa.int32(),
    "metadata": pa.string(),
    "commitTimestamp": _US_TIME,
    "expireTimestamp": _US_TIME,
    **_RECORD,
}
_PARTITIONS = pa.struct([pa.field("topic", pa.string()), pa.field("partitionIds", pa.list_(pa.int32()))])
_TRANSACTIONS = {
    "transactionalId": pa.string(),
    "producerId": pa.int64(),
    "producerEpoch": pa.int32(),
    "transactionTimeoutMs": pa.int32(),
    "transactionStatus": pa.string(),
    "transactionPartitions": pa.list_(_PARTITIONS),
    "transactionLastUpdateTimestamp": _US_TIME,
    "transactionStartTimestamp": _US_TIME,
    **_RECORD,
}


class Decode(Enum):
    """The internal topic whose records are decoded: the values of option ``decode``."""

    OFFSETS = "offsets"
    TRANSACTIONS = "transactions"

    @property
    def columns(self) -> dict[str, pa.DataType]:
        """The Arrow type of each column, in order."""
        return _COLUMNS[self]

    def to_batch(
        self, records: Records, source: TopicPartition, schema: pa.Schema, *, null_times: bool = False
    ) -> pa.RecordBatch:
        """Returns the decoded ``records``, which must have keys and values, with the columns of ``schema``.

        ``schema`` is a selection of :attr:`columns`. Raises CorruptionError for a record that does not have Kafka's
        format, and TimeBeyondSparkError for a time that a column cannot hold; with ``null_times``, such a time is null.
        Both errors name partition and offset.
        """
        rows = list(_rows(records, source, _ROWS[self]))
        for row in rows:
            _check_times(row, [field.name for field in schema if field.type == _US_TIME], source, null_times)
        arrays = [_column([row.get(field.name) for row in rows], field.type) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _check_times(row: Row, names: list[str], source: TopicPartition, null_times: bool) -> None:
    for name in names:
        if (time_ms := row.get(name)) is not None and is_beyond_spark(time_ms):
            if not null_times:
                raise time_beyond_spark(time_ms, name, source, row["recordOffset"])
            row[name] = None


def _rows(
    records: Records, source: TopicPartition, decode: Callable[[bytes, bytes | None], Row | None]
) -> Iterator[Row]:
    assert records.keys is not None
    assert records.values is not None
    columns = (records.keys.to_list(), records.values.to_list(), records.offsets.tolist(), records.timestamps.tolist())
    for key, value, offset, timestamp in zip(*columns, strict=True):
        try:
            row = None if key is None else decode(key, value)
        except CorruptionError as error:
            raise CorruptRecordError(f"offset {offset} of {source}: {error}") from error
        if row is not None:
            yield row | {"recordPartition": source.partition, "recordOffset": offset, "recordTimestamp": timestamp}


def _offset_row(key_bytes: bytes, value_bytes: bytes | None) -> Row | None:
    key = decode_group_key(key_bytes)
    if not isinstance(key, OffsetCommitKey):
        return None
    row = {"group": key.group, "topic": key.topic, "partition": key.partition}
    if value_bytes is None:
        return row
    value = OffsetCommitValue.decode(value_bytes)
    return row | {
        "offset": value.offset,
        "leaderEpoch": _known(value.leader_epoch),
        "metadata": value.metadata,
        "commitTimestamp": value.commit_timestamp,
        "expireTimestamp": _known(value.expire_timestamp),
    }


def _transaction_row(key_bytes: bytes, value_bytes: bytes | None) -> Row | None:
    key = decode_transaction_key(key_bytes)
    if key is None:
        return None
    row: Row = {"transactionalId": key.transactional_id}
    if value_bytes is None:
        return row
    value = TransactionLogValue.decode(value_bytes)
    return row | {
        "producerId": value.producer_id,
        "producerEpoch": value.producer_epoch,
        "transactionTimeoutMs": value.transaction_timeout_ms,
        "transactionStatus": "".join(word.capitalize() for word in value.transaction_status.name.split("_")),
        "transactionPartitions": [
            {"topic": each.topic, "partitionIds": list(each.partition_ids)}
            for each in value.transaction_partitions or ()
        ],
        "transactionLastUpdateTimestamp": _known(value.transaction_last_update_timestamp_ms),
        "transactionStartTimestamp": _known(value.transaction_start_timestamp_ms),
    }


def _known(number: int) -> int | None:
    """Returns ``number``, or None if it is negative: Kafka writes -1 for a missing value."""
    return None if number < 0 else number


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(values, _TIME).cast(kind) if kind == _US_TIME else pa.array(values, kind)


_COLUMNS = {Decode.OFFSETS: _OFFSETS, Decode.TRANSACTIONS: _TRANSACTIONS}
_ROWS = {Decode.OFFSETS: _offset_row, Decode.TRANSACTIONS: _transaction_row}
