"""Retention of a log of 0.7: deletes its first files by the time of their last change, then by size."""

from __future__ import annotations

from ...storage.clock import Clock
from .log import PositionLog


def retain(log: PositionLog, clock: Clock) -> list[str]:
    """Deletes the files that the settings do not keep, and returns their paths (LogManager.cleanupLogs of 0.7.2)."""
    return [*_expired(log, clock), *_above_size(log)]


def _expired(log: PositionLog, clock: Clock) -> list[str]:
    before_ms = clock.now_ms() - log.settings.retention_ms_of(log.topic)
    return log.delete_while(lambda _, modified_ms: modified_ms < before_ms)


def _above_size(log: PositionLog) -> list[str]:
    """Deletes files as long as at least ``log.retention.size`` bytes remain."""
    surplus = log.size - log.settings.retention_size
    if log.settings.retention_size < 0 or surplus < 0:
        return []

    def is_deleted(size: int, _modified_ms: int) -> bool:
        nonlocal surplus
        if size > surplus:
            return False
        surplus -= size
        return True

    return log.delete_while(is_deleted)
