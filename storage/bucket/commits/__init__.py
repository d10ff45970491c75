"""Commits, the resulting state, and its checkpoints: as bytes and in memory. Uses no store and no clock."""
