"""Transactions of clients, with the same states, locks and markers as Spark's sink.

:class:`TransactionCoordinator` answers; it runs in one thread and knows no sockets. ``held`` has the state of a
transactional id, from the id's first request until it is idle; during that time the coordinator holds the id's lock,
which keeps Spark's drivers out. ``store`` reads, writes and syncs ``__transaction_state`` in a thread of its own, but
writes that need not wait are done in the coordinator's; ``markers`` writes the markers that end a transaction, ``gate``
decides which batches may be appended, and ``threads`` has the threads.
"""
