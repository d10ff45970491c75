"""The small files of a log directory as bytes, computed from a state."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable

from ...config import LogConfig
from ...format import v2
from ...format.files import checkpoints, file_names as names
from ...format.files.file_names import TopicPartition
from ...format.internal.internal_topics import GROUP_METADATA_TOPIC, OffsetCommitKey, OffsetCommitValue
from ...format.tables import Records
from ..commits.state import PartitionState, State
from .layout import has_holes

TOPICS_FILE = "topics.json"
GROUPS_ID = checkpoints.encode_id(uuid.UUID(int=0x5C0FF5E7))  # of the topic that shows the offsets of groups
GROUPS_CONFIGS = {"cleanup.policy": "compact", "segment.bytes": "104857600"}  # as a broker creates it
ROOT_FILES = (
    TOPICS_FILE,
    names.RECOVERY_POINT_CHECKPOINT,
    names.LOG_START_OFFSET_CHECKPOINT,
    names.CLEANER_OFFSET_CHECKPOINT,
)


def shows_groups(state: State) -> bool:
    """Whether the offsets of groups are shown as a topic.

    They are if there are some, and no real topic has the name.
    """
    return bool(state.groups) and GROUP_METADATA_TOPIC not in state.topic_ids


def directories(state: State) -> list[str]:
    """Returns the names of the partitions' directories; they show which copies to here are not finished."""
    return [
        (names.unfinished_directory if each.is_unfinished else names.partition_directory)(
            state.topics[topic_id].name, number
        )
        for (topic_id, number), each in state.partitions.items()
    ]


def partition_key(state: State, directory: str) -> tuple[str, int] | None:
    """Returns topic id and number of the partition with a directory's name; None: it is not a partition's name."""
    if directory.endswith(names.UNFINISHED):
        unfinished = (key for key, each in state.partitions.items() if each.is_unfinished)
        return next(
            (key for key in unfinished if names.unfinished_directory(state.topics[key[0]].name, key[1]) == directory),
            None,
        )
    parsed = names.parse_partition_directory(directory)
    if parsed is None or parsed.kind != "plain" or names.partition_directory(*parsed[:2]) != directory:
        return None
    return state.topic_ids.get(parsed.topic, ""), parsed.partition


def checkpointed(state: State, name: str) -> dict[tuple[str, int], int]:
    """Returns the offsets in a checkpoint, by topic and partition."""
    return {
        (state.topics[topic_id].name, number): offset
        for (topic_id, number), each in state.partitions.items()
        if (offset := _checkpointed(each, name)) is not None
    }


def _checkpointed(partition: PartitionState, name: str) -> int | None:
    """Returns the offset of a partition in a checkpoint; None if it has none there."""
    if partition.is_unfinished:
        return None
    if name == names.RECOVERY_POINT_CHECKPOINT:
        return partition.end
    if name == names.LOG_START_OFFSET_CHECKPOINT:
        return partition.log_start
    return partition.clean_end or (0 if has_holes(partition.segments) else None)


def topics_file(state: State) -> bytes:
    """Returns ``topics.json``, in its version 1."""
    topics = {
        topic.name: {"id": topic.topic_id, "partitions": topic.partitions, "configs": dict(topic.configs)}
        for topic in state.topics.values()
    }
    if shows_groups(state):
        topics[GROUP_METADATA_TOPIC] = {"id": GROUPS_ID, "partitions": 1, "configs": GROUPS_CONFIGS}
    return json.dumps({"version": 1, "topics": topics}).encode()


def offsets_file(offsets: Iterable[tuple[str, int, int]]) -> bytes:
    """Returns a checkpoint with (topic, partition, offset)."""
    return checkpoints.encode_offsets({TopicPartition(topic, number): offset for topic, number, offset in offsets})


def metadata_file(topic_id: str) -> bytes:
    """Returns ``partition.metadata``."""
    return checkpoints.encode_partition_metadata(checkpoints.decode_id(topic_id))


def group_batches(state: State) -> v2.EncodedBatches:
    """Returns the offsets of groups as records of ``__consumer_offsets``, from offset 0 on; there must be some."""
    found = [
        (group, partition.rpartition("-"), each)
        for group, partitions in sorted(state.groups.items())
        for partition, each in sorted(partitions.items())
    ]
    keys: list[bytes | None] = [
        OffsetCommitKey(group, topic, int(number)).encode() for group, (topic, _, number), _ in found
    ]
    values: list[bytes | None] = [OffsetCommitValue(each.offset, each.metadata, -1).encode() for *_, each in found]
    limit = LogConfig().batch_size_max - v2.LAYOUT.itemsize
    return v2.encode_batches(Records.to_append(keys, values, -1), v2.BatchFields(), batch_bytes_max=limit)
