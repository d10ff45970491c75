"""Transactions over ``__transaction_state``: a coordinator in the driver, writers in tasks (docs/exactly_once.md)."""

from pyspark_commitlog.storage.transactions.coordinator import (
    NO_OFFSETS,
    TRANSACTION_TIMEOUT_MS,
    TransactionCoordinator,
    check_transactional_id,
)
from pyspark_commitlog.storage.transactions.dead import (
    OpenPartition,
    OpenTransaction,
    Resolution,
    ResolvedTransaction,
    expire_transactional_ids,
    open_transactions,
    resolve_dead_transactions,
)
from pyspark_commitlog.storage.transactions.hanging import (
    HoldingTransaction,
    abort_transaction,
    find_hanging,
    holding_transaction,
)
from pyspark_commitlog.storage.transactions.idempotent import IdempotentProducer
from pyspark_commitlog.storage.transactions.states import TransactionStates
from pyspark_commitlog.storage.transactions.ticket import Transaction, TransactionPart
from pyspark_commitlog.storage.transactions.writer import TransactionalWriter

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
