"""Parses topic settings from ``kafka-configs --describe`` and ``kafka-topics --describe`` (Kafka 2.2 to 4).

``kafka-configs --describe --all`` lists every effective setting. ``kafka-topics --describe`` lists those that differ
from Kafka's defaults, set for the topic or for the broker, if it prints the topic's id (from Kafka 2.8 on). The other
outputs list only the topic's own settings.
"""

from __future__ import annotations

import re

from ...errors import InvalidConfigError
from ..topics_file import Known
from .found import FoundSettings, TopicSettings

_KEY = r"[a-z][A-Za-z0-9._-]*"
_HEAD = re.compile(r"(Dynamic|All) configs for topic (\S+) are:\s*")
_SETTING = re.compile(rf"\s+({_KEY})=(.*) sensitive=(?:true|false) synonyms=\{{.*\}}\s*")
_OLD_HEAD = re.compile(r"Configs for (?:topic )?'(?:topic )?(\S+?)' are ?(.*)")
_OF_TOPICS = re.compile(r"Topic: ?(\S+)\t(.*\t)?Configs: ?(.*)")
_OF_PARTITION = re.compile(r"\s*Topic: ?\S+\tPartition: ?\d+\t.*")
_PAIR = re.compile(rf"({_KEY})=(.*?)(?:,(?={_KEY}=)|$)")  # a value may hold commas: cleanup.policy=compact,delete


def parse_described(text: str, source: str) -> FoundSettings:
    """Returns the topic settings in ``text``, the output of one of Kafka's tools.

    ``source`` is the name of the text in errors. Raises InvalidConfigError, with the line number, for a line that the
    tools do not print, and if no topic is named.
    """
    topics: dict[str, TopicSettings] = {}
    configs: dict[str, str] | None = None  # of the topic whose settings follow, one per line
    for number, line in enumerate(text.splitlines(), 1):
        if found := _HEAD.fullmatch(line):
            configs = {}
            topics[found[2]] = TopicSettings(configs, Known.ALL if found[1] == "All" else Known.OWN)
        elif (found := _SETTING.fullmatch(line)) and configs is not None:
            configs[found[1]] = found[2]
        elif found := _OF_TOPICS.fullmatch(line):
            is_all = "TopicId:" in (found[2] or "")
            topics[found[1]] = TopicSettings(_pairs(found[3]), Known.ALL if is_all else Known.OWN)
        elif found := _OLD_HEAD.fullmatch(line):
            topics[found[1]] = TopicSettings(_pairs(found[2]), Known.OWN)
        elif line.strip() and not _OF_PARTITION.fullmatch(line):
            raise InvalidConfigError(f"{source}, line {number}: {line.strip()[:80]!r} is not output of {_TOOLS}")
    if not topics:
        raise InvalidConfigError(f"{source}: contains no topic; it must hold output of {_TOOLS}")
    return FoundSettings(topics)


_TOOLS = "kafka-configs --describe --entity-type topics (better with --all) or kafka-topics --describe"


def _pairs(text: str) -> dict[str, str]:
    return {found[1]: found[2] for found in _PAIR.finditer(text.strip())}
