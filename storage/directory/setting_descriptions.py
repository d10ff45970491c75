"""The settings of a topic for people: each with its value, and who set it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..config import Key, LogConfig, keys_of
from .topics_file import TopicDescription


class DescribedSetting(NamedTuple):
    """A setting of a topic; the first of ``own``, ``for_all`` and the default that is there is its value."""

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
