"""Transactions of clients, with the same states, locks and markers as Spark's sink.

:class:`TransactionCoordinator` answers; it runs in one thread and knows no sockets. ``held`` has its state of a
transactional id, from the id's first request until it is idle; during that time it holds the id's lock, which keeps
Spark's drivers out. ``store`` reads and writes ``__transaction_state`` in a thread of its own, ``markers`` writes the
markers that end a transaction, ``gate`` decides which batches may be appended, and ``threads`` has the threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .coordinator import TransactionCoordinator as TransactionCoordinator
    from .gate import Gate as Gate, known_before as known_before
    from .ids import HeldIds as HeldIds
    from .markers import Markers as Markers
    from .store import (
        OthersStates as OthersStates,
        StoredStates as StoredStates,
        TransactionStore as TransactionStore,
    )
    from .threads import TransactionThreads as TransactionThreads
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "coordinator": ["TransactionCoordinator"],
            "gate": ["Gate", "known_before"],
            "ids": ["HeldIds"],
            "markers": ["Markers"],
            "store": ["OthersStates", "StoredStates", "TransactionStore"],
            "threads": ["TransactionThreads"],
        },
    )
