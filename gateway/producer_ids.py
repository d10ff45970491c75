"""ProducerIds: hands out producer ids."""

from __future__ import annotations

from collections.abc import Iterator

from ..storage import LogManager, TransactionStates, allot_producer_id, claim_app

APP = "__gateway.producer-ids"  # on an object store: each commit that opens the app takes a block
FIRST_ON_A_STORE = 2**45  # a broker with a copy of the log assigns ids from 0, a log directory from 2^40
BLOCK = 1000  # ids that are reserved together, as by a broker: each reservation is a write to the disk


class ProducerIds:
    """Hands out producer ids, each once. Belongs to one thread."""

    def __init__(self) -> None:
        self._block: Iterator[int] = iter(())

    def next(self, manager: LogManager) -> int:
        """Returns an id that no other producer of the log has; the kind of client determines the range.

        Raises LogDirLockedError while a broker runs on the directory.
        """
        found = next(self._block, None)
        if found is not None:
            return found
        first = _block(manager)
        self._block = iter(range(first + 1, first + BLOCK))
        return first


def _block(manager: LogManager) -> int:
    """Returns the first id of a new block; durable."""
    if manager.bucket is not None:
        return FIRST_ON_A_STORE + (claim_app(manager.bucket, APP, None, None).epoch - 1) * BLOCK
    manager.check_writable()
    return allot_producer_id(TransactionStates(manager), (), count=BLOCK)
