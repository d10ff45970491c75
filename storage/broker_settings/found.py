"""What was found of a broker's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pyspark_commitlog.storage.topics_file import Known


class TopicSettings(NamedTuple):
    """The settings of one topic, by Kafka's keys; keys that this engine does not know are among them."""

    configs: Mapping[str, str]
    known: Known  # OWN or ALL


@dataclass(frozen=True)
class FoundSettings:
    """Settings by topic, what all brokers were given while they ran, by a broker's keys, and numbers of partitions."""

    topics: Mapping[str, TopicSettings] = field(default_factory=dict)
    broker: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)  # by topic
