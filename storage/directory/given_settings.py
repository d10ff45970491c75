"""The effective settings of a topic, their origin, and whether they were set explicitly: only those may delete records.

A broker's directory does not contain the settings of its topics. Kafka's defaults could delete records that the broker
was configured to keep forever, so retention limits apply only if they are set explicitly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from ..config import Key, LogConfig, keys_of
from .broker_settings.found import FoundSettings
from .protected_topics import COORDINATOR_TOPICS, POLICY_KEY, settled
from .topics_file import Known, TopicDescription

LIMITS = ("retention.ms", "retention.bytes")
NO_LIMIT = "-1"

_BROKERS_KEYS = {key.name: {synonym.name for synonym in key.synonyms} for key in keys_of(LogConfig).values()}


def config_of(topic: TopicDescription, run: Mapping[str, str], broker: Mapping[str, str]) -> LogConfig:
    """Returns the effective settings of a topic.

    A setting comes from the first of these that has it: ``run`` (the settings of a maintenance run), the topic's own,
    ``broker`` (those of a broker), Kafka's defaults. Internal topics stay compacted. Retention limits that are not set
    explicitly are unlimited: see :func:`ungiven`. Raises InvalidConfigError.
    """
    given = {**topic.configs, **run, **{key: NO_LIMIT for key in ungiven(topic, run, broker) if key in LIMITS}}
    return LogConfig.from_mapping(settled(topic.name, given), broker=broker)


def ungiven(topic: TopicDescription, run: Mapping[str, str], broker: Mapping[str, str]) -> frozenset[str]:
    """Returns which of ``cleanup.policy``, ``retention.ms`` and ``retention.bytes`` are not set explicitly.

    ``run`` and ``broker`` as for :func:`config_of`. The broker's settings count only if all of the topic's own are
    known; otherwise the topic may have another value. For a topic created by this engine, all settings count as set.
    """
    if topic.known is Known.ALL:
        return frozenset()
    given = set(run)
    if topic.known is not Known.NOTHING:
        given.update(topic.configs)
    if topic.known is Known.OWN:
        given.update(key for key, synonyms in _BROKERS_KEYS.items() if not synonyms.isdisjoint(broker))
    return frozenset({POLICY_KEY, *LIMITS} - given)


def completed(topic: TopicDescription, found: FoundSettings) -> TopicDescription:
    """Returns a topic with its settings in ``found``, which come from a broker; settings changed here have precedence.

    Ignores keys that are not topic settings of Kafka's, such as a vendor's.
    """
    if topic.known is Known.ALL or topic.name not in found.topics or topic.name in COORDINATOR_TOPICS:
        return topic
    configs, known = found.topics[topic.name]
    theirs = {key: value for key, value in configs.items() if key in _BROKERS_KEYS}
    return replace(topic, configs={**theirs, **(topic.configs if topic.known is Known.SOME else {})}, known=known)


class DescribedSetting(NamedTuple):
    """A setting of a topic; its value is ``own``, else ``for_all``, else the default."""

    key: Key
    value: str
    own: str | None  # set on the topic itself
    for_all: Mapping[str, str]  # set for all topics of the directory, by a broker's keys

    @property
    def default(self) -> str:
        """Kafka's default."""
        return self.key.kind.render(self.key.default)

    @property
    def is_default(self) -> bool:
        return self.own is None and not self.for_all


def described_settings(topic: TopicDescription) -> Iterator[DescribedSetting]:
    """Yields all settings of a topic, sorted by name."""
    of_all = LogConfig.from_mapping({}, broker=topic.broker).to_mapping()
    for key in sorted(keys_of(LogConfig).values(), key=lambda key: key.name):
        own = topic.configs.get(key.name)
        for_all = {each.name: topic.broker[each.name] for each in key.synonyms if each.name in topic.broker}
        yield DescribedSetting(key, of_all[key.name] if own is None else own, own, for_all)
