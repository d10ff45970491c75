"""Groups of consumers: members, assignments and committed offsets, by Kafka's classic protocol and that of Kafka 4.

:class:`GroupCoordinator` answers; it runs in one thread and knows no sockets. ``membership`` answers the requests of
members, ``rebalancing`` leads from one generation to the next, ``group`` and ``member`` hold the state. ``consumers``
answers members of groups of Kafka 4, which are in ``gateway/consumer_groups``, and stores them, ``classic_members``
those in such groups that use the classic protocol. ``offsets`` commits, fetches and deletes offsets, ``expiry`` finds
those that have expired, ``reservations`` has the ids that clients have not joined with yet, ``store`` reads and writes
in a thread of its own, and ``threads`` starts both threads.
"""
