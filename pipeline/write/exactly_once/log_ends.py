"""The end offset of a writer's records in each partition, committed with the writer's progress.

These ends reveal a partition whose directory was restored from an older copy, or comes from another log: its log ends
below the end that the progress states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ....storage import LogManager, ProgressMismatchError, TopicDescription, partition_topic_id
from ..answers import Written

PART = 700  # partitions in one committed offset, whose metadata has room for 32,767 bytes: the ends of two topics
MARKER = 1  # the number of offsets of the transaction marker that follows the records


class Ends(NamedTuple):
    """The smallest log end offset that each partition of a topic can have, by number; 0 if nothing was written."""

    topic_id: str | None
    offsets: tuple[int, ...]

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> Ends:
        """Returns the ends that the metadata of a committed offset has in JSON."""
        return cls(found.get("topicId"), (0,) * found.get("first", 0) + tuple(found.get("offsets", ())))

    def as_json(self, first: int) -> dict[str, Any]:
        """Returns the ends of :data:`PART` partitions, from partition ``first`` on."""
        part = {"topicId": self.topic_id, "offsets": list(self.offsets[first : first + PART])}
        return {**part, "first": first} if first else part

    def is_of(self, topic: TopicDescription) -> bool:
        """Whether these are the ends of this topic, and not of a deleted topic with the same name."""
        return topic.topic_id is None or self.topic_id in (None, topic.topic_id)

    def plus(self, other: Ends) -> Ends:
        """Returns, for each partition, the larger end of the two."""
        count = max(len(self.offsets), len(other.offsets))
        mine, others = (each.offsets + (0,) * (count - len(each.offsets)) for each in (self, other))
        return Ends(other.topic_id or self.topic_id, tuple(map(max, mine, others)))


def in_parts(ends: Mapping[str, Ends]) -> list[dict[str, Any]]:
    """Returns the ends of topics as JSON, in as many parts as they need committed offsets; one if there are no ends."""
    count = max((len(each.offsets) for each in ends.values()), default=0)
    return [
        {name: each.as_json(first) for name, each in ends.items() if first < len(each.offsets) or not first}
        for first in range(0, max(count, 1), PART)
    ]


def merged(metadata: Iterable[Mapping[str, Any]], topics: Mapping[str, TopicDescription]) -> dict[str, Ends]:
    """Returns the ends of ``topics``, the largest in the metadata of all committed offsets of a writer."""
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
    """Returns the ends of ``topics`` after the commit of ``written``; ``ends`` are those before it."""
    found = {name: ends.get(name, Ends(None, ())).plus(Ends(topic.topic_id, ())) for name, topic in topics.items()}
    for each in written:
        offsets = (0,) * each.partition + (each.last_offset + 1 + MARKER,)
        found[each.topic] = found[each.topic].plus(Ends(None, offsets))
    return found


def check_written(ends: Mapping[str, Ends], written: Iterable[Written]) -> None:
    """Raises ProgressMismatchError if records were appended below an end: an older copy has replaced the partition."""
    for each in written:
        offsets = ends.get(each.topic, Ends(None, ())).offsets
        if each.partition < len(offsets) and each.first_offset < offsets[each.partition]:
            raise _set_back(each.topic, each.partition, offsets[each.partition], each.first_offset)


def check_partitions(manager: LogManager, ends: Mapping[str, Ends], topics: Mapping[str, TopicDescription]) -> None:
    """Raises ProgressMismatchError if a partition ends below its end in ``ends``, or belongs to another topic.

    Raises CorruptCheckpointError if the topic id of a partition cannot be read.
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
                    f"the directory of partition {partition} of topic {name} belongs to a topic with id {other}, but "
                    f"the query wrote to a topic with id {known.topic_id}: restore that topic's directory"
                )


def _set_back(topic: str, partition: int, end: int, found: int) -> ProgressMismatchError:
    return ProgressMismatchError(
        f"commits to partition {partition} of topic {topic} reached offset {end}, but its log ends at {found}: the "
        "partition's directory is an older copy, or lost its end. Restore the newer directory. To continue without the "
        "records in between, delete the group's offsets; the query's last batch may then be written twice"
    )
