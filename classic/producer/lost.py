"""Lost: which messages of a call were not sent, and why."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import NotSentError
from .messages import QueueItem


class Lost:
    """Collects messages that were not sent, with the error of each."""

    def __init__(self) -> None:
        self._items: list[QueueItem] = []
        self._errors: list[Exception] = []

    def add(self, items: Sequence[QueueItem], error: Exception) -> None:
        self._items += items
        if not any(error is each for each in self._errors):
            self._errors.append(error)

    def add_error(self, items: Sequence[QueueItem], error: Exception) -> None:
        """Adds ``items``, or those that a NotSentError names."""
        if isinstance(error, NotSentError):
            items = [each for each in error.items if isinstance(each, QueueItem)]
        self.add(items, error)

    def raise_any(self, total: int) -> None:
        """Raises the error if it is the only one and no message was sent.

        Otherwise NotSentError if some were not sent.
        """
        if not self._items:
            return
        first = self._errors[0]
        if len(self._errors) == 1 and len(self._items) == total:
            raise first
        reasons = "; ".join(dict.fromkeys(f"{each}" for each in self._errors[:3]))
        raise NotSentError(f"{len(self._items)} of {total} messages were not sent: {reasons}", self._items) from first
