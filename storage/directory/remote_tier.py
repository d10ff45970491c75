"""Finds the offsets of a broker's partitions that are only in remote storage, which this engine does not read.

A broker with tiered storage deletes local segments once they are copied, and goes on serving their records. Its
``log-start-offset-checkpoint`` then has the first offset that it serves, below the first local segment (Kafka's
``LogManager.checkpointLogStartOffsetsInDir``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..format.files import file_names
from ..format.files.file_names import TopicPartition
from ..format.internal.internal_topics import REMOTE_LOG_METADATA_TOPIC
from .broker_settings.metadata_log import read_metadata_log
from .manager import LogManager

REMOTE_STORAGE_KEY = "remote.storage.enable"


def remote_offsets(manager: LogManager, first_offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, range]:
    """Returns the offsets that only remote storage has, by partition; no entry for a partition without such offsets.

    ``first_offsets``: the first offset of each partition in this directory. A crash can also make the checkpoint lower
    than the first offset, so the topic must have tiered storage enabled, or the directory must have partitions of
    ``__remote_log_metadata``.
    """
    log_starts = manager.offsets(file_names.LOG_START_OFFSET_CHECKPOINT)
    below = {
        partition: range(log_starts[partition], first)
        for partition, first in first_offsets.items()
        if log_starts.get(partition, first) < first
    }
    tiered = _tiered(manager, {topic for topic, _ in below})
    return {partition: offsets for partition, offsets in below.items() if partition[0] in tiered}


def _tiered(manager: LogManager, topics: Iterable[str]) -> set[str]:
    wanted = set(topics)
    if not wanted or manager.partitions_found(REMOTE_LOG_METADATA_TOPIC):
        return wanted
    found = manager.topics()
    enabled = {name for name in wanted if found[name].configs.get(REMOTE_STORAGE_KEY) == "true"}
    of_broker = read_metadata_log(manager.directory, manager.filesystem).topics
    return enabled | {
        name for name in wanted & of_broker.keys() if of_broker[name].configs.get(REMOTE_STORAGE_KEY) == "true"
    }


def remote_text(offsets: range) -> str:
    """Returns offsets as text: ``offsets 0 to 617 are only in the broker's remote storage, which is not read``."""
    return f"offsets {offsets[0]} to {offsets[-1]} are only in the broker's remote storage, which is not read"
