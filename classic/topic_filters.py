"""Whitelist and Blacklist: choose topics by regular expressions, by Kafka's rules.

The text is a Java regular expression in which a comma may stand for ``|``. It must match a topic's whole name. Python's
expressions differ from Java's in few constructs, none of which names of topics need: ``\\p{...}``, ``\\Q...\\E``,
``\\h``, ``\\R``, ``\\z`` and operations on classes (``&&``) are refused or mean something else.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from ..storage import INTERNAL_TOPICS, InvalidConfigError

_ONLY_IN_JAVA = re.compile(r"\\[pPQEhHRzvVXGkx]|&&|\(\?<[A-Za-z]")
_NAMES = re.compile(r"[A-Za-z0-9|-]*")


@dataclass(frozen=True)
class TopicFilter(ABC):
    """Chooses topics by name. Raises InvalidConfigError for an invalid regular expression."""

    text: str
    expression: re.Pattern[str] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        text = self.text.strip().replace(",", "|").replace(" ", "").strip("\"'")
        if found := _ONLY_IN_JAVA.search(text):
            raise InvalidConfigError(f"{self.text!r}: {found[0]!r} of Java's regular expressions is not supported here")
        try:
            object.__setattr__(self, "expression", re.compile(text, re.ASCII))
        except re.error as error:
            raise InvalidConfigError(f"{self.text!r} is an invalid regular expression: {error}") from None

    def allows(self, topic: str, *, exclude_internal: bool = True) -> bool:
        """Whether a topic is chosen. Kafka's internal topics never are, unless ``exclude_internal`` is False."""
        return not (exclude_internal and topic in INTERNAL_TOPICS) and self._chooses(topic)

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether the filter may match topics that do not exist yet, rather than a list of fixed names."""

    @abstractmethod
    def _chooses(self, topic: str) -> bool: ...


class Whitelist(TopicFilter):
    """Chooses the topics whose whole name matches."""

    @property
    def is_open(self) -> bool:
        return _NAMES.fullmatch(self.expression.pattern) is None

    def _chooses(self, topic: str) -> bool:
        return self.expression.fullmatch(topic) is not None


class Blacklist(TopicFilter):
    """Chooses the topics whose whole name does not match."""

    @property
    def is_open(self) -> bool:
        return True

    def _chooses(self, topic: str) -> bool:
        return self.expression.fullmatch(topic) is None
