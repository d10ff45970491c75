"""FoundSettings: the settings found in a broker's files or in the output of Kafka's tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..topics_file import Known


class TopicSettings(NamedTuple):
    """The settings of one topic, by Kafka's keys, including keys that this engine does not know."""

    configs: Mapping[str, str]
    known: Known  # OWN or ALL


@dataclass(frozen=True)
class FoundSettings:
    """Topic settings, settings given to all brokers at run time (by broker keys), and numbers of partitions."""

    topics: Mapping[str, TopicSettings] = field(default_factory=dict)
    broker: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)  # by topic
