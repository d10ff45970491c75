"""The ends of a writer's records in each partition, stored with its progress.

They reveal a partition whose directory was restored from an older copy, or comes from another log: it lacks batches
that the progress counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ....storage import LogManager, ProgressMismatchError, TopicDescription, partition_topic_id
from ..task import Written

MARKER = 1  # offsets of the transaction marker that follows the records


class Ends(NamedTuple):
    """The offset that each partition of a topic has reached at least; 0 if nothing was written."""

    topic_id: str | None
    offsets: tuple[int, ...]

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> Ends:
        """Parses the ends in the metadata of a committed offset."""
        return cls(found.get("topicId"), tuple(found.get("offsets", ())))

    def as_json(self) -> dict[str, Any]:
        return {"topicId": self.topic_id, "offsets": list(self.offsets)}

    def is_of(self, topic: TopicDescription) -> bool:
        """Whether these are the ends of this topic, not of a deleted one with the same name."""
        return topic.topic_id is None or self.topic_id in (None, topic.topic_id)

    def plus(self, other: Ends) -> Ends:
        """Returns the larger offset of each partition."""
        count = max(len(self.offsets), len(other.offsets))
        mine, others = (each.offsets + (0,) * (count - len(each.offsets)) for each in (self, other))
        return Ends(other.topic_id or self.topic_id, tuple(map(max, mine, others)))


def merged(metadata: Iterable[Mapping[str, Any]], topics: Mapping[str, TopicDescription]) -> dict[str, Ends]:
    """Combines what all committed offsets of a writer say about ``topics``."""
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
    """Returns the ``ends`` of ``topics`` as of the commit of what was written."""
    found = {name: ends.get(name, Ends(None, ())).plus(Ends(topic.topic_id, ())) for name, topic in topics.items()}
    for each in written:
        offsets = (0,) * each.partition + (each.last_offset + 1 + MARKER,)
        found[each.topic] = found[each.topic].plus(Ends(None, offsets))
    return found


def check_written(ends: Mapping[str, Ends], written: Iterable[Written]) -> None:
    """Raises ProgressMismatchError if records were appended below an end: the partition has just been set back."""
    for each in written:
        offsets = ends.get(each.topic, Ends(None, ())).offsets
        if each.partition < len(offsets) and each.first_offset < offsets[each.partition]:
            raise _set_back(each.topic, each.partition, offsets[each.partition], each.first_offset)


def check_partitions(manager: LogManager, ends: Mapping[str, Ends], topics: Mapping[str, TopicDescription]) -> None:
    """Raises ProgressMismatchError if a partition ends below what was written, or belongs to another topic.

    CorruptCheckpointError if its id cannot be read.
    """
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
                    f"partition {partition} of topic {name} comes from a topic with id {other}, but records were "
                    f"written to one with id {known.topic_id}: restore the directory that belongs here"
                )


def _set_back(topic: str, partition: int, end: int, found: int) -> ProgressMismatchError:
    return ProgressMismatchError(
        f"commits to partition {partition} of topic {topic} reached offset {end}, but its log ends at {found}: its "
        "directory is an older copy, or lost its end. Restore the directory that fits. To continue without the records "
        "in between, delete the group's offsets; the query's last batch may then be written twice"
    )
