"""Prepares a stopped broker's directory: its partitions then begin, without local records, where the tier ends.

A broker takes the end of its log from its local segments, and the epochs from its checkpoint: without the latter, it
would serve nothing of the tier. The tier's content is known from records that are in the directory already.

========================================  =====================================================================
Killed after                              What is there
========================================  =====================================================================
the empty segment was made                two empty segments: the broker would begin at the tier's end all the same
the epochs were written                   the same, with the epoch that the broker needs
the broker's own files were removed       a prepared partition; a second run finds it and changes nothing
========================================  =====================================================================
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import NamedTuple

from ..directory.admin import partition_topic_id
from ..directory.manager import LogManager
from ..errors import PolicyViolationError, UnknownTopicOrPartitionError
from ..filesystem.operations import size_of, write_atomically
from ..format.files import checkpoints, file_names as names
from ..format.files.file_names import TopicPartition
from ..remote_metadata.topic import MetadataTopic
from ..tiers.metadata_records import SegmentMetadata, TopicIdPartition
from .contents import FLAT


class PreparedPartition(NamedTuple):
    """A partition of a broker's directory."""

    partition: TopicPartition
    log_start_offset: int
    tier_end_offset: int  # the end of the tier, where the broker will append
    segments: int  # in the tier
    was_ready: bool  # nothing had to be changed


def prepare_directory(
    manager: LogManager, topics: Collection[str], *, dry_run: bool = False
) -> Iterator[PreparedPartition]:
    """Prepares the partitions of topics in a broker's directory, and yields each one when it is durable.

    Raises LogDirLockedError while the broker runs, PolicyViolationError for a partition with records of its own or with
    a tier that would lose some, and UnknownTopicOrPartitionError for a topic that is not there.
    """
    manager.lock_brokers_out()
    metadata = MetadataTopic(manager)
    for topic in topics:
        numbers = manager.partitions_found(topic)
        if not numbers:
            raise UnknownTopicOrPartitionError(f"{manager.directory}: no partition of topic {topic!r} is here")
        found = [_Partition(manager, metadata, TopicPartition(topic, number)) for number in numbers]
        if not any(each.segments for each in found):
            raise PolicyViolationError(
                f"{manager.directory}: the broker's metadata has no segment of topic {topic!r} in the tier: run this "
                "with --bootstrap-server while the broker runs, then stop the broker"
            )
        for each in found:
            yield each.prepare(dry_run=dry_run)


class _Partition:
    def __init__(self, manager: LogManager, metadata: MetadataTopic, partition: TopicPartition) -> None:
        self._manager, self._files, self._partition = manager, manager.filesystem, partition
        self._directory = manager.partition_path(*partition)
        self.segments = self._in_tier(metadata)
        self._end = self.segments[-1].end_offset + 1 if self.segments else 0

    def prepare(self, *, dry_run: bool) -> PreparedPartition:
        if not self.segments:
            return PreparedPartition(self._partition, 0, 0, 0, was_ready=True)
        start = self.segments[0].start_offset
        listed = self._files.list(self._directory)
        self._check_empty(listed)
        is_ready = self._is_ready(listed)
        if not is_ready and not dry_run:
            self._make(listed)
        if not dry_run:
            self._manager.note_log_start(self._partition, start)
        return PreparedPartition(self._partition, start, self._end, len(self.segments), is_ready)

    @property
    def _segment(self) -> str:
        return names.segment_file(self._end, names.LOG)

    def _is_ready(self, listed: list[str]) -> bool:
        bases = {names.base_offset_of(name) for name in listed} - {None}
        has_only_it = self._segment in listed and bases == {self._end}
        return has_only_it and self._epochs() == checkpoints.encode_leader_epochs(FLAT)

    def _epochs(self) -> bytes:
        path = self._path(names.LEADER_EPOCH_CHECKPOINT)
        if self._files.status(path) is None:
            return b""
        with self._files.open(path, "read") as file:
            return bytes(file.read(0, file.size()))

    def _make(self, listed: list[str]) -> None:
        with self._files.open(self._path(self._segment), "create") as file:
            file.sync()
        self._files.sync_directory(self._directory)
        write_atomically(self._files, self._path(names.LEADER_EPOCH_CHECKPOINT), checkpoints.encode_leader_epochs(FLAT))
        kept = (self._segment, names.LEADER_EPOCH_CHECKPOINT, names.PARTITION_METADATA_FILE)
        for name in listed:
            if name not in kept and names.base_offset_of(name) is not None:
                self._files.remove(self._path(name))
        self._files.sync_directory(self._directory)

    def _check_empty(self, listed: list[str]) -> None:
        for name in listed:
            if name.endswith(names.LOG) and size_of(self._files, self._path(name)):
                raise PolicyViolationError(
                    f"{self._path(name)}: the broker has records of its own in this partition, which would be lost: "
                    "delete the topic in the cluster, and publish it again"
                )

    def _in_tier(self, metadata: MetadataTopic) -> list[SegmentMetadata]:
        topic_id = partition_topic_id(self._manager, *self._partition)
        if topic_id is None:
            raise PolicyViolationError(f"{self._directory}: has no {names.PARTITION_METADATA_FILE} with the topic's id")
        segments = metadata.finished(TopicIdPartition(self._partition.topic, topic_id, self._partition.partition))
        self._check_joined(segments)
        return segments

    def _check_joined(self, segments: list[SegmentMetadata]) -> None:
        for before, after in pairwise(segments):
            if after.start_offset != before.end_offset + 1:
                raise PolicyViolationError(
                    f"{self._directory}: the tier lacks offsets {before.end_offset + 1} to {after.start_offset - 1}, "
                    "and consumers would jump: publish the topic again"
                )

    def _path(self, name: str) -> str:
        return names.join(self._directory, name)
