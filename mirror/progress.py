"""A mirror's progress in a source: a compacted topic of the target, written in the mirror's transactions.

Each group.id has one such topic, with one partition, which only the mirror of that group.id writes. A record's key
names a partition of the source, with Kafka 0.7 also its broker, and its value has the offset of the next record to
read there, with the id of the topic that it is an offset of.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..storage import BatchFields, EncodedBatches, Records, TopicPartition, encode_batches
from .sources.port import BrokerPartition, SourcePartition

PREFIX = "mirror-progress-"
CONFIGS = {"cleanup.policy": "compact"}
_BATCH_BYTES = 512 << 10


def progress_topic(group: str) -> str:
    """Returns the name of a group's progress topic."""
    return PREFIX + group


class NextOffset(NamedTuple):
    """The offset of the next record to mirror from a partition."""

    offset: int
    topic_id: str | None = None  # None: not known, as from older brokers and in progress of versions before 0.2

    def to_json(self) -> bytes:
        named = {} if self.topic_id is None else {"topic_id": self.topic_id}
        return json.dumps({"offset": self.offset, **named}).encode()

    @classmethod
    def from_json(cls, text: bytes) -> NextOffset:
        fields: dict[str, Any] = json.loads(text)
        return cls(fields["offset"], fields.get("topic_id"))


def encoded(progress: Mapping[SourcePartition, NextOffset], now_ms: int) -> EncodedBatches:
    """Returns batches with the next offset of each partition."""
    keys: list[bytes | None] = [json.dumps([*partition]).encode() for partition in progress]
    values: list[bytes | None] = [each.to_json() for each in progress.values()]
    return encode_batches(Records.to_append(keys, values, now_ms), BatchFields(), batch_bytes_max=_BATCH_BYTES)


def decoded(records: Records) -> dict[SourcePartition, NextOffset]:
    """Returns the newest offset of each partition in records, in log order."""
    assert records.keys is not None
    assert records.values is not None
    found: dict[SourcePartition, NextOffset] = {}
    for key, value in zip(records.keys.to_list(), records.values.to_list(), strict=True):
        if key is not None and value is not None:
            names = json.loads(key)
            partition = TopicPartition(*names) if len(names) == len(TopicPartition._fields) else BrokerPartition(*names)
            found[partition] = NextOffset.from_json(value)
    return found
