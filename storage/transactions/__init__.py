"""Transactions over ``__transaction_state``: a coordinator in the driver, writers in tasks (docs/exactly_once.md)."""
