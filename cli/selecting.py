"""Selection of topics and partitions as in Kafka's tools: names, regular expressions, ``topic:0-2``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import typer

from .. import storage
from .output import fail, nearest_or_all

_RULE = re.compile(r"([^:]*)(?::(?:(\d+)|(\d*)-(\d*))?)?")


def pattern(text: str) -> re.Pattern[str]:
    """Compiles a regular expression; commas separate alternatives, as in Kafka's tools."""
    try:
        return re.compile(text.strip().replace(",", "|"))
    except re.error as error:
        raise typer.BadParameter(f"{text!r} is neither a topic nor a regular expression: {error}") from None


def matching(
    topics: Mapping[str, storage.TopicDescription],
    text: str | None,
    *,
    exclude_internal: bool = False,
    may_be_missing: bool = False,
) -> list[storage.TopicDescription]:
    """Returns the topics that ``text`` names or matches, all if it is None.

    Exits with 1 if it matches none, unless ``may_be_missing``.
    """
    named = pattern(".*" if text is None else re.escape(text) if text in topics else text)
    found = [
        topic
        for name, topic in topics.items()
        if named.fullmatch(name) and not (exclude_internal and name in storage.INTERNAL_TOPICS)
    ]
    if text is not None and not found and not may_be_missing:
        fail(f"no topic {text!r}{nearest_or_all(text, topics, 'topics')}")
    return found


def matching_partitions(
    topics: Iterable[storage.TopicDescription], rules: Iterable[str] | None
) -> list[storage.TopicPartition]:
    """Returns each partition that matches one of ``rules``; of all if ``rules`` is None.

    A rule is ``TOPICS``, ``TOPICS:3``, ``TOPICS:0-2`` (without 2), ``TOPICS:1-`` or ``:0``. TOPICS is a name or a
    regular expression; an empty one matches all topics (GetOffsetShell's TopicPartitionFilter).
    """
    parsed = None if rules is None else [_rule(text) for text in rules]
    return [
        each
        for topic in topics
        for each in topic.topic_partitions
        if parsed is None or any(names.fullmatch(topic.name) and each.partition in taken for names, taken in parsed)
    ]


def _rule(text: str) -> tuple[re.Pattern[str], range]:
    found = _RULE.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"--topic-partitions {text!r} is not of the form orders:0, orders:0-2 or orders")
    names, one, first, end = found.groups()
    taken = range(int(one), int(one) + 1) if one else range(int(first or 0), int(end or 2**31))
    return pattern(names or ".*"), taken
