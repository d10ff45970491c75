"""A warning if the records written to a topic are already older than its retention time."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ...storage import LogManager, instant
from .answers import Written

logger = logging.getLogger(__name__)

_warned: set[tuple[str, str]] = set()  # directories and topics that this process warned of


def warn_if_old(manager: LogManager, what: str, written: Iterable[Written]) -> None:
    """Logs a warning, once per topic, if the records that ``what`` wrote are already older than retention.ms."""
    newest: dict[str, int] = {}
    for each in written:
        newest[each.topic] = max(newest.get(each.topic, -1), each.newest_ms)
    for topic, newest_ms in newest.items():
        if newest_ms >= 0 and (manager.directory, topic) not in _warned:
            _warn_if_old(manager, what, topic, newest_ms)


def _warn_if_old(manager: LogManager, what: str, topic: str, newest_ms: int) -> None:
    config = manager.config(topic)
    if not config.delete or config.retention_ms < 0 or newest_ms >= manager.clock.now_ms() - config.retention_ms:
        return
    _warned.add((manager.directory, topic))
    logger.warning(
        "%s: the newest record for topic %s is from %s, which is older than retention.ms = %d allows: retention "
        "deletes segments with only such records; a segment in which a transaction ended is deleted that long after "
        "its end. To keep history, set the topic's retention.ms to -1",
        what,
        topic,
        instant(newest_ms),
        config.retention_ms,
    )
