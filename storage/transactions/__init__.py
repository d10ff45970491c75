"""Transactions over ``__transaction_state``: a coordinator in the driver, writers in tasks (docs/exactly_once.md)."""

from .abandoned import (
    OpenPartition,
    OpenTransaction,
    Resolution,
    ResolvedTransaction,
    expire_transactional_ids,
    open_transactions,
    resolve_dead_transactions,
)
from .coordinator import NO_OFFSETS, TRANSACTION_TIMEOUT_MS, TransactionCoordinator, check_transactional_id
from .hanging import HoldingTransaction, abort_transaction, find_hanging, holding_transaction
from .idempotent import IdempotentProducer
from .states import TransactionStates
from .transaction import Transaction, TransactionPart
from .writer import TransactionalWriter

__all__ = [
    "NO_OFFSETS",
    "TRANSACTION_TIMEOUT_MS",
    "HoldingTransaction",
    "IdempotentProducer",
    "OpenPartition",
    "OpenTransaction",
    "Resolution",
    "ResolvedTransaction",
    "Transaction",
    "TransactionCoordinator",
    "TransactionPart",
    "TransactionStates",
    "TransactionalWriter",
    "abort_transaction",
    "check_transactional_id",
    "expire_transactional_ids",
    "find_hanging",
    "holding_transaction",
    "open_transactions",
    "resolve_dead_transactions",
]
