"""Consumer groups: committed offsets, members, lag.

:class:`CompactedValues` keeps the current value per key of a compacted partition; ``offsets`` reads and commits
offsets in ``__consumer_offsets``; ``coordinated`` has the records that a coordinator of groups reads and writes there,
and ``bucket_groups`` those on an object store (``coordinator_port`` is their interface);
``in_use`` keeps coordinators and commands apart; ``lag`` compares offsets with the logs.
"""
