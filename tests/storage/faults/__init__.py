"""The faults that real logs had, each with a scenario that fails where the fault is put back (docs/known_faults.md)."""
