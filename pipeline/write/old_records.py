"""A warning if the records written to a topic are already older than its retention time."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from ...storage import LogConfig, SystemClock, TopicDescription, instant
from .answers import Written

logger = logging.getLogger(__name__)

_warned: set[tuple[str, str]] = set()  # directories and topics that this process warned of


def warn_if_old(directory: str, topics: Mapping[str, TopicDescription], what: str, written: Iterable[Written]) -> None:
    """Logs a warning, once per topic, if the records that ``what`` wrote are already older than retention.ms."""
    newest: dict[str, int] = {}
    for each in written:
        newest[each.topic] = max(newest.get(each.topic, -1), each.newest_ms)
    for topic, newest_ms in newest.items():
        if newest_ms >= 0 and (directory, topic) not in _warned and _is_old(topics[topic], newest_ms):
            _warned.add((directory, topic))
            _warn(what, topic, newest_ms, _config(topics[topic]).retention_ms)


def _is_old(topic: TopicDescription, newest_ms: int) -> bool:
    config = _config(topic)
    return config.delete and 0 <= config.retention_ms < SystemClock().now_ms() - newest_ms


def _config(topic: TopicDescription) -> LogConfig:
    return LogConfig.from_mapping(topic.configs, broker=topic.broker)


def _warn(what: str, topic: str, newest_ms: int, retention_ms: int) -> None:
    logger.warning(
        "%s: the newest record for topic %s is from %s, which is older than retention.ms = %d allows: retention "
        "deletes segments with only such records; a segment in which a transaction ended is deleted that long after "
        "its end. To keep history, set the topic's retention.ms to -1",
        what,
        topic,
        instant(newest_ms),
        retention_ms,
    )
