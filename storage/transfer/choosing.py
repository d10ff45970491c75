"""Chooses the topics of a copy, and the reaction to damage in one of their partitions."""

from __future__ import annotations

from collections.abc import Callable

from ..directory.manager import LogManager
from ..directory.protected_topics import is_protected
from ..errors import CorruptionError
from ..format.files.file_names import TopicPartition
from ..topic_rules import is_reserved

OnDamage = Callable[[TopicPartition, CorruptionError], None]
OnComplete = Callable[[str], None]  # takes the name of a topic that an earlier copy has completed


def topics_to_copy(source: LogManager) -> list[str]:
    """Returns the topics that are copied if none are named: not Kafka's own, and none whose name is reserved."""
    return [name for name in source.topics() if not is_protected(name) and not is_reserved(name)]


def note_nothing(topic: str) -> None:
    """Does nothing about a skipped topic."""


def raise_damage(_: TopicPartition, error: CorruptionError) -> None:
    """Ends the copy at the first damage."""
    raise error
