"""Consumer groups: committed offsets, members, lag.

:class:`CompactedValues` keeps the current value per key of a compacted partition; ``offsets`` reads and commits
offsets in ``__consumer_offsets``; ``lag`` compares them with the logs.
"""
