"""Commits, the state that they make, and checkpoints of it: as bytes and in memory. Knows no store and no clock."""
