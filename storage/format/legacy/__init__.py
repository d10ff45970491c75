"""Message sets of magic 0 and 1. ``v0`` and ``v1`` export the same names as ``v2``; they share ``messages``."""
