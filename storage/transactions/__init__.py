"""Transactions over ``__transaction_state``: a coordinator in the driver, writers in tasks (docs/exactly_once.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .abandoned import (
        OpenPartition as OpenPartition,
        OpenTransaction as OpenTransaction,
        Resolution as Resolution,
        ResolvedTransaction as ResolvedTransaction,
        expire_transactional_ids as expire_transactional_ids,
        open_transactions as open_transactions,
        resolve_dead_transactions as resolve_dead_transactions,
    )
    from .coordinator import (
        NO_OFFSETS as NO_OFFSETS,
        TRANSACTION_TIMEOUT_MS as TRANSACTION_TIMEOUT_MS,
        TransactionCoordinator as TransactionCoordinator,
    )
    from .ending import write_marker as write_marker
    from .hanging import (
        HangingTransaction as HangingTransaction,
        HoldingTransaction as HoldingTransaction,
        abort_transaction as abort_transaction,
        find_hanging as find_hanging,
        hanging_transactions as hanging_transactions,
        holding_transaction as holding_transaction,
    )
    from .idempotent import IdempotentProducer as IdempotentProducer
    from .producer_ids import (
        allot_producer_id as allot_producer_id,
        client_producer_id as client_producer_id,
        idempotent_producer_id as idempotent_producer_id,
        is_of_driver as is_of_driver,
        is_of_transactional_client as is_of_transactional_client,
    )
    from .states import (
        PREPARED as PREPARED,
        UNDECIDED as UNDECIDED,
        StateChange as StateChange,
        TransactionStates as TransactionStates,
        completed_state as completed_state,
        empty_state as empty_state,
        extended_state as extended_state,
        prepared_state as prepared_state,
        ungrouped as ungrouped,
    )
    from .transaction import Transaction as Transaction, TransactionPart as TransactionPart
    from .transactional_id import (
        TransactionalIdLock as TransactionalIdLock,
        check_transactional_id as check_transactional_id,
    )
    from .writer import TransactionalWriter as TransactionalWriter
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "abandoned": [
                "OpenPartition",
                "OpenTransaction",
                "Resolution",
                "ResolvedTransaction",
                "expire_transactional_ids",
                "open_transactions",
                "resolve_dead_transactions",
            ],
            "coordinator": ["NO_OFFSETS", "TRANSACTION_TIMEOUT_MS", "TransactionCoordinator"],
            "ending": ["write_marker"],
            "hanging": [
                "HangingTransaction",
                "HoldingTransaction",
                "abort_transaction",
                "find_hanging",
                "hanging_transactions",
                "holding_transaction",
            ],
            "idempotent": ["IdempotentProducer"],
            "producer_ids": [
                "allot_producer_id",
                "client_producer_id",
                "idempotent_producer_id",
                "is_of_driver",
                "is_of_transactional_client",
            ],
            "states": [
                "PREPARED",
                "UNDECIDED",
                "StateChange",
                "TransactionStates",
                "completed_state",
                "empty_state",
                "extended_state",
                "prepared_state",
                "ungrouped",
            ],
            "transaction": ["Transaction", "TransactionPart"],
            "transactional_id": ["TransactionalIdLock", "check_transactional_id"],
            "writer": ["TransactionalWriter"],
        },
    )
