"""Finds the offsets of a broker's partitions that are only in remote storage, which this engine does not read.

A broker with tiered storage deletes local segments once they are copied, and continues to serve their records. Its
``log-start-offset-checkpoint`` then has the first offset that it serves, below the first local segment (Kafka's
``LogManager.checkpointLogStartOffsetsInDir``).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from ..filesystem.operations import holds_from_log_start
from ..format.files import file_names
from ..format.files.file_names import TopicPartition
from ..format.internal.internal_topics import REMOTE_LOG_METADATA_TOPIC
from ..reading.marks import remote_text
from .broker_settings.metadata_log import read_metadata_log
from .log_directory import LogDirectory

REMOTE_STORAGE_KEY = "remote.storage.enable"

logger = logging.getLogger(__name__)


def remote_offsets(directory: LogDirectory, first_offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, range]:
    """Returns the offsets that only remote storage has, by partition; no entry for a partition without such offsets.

    ``first_offsets``: the first offset of each partition in this directory. A crash can also make the checkpoint lower
    than the first offset, so the topic must have tiered storage enabled, or the directory must have partitions of
    ``__remote_log_metadata``. Without an entry in the checkpoint, which may be lost, a partition of a topic that has
    tiered storage enabled by ``topics.json`` begins at 0, as in Kafka.
    """
    log_starts = directory.offsets(file_names.LOG_START_OFFSET_CHECKPOINT)
    below = {
        partition: range(log_starts.get(partition, 0), first)
        for partition, first in first_offsets.items()
        if log_starts.get(partition, 0) < first
        and not holds_from_log_start(directory.filesystem, directory.path(str(partition)))
    }
    tiered = _tiered(directory, {topic for topic, number in below if (topic, number) in log_starts})
    unlisted = _enabled_here(directory, {topic for topic, number in below if (topic, number) not in log_starts})
    return {key: offsets for key, offsets in below.items() if key[0] in (tiered if key in log_starts else unlisted)}


def _tiered(directory: LogDirectory, topics: Iterable[str]) -> set[str]:
    wanted = set(topics)
    if not wanted or directory.partitions_found(REMOTE_LOG_METADATA_TOPIC):
        return wanted
    enabled = _enabled_here(directory, wanted)
    of_broker = read_metadata_log(directory.directory, directory.filesystem).topics
    return enabled | {
        name for name in wanted & of_broker.keys() if of_broker[name].configs.get(REMOTE_STORAGE_KEY) == "true"
    }


def _enabled_here(directory: LogDirectory, wanted: set[str]) -> set[str]:
    """Returns the topics of ``wanted`` that have tiered storage by ``topics.json``."""
    found = directory.described_topics() if wanted else {}
    return {name for name in wanted & found.keys() if found[name].configs.get(REMOTE_STORAGE_KEY) == "true"}


def note_first_offsets(directory: LogDirectory, partitions: Iterable[TopicPartition]) -> None:
    """Notes that partitions begin at their first segments, if the checkpoint of log starts has no entry for them.

    A broker writes no entry for a log that begins at its first segment. With tiered storage enabled, such a log would
    begin at 0: see :func:`remote_offsets`. If the checkpoint was lost, nobody knows.
    """
    name, filesystem = file_names.LOG_START_OFFSET_CHECKPOINT, directory.filesystem
    if filesystem.status(directory.path(name)) is None:
        return
    listed = directory.offsets(name)
    for partition in partitions:
        if partition not in listed and directory.is_here(*partition):
            logs = [each for each in filesystem.list(directory.path(str(partition))) if each.endswith(file_names.LOG)]
            first = min((file_names.base_offset_of(each) or 0 for each in logs), default=0)
            if first:
                directory.note_log_start(partition, first)


def report_remote(path: str, offsets: range | None) -> None:
    """Logs a warning that the partition in the directory ``path`` lacks these offsets; nothing for None."""
    if offsets is not None:
        logger.warning("%s: %s", path, remote_text(offsets))
