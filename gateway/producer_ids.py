"""ProducerIds: hands out producer ids."""

from __future__ import annotations

from collections.abc import Iterator

from ..storage import LogManager, TransactionStates, allot_producer_id

BLOCK = 1000  # ids that are taken at once, as by a broker: taking them is a write to the disk


class ProducerIds:
    """Hands out producer ids, each once. Belongs to one thread."""

    def __init__(self) -> None:
        self._block: Iterator[int] = iter(())

    def next(self, manager: LogManager) -> int:
        """Returns an id that no other producer of the directory has.

        Raises LogDirLockedError while a broker runs on the directory.
        """
        found = next(self._block, None)
        if found is not None:
            return found
        manager.check_writable()
        first = allot_producer_id(TransactionStates(manager), (), count=BLOCK)
        self._block = iter(range(first + 1, first + BLOCK))
        return first
