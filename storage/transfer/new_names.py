"""NewNames: the names that topics get where they are copied or restored to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from ..directory.admin import topic_id
from ..directory.manager import LogManager
from ..directory.protected_topics import is_protected
from ..directory.topics_file import TopicDescription
from ..errors import InvalidConfigError, InvalidTopicError
from ..format.files.file_names import TopicPartition
from ..topic_rules import SINK_PREFIX, check_new_name


@dataclass(frozen=True)
class NewNames:
    """The names of topics in the target; a topic with another name also gets another id."""

    prefix: str = ""
    names: Mapping[str, str] = field(default_factory=dict)  # these get no prefix

    def of(self, topic: str) -> str:
        """Returns the name that a topic gets. The name of a writer's progress follows that of its topic."""
        if topic.startswith(SINK_PREFIX):
            return SINK_PREFIX + self.of(topic.removeprefix(SINK_PREFIX))
        return self.names.get(topic, self.prefix + topic)

    def partition(self, partition: TopicPartition) -> TopicPartition:
        return partition._replace(topic=self.of(partition.topic))

    def described(self, source: LogManager, topic: TopicDescription) -> tuple[TopicDescription, str | None]:
        """Returns the description of a topic in the target, and its id there; None: a new one."""
        name = self.of(topic.name)
        return (topic, topic_id(source, topic)) if name == topic.name else (replace(topic, name=name), None)

    def check(self, topics: Collection[str]) -> None:
        """Raises InvalidConfigError if two of ``topics`` get the same name, or one that is renamed is not there.

        Raises InvalidTopicError for a new name that a topic cannot have, or that is one of Kafka's own.
        """
        missing = sorted(self.names.keys() - {*topics})
        if missing:
            raise InvalidConfigError(f"--rename: there is no topic {missing[0]!r} in what is copied")
        by_name: dict[str, str] = {}
        for topic in topics:
            name = self.of(topic)
            other = by_name.setdefault(name, topic)
            if other != topic:
                raise InvalidConfigError(f"--rename: topics {other!r} and {topic!r} both become {name!r}")
            if name != topic:
                check_new_name(name)
                if is_protected(name):
                    raise InvalidTopicError(f"--rename: {name!r} is a topic of Kafka's own; choose another name")


SAME_NAMES = NewNames()
