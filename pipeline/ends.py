"""Where a writer's records end in each partition, kept beside its progress.

So a partition whose directory was put back from an older copy, or comes from elsewhere, is noticed: not all batches
that the progress counts are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pyspark_commitlog.pipeline.writer import Written
from pyspark_commitlog.storage import (
    LogManager,
    ProgressMismatchError,
    TopicDescription,
    partition_topic_id,
)

MARKER = 1  # every batch of records is followed by the marker of its transaction


class Ends(NamedTuple):
    """Of one topic: each partition's log reached at least so far; 0 where nothing was written."""

    topic_id: str | None
    offsets: tuple[int, ...]

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> Ends:
        """As they are in the metadata of a committed offset."""
        return cls(found.get("topicId"), tuple(found.get("offsets", ())))

    def as_json(self) -> dict[str, Any]:
        return {"topicId": self.topic_id, "offsets": list(self.offsets)}

    def is_of(self, topic: TopicDescription) -> bool:
        """False where the topic was deleted and made again."""
        return topic.topic_id is None or self.topic_id in (None, topic.topic_id)

    def plus(self, other: Ends) -> Ends:
        """The greater offset of each partition."""
        count = max(len(self.offsets), len(other.offsets))
        mine, others = (each.offsets + (0,) * (count - len(each.offsets)) for each in (self, other))
        return Ends(other.topic_id or self.topic_id, tuple(map(max, mine, others)))


def merged(metadata: Iterable[Mapping[str, Any]], topics: Mapping[str, TopicDescription]) -> dict[str, Ends]:
    """What all committed offsets of a writer say of ``topics``."""
    ends: dict[str, Ends] = {}
    for each in metadata:
        for name, found in each.get("ends", {}).items():
            read = Ends.read(found)
            if name in topics and read.is_of(topics[name]):
                ends[name] = read.plus(ends[name]) if name in ends else read
    return ends


def after(
    ends: Mapping[str, Ends], written: Iterable[Written], topics: Mapping[str, TopicDescription]
) -> dict[str, Ends]:
    """``ends`` of ``topics`` when what was written is committed."""
    found = {name: ends.get(name, Ends(None, ())).plus(Ends(topic.topic_id, ())) for name, topic in topics.items()}
    for each in written:
        offsets = (0,) * each.partition + (each.last_offset + 1 + MARKER,)
        found[each.topic] = found[each.topic].plus(Ends(None, offsets))
    return found


def check_written(ends: Mapping[str, Ends], written: Iterable[Written]) -> None:
    """Raises ProgressMismatchError where records were appended below an end: the partition was set back just now."""
    for each in written:
        offsets = ends.get(each.topic, Ends(None, ())).offsets
        if each.partition < len(offsets) and each.first_offset < offsets[each.partition]:
            raise _set_back(each.topic, each.partition, offsets[each.partition], each.first_offset)


def check_partitions(manager: LogManager, ends: Mapping[str, Ends], topics: Mapping[str, TopicDescription]) -> None:
    """Raises ProgressMismatchError where a partition ends below what was written, or is another topic's."""
    for name, known in ends.items():
        for partition, end in enumerate(known.offsets):
            if not end or partition not in topics[name].partitions:
                continue
            found = manager.open_log(name, partition).log_end_offset
            if found < end:
                raise _set_back(name, partition, end, found)
            other = partition_topic_id(manager, name, partition)
            if other is not None and known.topic_id is not None and other != known.topic_id:
                raise ProgressMismatchError(
                    f"partition {partition} of topic {name} comes from a topic with id {other}, and what was written "
                    f"went into one with id {known.topic_id}: put back the directory that belongs here"
                )


def _set_back(topic: str, partition: int, end: int, found: int) -> ProgressMismatchError:
    return ProgressMismatchError(
        f"what was committed to partition {partition} of topic {topic} reached offset {end}, and its log ends at "
        f"{found}: its directory is an older copy, or lost its end. Put back the one that fits; to go on without the "
        "records between, delete the group's offsets, though the query's last batch may then be written twice"
    )
