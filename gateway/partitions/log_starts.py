"""LogStarts: log start offsets that other processes raised, such as ``commitlog delete-records``.

They are in one file of the log directory, so a partition's own files may show no change.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...storage import LOG_START_OFFSET_CHECKPOINT, LogManager, TopicPartition


class LogStarts:
    """The log start offsets in the checkpoint of a directory."""

    def __init__(self, manager: LogManager) -> None:
        """``manager``: used only here."""
        self._manager = manager
        self._seen: object = None
        self._found: Mapping[TopicPartition, int] = {}

    def all(self) -> Mapping[TopicPartition, int]:
        """Returns all offsets, another object if any process wrote the checkpoint since the last call.

        Raises CorruptionError and OSError if it cannot be read; the next call reads it again.
        """
        seen = self._status()
        if seen != self._seen:
            self._found = self._manager.offsets(LOG_START_OFFSET_CHECKPOINT)
            self._seen = seen
        return self._found

    def close(self) -> None:
        """Closes the manager."""
        self._manager.close()

    def _status(self) -> object:
        return self._manager.filesystem.status(self._manager.path(LOG_START_OFFSET_CHECKPOINT))
