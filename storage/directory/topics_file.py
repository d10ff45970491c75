"""Encodes and decodes ``topics.json``, which lists the topics of a log directory, with partitions and configs.

Kafka ignores the file. Under ``broker``, it has the settings for all topics that have none of their own, by the names
of a broker's keys; under ``nodes`` and ``groups``, those of one gateway or one group of consumers.

The first change to a topic that a broker created adds the topic to the file. The other settings of such a topic are
known only to the broker, so the file lists it under ``settings_elsewhere`` too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from ..errors import CorruptionError, InvalidTopicError, UnknownTopicOrPartitionError
from ..format.files import checkpoints, file_names
from ..format.files.file_names import PARTITIONS_MAX, TopicPartition

TOPICS_VERSION = 1
_WAY_OUT = (
    "restore the file, for example from a snapshot, or remove it: topics with records are then found by their "
    "directories, without their settings"
)


class Known(Enum):
    """Which of a topic's settings are known. A broker does not store them in its log directories."""

    NOTHING = "nothing"  # ``configs`` are guessed from the files
    SOME = "some"  # ``configs`` were set here, on a topic that a broker created
    OWN = "own"  # ``configs`` are all of the topic's own settings; the broker's defaults are unknown
    ALL = "all"  # settings missing from ``configs`` have Kafka's defaults


@dataclass(frozen=True)
class TopicDescription:
    """The name, partitions and settings of a topic of a log directory."""

    name: str
    partitions: tuple[int, ...]
    configs: Mapping[str, str] = field(default_factory=dict)  # differences from the defaults, by Kafka's keys
    topic_id: str | None = None  # as in partition.metadata; None in a directory without topics.json
    known: Known = Known.ALL
    broker: Mapping[str, str] = field(
        default_factory=dict
    )  # the directory's settings, used where ``configs`` has none; a broker's keys

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, number) for number in self.partitions]

    def check_partition(self, number: int, directory: str) -> None:
        """Raises UnknownTopicOrPartitionError, with the ``directory`` of the topic, if it has no such partition."""
        if number not in self.partitions:
            raise UnknownTopicOrPartitionError(
                f"topic {self.name!r} in {directory} has partitions {list(self.partitions)}, but not {number!r}"
            )


class Owner(Enum):
    """Owners of settings other than topics; the values are their names in the file."""

    NODE = "nodes"  # a gateway, by its id
    GROUP = "groups"  # of consumers


OwnSettings = Mapping[Owner, Mapping[str, Mapping[str, str]]]  # by the owner's name


class TopicsFile(NamedTuple):
    """The content of the file."""

    topics: Mapping[str, TopicDescription]  # by name; each has the settings in ``broker``, too
    broker: Mapping[str, str]  # settings for all topics and nodes, by a broker's keys
    owned: OwnSettings = MappingProxyType({})

    def owned_by(self, owner: Owner, name: str) -> Mapping[str, str]:
        """Returns the settings of a node or group."""
        return self.owned.get(owner, {}).get(name, {})


def encode_topics(
    topics: Iterable[TopicDescription], broker: Mapping[str, str] | None = None, owned: OwnSettings | None = None
) -> bytes:
    """Returns the content of the file; each topic must have an id, and partitions from 0 on without a gap.

    ``broker``: the settings for all topics; the topics' copies of them are not written. ``owned``: those of nodes and
    groups.
    """
    topics = list(topics)
    content: dict[str, Any] = {"version": TOPICS_VERSION, "topics": {}}
    elsewhere = [topic.name for topic in topics if topic.known is not Known.ALL]
    if elsewhere:
        content["settings_elsewhere"] = elsewhere
    if broker:
        content["broker"] = dict(broker)
    for owner, settings in (owned or {}).items():
        if settings:
            content[owner.value] = {name: dict(own) for name, own in settings.items()}
    listed = ",\n".join(map(_encoded, topics))
    text = json.dumps(content, indent=2)
    if topics:
        text = text.replace('"topics": {}', '"topics": {\n' + listed + "\n  }", 1)
    return text.encode() + b"\n"


def _encoded(topic: TopicDescription) -> str:
    """Returns a topic as ``json.dumps`` with an indent would write it, which takes ten times as long."""
    configs = ",\n".join(f"        {json.dumps(key)}: {json.dumps(value)}" for key, value in topic.configs.items())
    shown = f"{{\n{configs}\n      }}" if configs else "{}"
    return (
        f'    {json.dumps(topic.name)}: {{\n      "id": {json.dumps(topic.topic_id)},\n'
        f'      "partitions": {len(topic.partitions)},\n      "configs": {shown}\n    }}'
    )


def decode_topics(data: bytes) -> dict[str, TopicDescription]:
    """Returns the topics in the content of the file, by name. Raises CorruptionError, without the path."""
    return dict(decode_topics_file(data).topics)


@lru_cache(maxsize=1)  # opening one partition after the other reads the same file each time
def decode_topics_file(data: bytes) -> TopicsFile:
    """Returns the whole content of the file. Raises CorruptionError, without the path."""
    try:
        content: dict[str, Any] = json.loads(data)
        if content["version"] != TOPICS_VERSION:
            raise CorruptionError(
                f"the file has version {content['version']}, but this engine knows {TOPICS_VERSION}: "
                "install a newer release"
            )
        broker = _texts("broker", content.get("broker", {}))
        owned = {
            owner: {name: _texts(f"{owner.value} {name}", own) for name, own in content.get(owner.value, {}).items()}
            for owner in Owner
        }
        found = {name: _description(name, topic, broker) for name, topic in content["topics"].items()}
        elsewhere = {name: replace(found[name], known=Known.SOME) for name in content.get("settings_elsewhere", ())}
        return TopicsFile({**found, **elsewhere}, broker, owned)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, InvalidTopicError) as error:
        raise CorruptionError(f"the content is not what this engine writes: {error}; {_WAY_OUT}") from error


def _texts(of: str, settings: Mapping[str, Any]) -> Mapping[str, str]:
    if not all(isinstance(value, str) for value in settings.values()):
        raise ValueError(f"{of} has settings that are not strings: {settings}")
    return settings


def _description(name: str, topic: Mapping[str, Any], broker: Mapping[str, str]) -> TopicDescription:
    """Decodes one topic of ``topics.json``. Raises InvalidTopicError, or an error of Python's, if it is invalid.

    The name becomes part of a path, so a damaged name must not lead out of the directory.
    """
    file_names.check_topic_name(name)
    partitions, configs, topic_id = topic["partitions"], topic["configs"], topic["id"]
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise ValueError(f"topic {name} has {partitions} partitions")
    _texts(f"topic {name}", configs)
    checkpoints.check_id(topic_id)
    return TopicDescription(name, tuple(range(partitions)), configs, topic_id, broker=broker)
