"""Keys and values as text: UTF-8, or records of Kafka's internal topics (``DumpLogSegments``' message parsers)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from ..errors import InvalidRecordError
from ..format.files.file_names import TopicPartition
from ..format.internal.internal_topics import TransactionLogValue, TransactionState, decode_transaction_key
from ..format.tables import BinaryColumn, Bools, Records
from .brokers import parse_cluster_metadata, parse_remote_log_metadata
from .coordinators import DELETED, CoordinatorRecords, version_of
from .options import DumpOptions

Texts = Sequence[str | None]

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\ufffd".encode()


class Contents(NamedTuple):
    """Keys and payloads of n records as text; None for a record without."""

    keys: Texts
    payloads: Texts


Parse = Callable[[int, bytes | None, bytes | None], tuple[str | None, str | None]]  # offset, key, value
Decoder = Callable[[Records, Bools], Contents]  # records, and which of them are control records, which have no text


def as_text(column: BinaryColumn) -> list[str | None]:
    """Returns the values as text of UTF-8, with U+FFFD for invalid bytes; None for null."""
    data = column.data.tobytes()
    offsets = column.offsets.tolist()
    texts: list[str | None]
    if data.isascii():  # one conversion for all: each character is one byte
        text = data.decode("ascii")
        texts = [text[a:b] for a, b in pairwise(offsets)]
    else:
        texts = [_decoded(data[a:b]) for a, b in pairwise(offsets)]
    if column.valid is not None:
        for row in (~column.valid).nonzero()[0].tolist():
            texts[row] = None
    return texts


def _decoded(data: bytes) -> str:
    """Decodes UTF-8 as Java does: an encoded half of a surrogate pair gives one U+FFFD, not one per byte."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT, data).decode("utf-8", "replace")


def _strings(records: Records, control: Bools) -> Contents:
    assert records.keys is not None
    assert records.values is not None
    keys, payloads = as_text(records.keys), as_text(records.values)
    for row in control.nonzero()[0].tolist():
        keys[row] = payloads[row] = None
    return Contents(keys, payloads)


def _each(parse: Parse) -> Decoder:
    """Returns a decoder that parses records one by one, which is fast enough for internal topics."""

    def decode(records: Records, control: Bools) -> Contents:
        assert records.keys is not None
        assert records.values is not None
        rows = zip(records.offsets.tolist(), records.keys.to_list(), records.values.to_list(), strict=True)
        pairs = [(None, None) if skip else parse(*row) for skip, row in zip(control.tolist(), rows, strict=True)]
        return Contents([key for key, _ in pairs], [payload for _, payload in pairs])

    return decode


# --- __transaction_state


def _parse_transactions(offset: int, key: bytes | None, value: bytes | None) -> tuple[str, str | None]:
    if key is None:
        raise InvalidRecordError(f"the record at offset {offset} has no key, which internal topics require")
    decoded = decode_transaction_key(key)
    if decoded is None:
        return f"unknown::version={version_of(key)}", None
    payload = DELETED if value is None else _transaction(TransactionLogValue.decode(value))
    return f"transaction_metadata::transactionalId={decoded.transactional_id}", payload


def _transaction(value: TransactionLogValue) -> str:
    partitions = ",".join(f"{topic}-{partition}" for topic, partition in _partitions_of(value))
    return (
        f"producerId:{value.producer_id},producerEpoch:{value.producer_epoch},"
        f"state={_state_name(value.transaction_status)},partitions=[{partitions}],"
        f"txnLastUpdateTimestamp={value.transaction_last_update_timestamp_ms},"
        f"txnTimeoutMs={value.transaction_timeout_ms}"
    )


def _state_name(state: TransactionState) -> str:
    return "".join(word.capitalize() for word in state.name.split("_"))


def _partitions_of(value: TransactionLogValue) -> list[TopicPartition]:
    """Returns the partitions in the order in which Kafka's tool prints them: that of its hash set."""
    if value.transaction_status is TransactionState.EMPTY:
        return []
    table = _HashSet()
    for topic in value.transaction_partitions or ():
        table.add_all({TopicPartition(topic.topic, partition) for partition in topic.partition_ids})
    return table.elements()


class _HashSet:
    """The iteration order of Scala's mutable.HashSet: by bucket, within a bucket by hash.

    A bucket is the low bits of the hash. There are 16 buckets, more for a set that would fill three quarters of them.
    The elements of a set of up to four are added one by one, and double the buckets when these fill up; those of a
    larger set do not.
    """

    def __init__(self) -> None:
        self.buckets = 16
        self.hashes: dict[TopicPartition, int] = {}

    def add_all(self, elements: set[TopicPartition]) -> None:
        while self.buckets < int((len(elements) + 1) / 0.75):
            self.buckets *= 2
        for element in elements:
            if len(elements) <= 4 and len(self.hashes) + 1 >= int(self.buckets * 0.75):
                self.buckets *= 2
            self.hashes[element] = _improved_hash(*element)

    def elements(self) -> list[TopicPartition]:
        return sorted(self.hashes, key=lambda e: (self.hashes[e] & (self.buckets - 1), _signed(self.hashes[e])))


def _improved_hash(topic: str, partition: int) -> int:
    """Returns Java's TopicPartition.hashCode, with the high half mixed into the low half as in Scala's hash set."""
    units = topic.encode("utf-16-be", "surrogatepass")
    text = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        text = (31 * text + (high << 8 | low)) & 0xFFFFFFFF
    code = (31 * (31 + partition) + text) & 0xFFFFFFFF
    return code ^ (code >> 16)


def _signed(value: int) -> int:
    return value - 2**32 if value >= 2**31 else value


def decoder_for(options: DumpOptions) -> Decoder:
    """Returns the decoder for keys and values that the options ask for."""
    return (_DECODERS_4 if options.format == "4.0" else _DECODERS)[options.decoder]


_DECODERS: dict[str, Decoder] = {
    "string": _strings,
    "offsets": _each(CoordinatorRecords("groups")),
    "transaction-log": _each(_parse_transactions),
    "share-group-state": _each(CoordinatorRecords("share_state")),
    "cluster-metadata": _each(parse_cluster_metadata),
    "remote-log-metadata": _each(parse_remote_log_metadata),
}
_DECODERS_4 = _DECODERS | {
    "transaction-log": _each(CoordinatorRecords("transactions")),
    "remote-log-metadata": _each(partial(parse_remote_log_metadata, hidden=())),
}
