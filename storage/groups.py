"""Committed offsets of groups, in ``__consumer_offsets`` (spec 14.2).

A commit is a record: its key names group, topic and partition, and the newest value counts. Which partition of
``__consumer_offsets`` holds a group follows from its name. A value is visible once it was appended and synced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pyspark_commitlog.storage.format.internal import (
    GROUP_METADATA_TOPIC,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_group_key,
    partition_for,
)
from pyspark_commitlog.storage.format.tables import BinaryColumn, Records
from pyspark_commitlog.storage.manager import LogManager, TopicPartition

OFFSETS_PARTITIONS = 50  # offsets.topic.num.partitions


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """How far a group got in a partition."""

    offset: int  # the next one to read
    metadata: str = ""


class GroupOffsets:
    """Committed offsets below one log directory."""

    def __init__(self, manager: LogManager) -> None:
        self.manager = manager

    def fetch(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """What the group committed last, by topic and partition; empty for a group that never did.

        Reads the group's partition of ``__consumer_offsets`` from its start.
        """
        topic = self.manager.topics().get(GROUP_METADATA_TOPIC)
        if topic is None:
            return {}
        committed: dict[TopicPartition, CommittedOffset] = {}
        with self.manager.open_reader(GROUP_METADATA_TOPIC, partition_for(group, len(topic.partitions))) as reader:
            for records in reader.decided_records(columns=("key", "value")):
                _apply(records, group, committed)
        return committed

    def commit(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit offsets in one batch, so that all of them are visible or none; durable when it returns."""
        if offsets:
            log = self.manager.open_log(GROUP_METADATA_TOPIC, partition_for(group, self._partitions()))
            log.append_records(_commit_records(group, offsets, self.manager.clock.now_ms()))

    def _partitions(self) -> int:
        """Of ``__consumer_offsets``, made where it is missing."""
        topic = self.manager.topics().get(GROUP_METADATA_TOPIC)
        if topic is None:
            topic = self.manager.ensure_topic(GROUP_METADATA_TOPIC, partitions=OFFSETS_PARTITIONS)
        return len(topic.partitions)


def _apply(records: Records, group: str, committed: dict[TopicPartition, CommittedOffset]) -> None:
    assert records.keys is not None
    assert records.values is not None
    for key_bytes, value_bytes in zip(records.keys.to_list(), records.values.to_list(), strict=True):
        key = None if key_bytes is None else decode_group_key(key_bytes)
        if not isinstance(key, OffsetCommitKey) or key.group != group:
            continue
        if value_bytes is None:
            committed.pop((key.topic, key.partition), None)
        else:
            value = OffsetCommitValue.decode(value_bytes)
            committed[key.topic, key.partition] = CommittedOffset(value.offset, value.metadata)


def _commit_records(group: str, offsets: Mapping[TopicPartition, CommittedOffset], now_ms: int) -> Records:
    keys = [OffsetCommitKey(group, topic, partition).encode() for topic, partition in offsets]
    values = [OffsetCommitValue(each.offset, each.metadata, now_ms).encode() for each in offsets.values()]
    count = len(offsets)
    return Records(
        offsets=np.arange(count, dtype=np.int64),
        timestamps=np.full(count, now_ms, dtype=np.int64),
        timestamp_types=np.zeros(count, dtype=np.int8),
        keys=BinaryColumn.from_list([*keys]),
        values=BinaryColumn.from_list([*values]),
        headers=None,
    )
