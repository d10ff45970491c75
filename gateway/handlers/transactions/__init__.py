"""Requests about transactions: what producers send, and what administrators ask.

Each function answers one kind of request; most run in the coordinator's thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .admin import (
        describe_transactions as describe_transactions,
        list_transactions as list_transactions,
        write_markers as write_markers,
    )
    from .producers import (
        NO_PRODUCER as NO_PRODUCER,
        add_offsets as add_offsets,
        add_partitions as add_partitions,
        end_transaction as end_transaction,
        init_transactions as init_transactions,
        initialised as initialised,
    )
    from .txn_offsets import commit_transactional_offsets as commit_transactional_offsets
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "admin": ["describe_transactions", "list_transactions", "write_markers"],
            "producers": [
                "NO_PRODUCER",
                "add_offsets",
                "add_partitions",
                "end_transaction",
                "init_transactions",
                "initialised",
            ],
            "txn_offsets": ["commit_transactional_offsets"],
        },
    )
