"""Message sets of magic 0 and 1. ``v0`` and ``v1`` have the names of ``v2``; ``messages`` is what they share."""
