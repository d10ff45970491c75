"""Subscription: the topics that a consumer reads and its numbers of streams, as in the registry."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Self

from ...registry.kafka_nodes import RegisteredConsumer
from ..topic_filters import Blacklist, TopicFilter, Whitelist
from .assignment import Stream

_KINDS: Mapping[str, type[TopicFilter]] = {"white_list": Whitelist, "black_list": Blacklist}


@dataclass(frozen=True)
class Subscription:
    """Topics with their numbers of streams, or a filter with the number of streams for all its topics."""

    counts: Mapping[str, int]  # by topic; {} with a filter
    filter: TopicFilter | None = None
    filter_count: int = 0
    exclude_internal: bool = True

    @classmethod
    def of(cls, registered: RegisteredConsumer, *, exclude_internal: bool) -> Self:
        """Returns the subscription of a registered member.

        Raises InvalidConfigError for a filter that Python cannot parse.
        """
        kind = _KINDS.get(registered.pattern)
        if kind is None:
            return cls(registered.streams)
        ((text, count),) = registered.streams.items()
        return cls({}, kind(text), count, exclude_internal)

    def registered(self, timestamp_ms: int) -> RegisteredConsumer:
        """Returns its form in the registry."""
        if self.filter is None:
            return RegisteredConsumer(self.counts, timestamp_ms=timestamp_ms)
        pattern = "white_list" if isinstance(self.filter, Whitelist) else "black_list"
        return RegisteredConsumer({self.filter.expression.pattern: self.filter_count}, pattern, timestamp_ms)

    def streams(self, consumer: str, topics: Collection[str]) -> dict[str, list[Stream]]:
        """Returns the streams of ``consumer`` by topic. ``topics``: all existing ones, from which a filter chooses."""
        counts = self.counts
        if self.filter is not None:
            chosen = (each for each in topics if self.filter.allows(each, exclude_internal=self.exclude_internal))
            counts = dict.fromkeys(chosen, self.filter_count)
        return {topic: [Stream(consumer, number) for number in range(count)] for topic, count in counts.items()}
