"""Faults that real logs had, each with a scenario that fails if the fault is put back (docs/known_faults.md)."""
